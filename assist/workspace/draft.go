package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// write gives a draft a whole new content.
func (pl *planner) write(ctx context.Context, d *draft, c *Change) error {
	if c.Content == nil {
		return errors.New("a change that writes a file needs its content")
	}
	content := c.Content
	if d.cur != nil && d.cur.hash != content.hash {
		switch c.Clash {
		case ClashRefuse:
			d.find(Conflict, "write.exists", "choose to replace it, to keep it, or another name", "a file of this name exists")
		case ClashSkip:
			d.find(Note, "write.skipped", "", "a file of this name exists and is kept")
			return nil
		case ClashRename:
			free, err := pl.free(ctx, d.path)
			if err != nil {
				return err
			}
			pl.remember(free, c)
			free.find(Note, "write.renamed", "", "a file named %q exists", d.path)
			free.cur = content
			return nil
		}
	}
	if c.Executable && d.cur == nil {
		if head, err := content.head(ctx); err != nil {
			return err
		} else if strings.HasPrefix(string(head), "#!") {
			d.exec = true
		}
	}
	if !c.Exact && !c.Generated {
		if err := pl.unlikely(ctx, d, content); err != nil {
			return err
		}
	}
	d.readings = nil
	if c.Exact || content.size > pl.w.limits.TextBytes {
		d.cur = content
		return nil
	}
	data, err := content.Bytes(ctx, pl.w.limits.TextBytes)
	if err != nil {
		return err
	}
	if err := pl.readings(ctx, d, c); err != nil {
		return err
	}
	d.authored = !c.Generated
	d.cur, err = pl.fit(ctx, d, c, data)
	return err
}

// unlikely finds changes that the author of a text hardly intends: to empty a file, or to
// replace a picture by a text. It refuses a text that is too large.
func (pl *planner) unlikely(ctx context.Context, d *draft, content *Content) error {
	head, err := content.head(ctx)
	if err != nil || !isText(head) {
		return err
	}
	if content.size > pl.w.limits.TextBytes {
		d.find(Refuse, "quota.size", "", "%d bytes are more than a text file may have (%d)", content.size,
			pl.w.limits.TextBytes)
	}
	if d.cur != nil && d.cur.size > 0 && len(bytes.TrimSpace(head)) == 0 && content.size == int64(len(head)) {
		d.find(Ask, "write.empty", "", "it would leave nothing of the %d bytes of the file", d.cur.size)
	}
	if d.cur != nil {
		old, err := d.cur.head(ctx)
		if err != nil {
			return err
		}
		if !isText(old) {
			d.find(Ask, "binary.replaced", "", "a text would take the place of a file that is no text (%s)",
				mimetype.Detect(old).String())
			return nil
		}
	}
	if kind := promisedType(d.path); kind != "" && !strings.HasPrefix(kind, "text/") && kind != "application/json" {
		d.find(Ask, "binary.replaced", "", "the name is that of a file of type %s, and the content is a text", kind)
	}
	return nil
}

// isText reports whether the first bytes of a file are those of a text.
func isText(head []byte) bool {
	if len(head) >= sniffLength { // it may end within a character
		for cut := range utf8.UTFMax {
			if utf8.Valid(head[:len(head)-cut]) {
				head = head[:len(head)-cut]
				break
			}
		}
	}
	_, _, ok := decodeText(head)
	return ok
}

// readings gives each reading of the change the form of the file that it replaces.
func (pl *planner) readings(ctx context.Context, d *draft, c *Change) error {
	var old []byte
	if d.cur != nil && d.cur.size <= pl.w.limits.TextBytes {
		var err error
		if old, err = d.cur.Bytes(ctx, pl.w.limits.TextBytes); err != nil {
			return err
		}
	}
	var all []Reading
	for _, r := range c.Readings {
		data, err := r.Content.Bytes(ctx, pl.w.limits.TextBytes)
		if err != nil {
			return err
		}
		if d.cur == nil {
			r.Content = newText(data, pl.tree.newEOL(ctx, d.path))
		} else {
			r.Content = Bytes(adopt(old, data))
		}
		all = append(all, r)
	}
	d.readings = pl.offer(all)
	return nil
}

// Bounds of one proposal. The bytes that edits read and make bound its work: about three
// seconds. Readings are kept for as long as the proposal is.
const (
	maxReadings     = 9 // of one file
	maxEditedBytes  = 256 << 20
	maxReadingBytes = 64 << 20
)

// offer returns the readings that differ, with their ids, unless those of the whole proposal
// have more bytes than maxReadingBytes.
func (pl *planner) offer(all []Reading) []Reading {
	var kept []Reading
	for _, r := range all {
		r.Post = Fact{Exists: true, Hash: r.Content.hash, Size: r.Content.size}
		if slices.ContainsFunc(kept, func(k Reading) bool { return k.Post == r.Post }) {
			continue
		}
		if pl.offered += r.Content.size; len(kept) == maxReadings || pl.offered > maxReadingBytes {
			break
		}
		r.ID = fmt.Sprintf("r%d", len(kept)+1)
		kept = append(kept, r)
	}
	if len(kept) < 2 {
		return nil
	}
	return kept
}

// fit gives a text the line ends of the file that it replaces, or of its
// neighbours, and merges it with what was changed since its author looked.
func (pl *planner) fit(ctx context.Context, d *draft, c *Change, data []byte) (*Content, error) {
	if d.cur == nil {
		return newText(data, pl.tree.newEOL(ctx, d.path)), nil
	}
	old, err := d.cur.Bytes(ctx, pl.w.limits.TextBytes)
	if err != nil {
		return Bytes(data), nil //nolint:nilerr // too large to be a text: it is replaced as it is
	}
	if _, facts, ok := decodeText(old); ok && facts.Encoding == "unknown" {
		d.find(Ask, "text.encoding", "", "the present file is a text in an encoding that is not UTF-8; the new one is UTF-8")
	}
	data = adopt(old, data)
	if c.Base == nil || Sum(c.Base) == d.cur.hash {
		return Bytes(data), nil
	}
	theirs := Bytes(adopt(c.Base, data))
	return d.mergeIn(Bytes(c.Base), d.cur, theirs, "since the author of the change was shown it"), nil
}

// newText gives a new text its line ends.
func newText(data []byte, eol string) *Content {
	text, facts, ok := decodeText(data)
	if ok && facts.Encoding == "utf-8" && facts.EOL == "lf" && eol == "\r\n" {
		data = facts.encode(strings.ReplaceAll(text, "\n", eol))
	}
	return Bytes(data)
}

// mergeIn merges a change with one of another process. If they overlap, it is a
// conflict, and mergeIn returns theirs.
func (d *draft) mergeIn(base, mine, theirs *Content, since string) *Content {
	d.merge = &mergeSides{base, mine, theirs}
	merged, conflicts, ok := mergeContents(base, mine, theirs)
	switch {
	case !ok:
		d.find(Conflict, "merge.binary", "choose one of the two",
			"the file was changed %s, and is no text that could be merged", since)
		return theirs
	case conflicts > 0:
		d.find(Conflict, "merge.overlap", "choose one of the two, or edit", "the file was changed %s, %s", since,
			places(conflicts))
		return theirs
	}
	d.find(Ask, "merge.clean", "", "the file was changed %s; both changes are in this version", since)
	return Bytes(merged)
}

func places(n int) string {
	if n == 1 {
		return "in the same place"
	}
	return fmt.Sprintf("in %d of the same places", n)
}

// mergeContents merges texts. ok is false if one of the contents is no text.
func mergeContents(base, mine, theirs *Content) (merged []byte, conflicts int, ok bool) {
	var texts [3]string
	var facts [3]TextFacts
	for i, c := range []*Content{base, mine, theirs} {
		if c.data == nil {
			return nil, 0, false
		}
		if texts[i], facts[i], ok = decodeText(c.data); !ok || facts[i].Encoding == "unknown" {
			return nil, 0, false
		}
	}
	text, conflicts := Merge(texts[0], texts[1], texts[2])
	return facts[1].encode(text), conflicts, true
}

// modify edits a draft's content.
func (pl *planner) modify(ctx context.Context, d *draft, c *Change) error {
	before := len(d.findings)
	edited, err := pl.edit(ctx, d, d, c)
	if c.Guess && (edited == nil || len(d.findings) > before) {
		d.find(Ask, "change.doubt", "", "%s", c.Doubt)
	}
	if edited != nil {
		if limit := pl.w.limits.TextBytes; edited.size > limit {
			d.find(Refuse, "quota.size", "", "%d bytes are more than a text file may have (%d)", edited.size, limit)
		}
		d.cur = edited
	}
	return err
}

// edit returns the source's content after an edit. If the edit does not fit, it
// returns nil and adds a finding to d.
func (pl *planner) edit(ctx context.Context, d, source *draft, c *Change) (*Content, error) {
	if c.Edit == nil {
		return nil, errors.New("a change that modifies a file needs an edit")
	}
	if source.cur == nil {
		// An edit that only adds can be meant as a new file.
		if added, err := c.Edit(nil); err == nil && len(added) > 0 && source == d {
			d.find(Ask, "edit.creates", "", "there is no such file to edit; it would be new, with the lines that the edit adds")
			return newText(added, pl.tree.newEOL(ctx, d.path)), nil
		}
		d.find(Conflict, "edit.missing", "", "there is no such file to edit")
		return nil, nil
	}
	data, err := source.cur.Bytes(ctx, pl.w.limits.TextBytes)
	if err != nil {
		d.find(Conflict, "edit.large", "", "the file is too large to be edited: %v", err)
		return nil, nil
	}
	edited, inexact, err := pl.editText(data, c)
	switch {
	case errors.Is(err, errTooComplex):
		d.find(Conflict, "edit.too_complex", "apply it in parts, or ask for the whole file", "%v", err)
		return nil, nil
	case errors.Is(err, errNoText):
		d.find(Conflict, "text.encoding", "", "%v", err)
		return nil, nil
	case err != nil:
		d.find(Conflict, "edit.failed", "ask for the edit again, with the present content of the file", "%v", err)
		return nil, nil
	case inexact.Sure:
		d.find(Note, "edit.inexact", "", "%s", inexact.Reason)
	case inexact.Reason != "":
		d.find(Ask, "edit.inexact", "", "%s", inexact.Reason)
	}
	d.authored = true
	content := Bytes(edited)
	d.readings, err = pl.editEach(ctx, source, content, inexact.Readings, c)
	return content, err
}

// errNoText is the error of an edit of a file that is no text.
var errNoText = errors.New("the file is no UTF-8 text, so an edit could damage it")

// errTooComplex is the error of an edit after the others took all the work that a proposal
// may take.
var errTooComplex = fmt.Errorf("the edits before read and made more than %d MiB, which is all that one reply may take",
	maxEditedBytes>>20)

// editText edits the bytes of a file, which keep their encoding. An edit that
// does not fit exactly has a reason in inexact.
func (pl *planner) editText(data []byte, c *Change) (edited []byte, inexact Inexact, err error) {
	if pl.edited += int64(len(data)); pl.edited > maxEditedBytes {
		return nil, inexact, errTooComplex
	}
	edited, inexact, err = editText(data, c)
	pl.edited += int64(len(edited))
	for _, r := range inexact.Readings {
		pl.edited += r.Content.size
	}
	return edited, inexact, err
}

func editText(data []byte, c *Change) (edited []byte, inexact Inexact, err error) {
	text, facts, ok := decodeText(data)
	if !ok || facts.Encoding == "unknown" {
		return nil, inexact, errNoText
	}
	if facts.Encoding == "utf-16" {
		data = []byte(text)
	}
	edited, err = c.Edit(data)
	if e, ok := errors.AsType[*Inexact](err); ok && edited != nil {
		inexact, err = *e, nil
	}
	if err != nil || facts.Encoding != "utf-16" {
		return edited, inexact, err
	}
	inexact.Readings = slices.Clone(inexact.Readings)
	for i, r := range inexact.Readings {
		inexact.Readings[i].Content = Bytes(facts.encode(string(r.Content.data)))
	}
	return facts.encode(string(edited)), inexact, nil
}

// editEach returns the readings of a file after an edit, whose result for the present content
// is known: each one before it, in each way in which the edit fits.
func (pl *planner) editEach(
	ctx context.Context, source *draft, edited *Content, now []Reading, c *Change,
) ([]Reading, error) {
	if len(source.readings) == 0 {
		return pl.offer(now), nil
	}
	var after []Reading
	for _, r := range source.readings {
		pl.offered -= r.Content.size // its results take its place
	}
	for _, r := range source.readings {
		if len(after) >= maxReadings {
			break // more are not offered
		}
		each, content := now, edited
		if r.Content.hash != source.cur.hash {
			data, err := r.Content.Bytes(ctx, pl.w.limits.TextBytes)
			if err != nil {
				return nil, err
			}
			other, inexact, err := pl.editText(data, c)
			if err != nil {
				continue // it fits only in the others
			}
			each, content = inexact.Readings, Bytes(other)
		}
		for _, next := range each {
			after = append(after, Reading{What: r.What + "; " + next.What, Content: next.Content})
		}
		if len(each) == 0 {
			after = append(after, Reading{What: r.What, Content: content})
		}
	}
	return pl.offer(after), nil
}

// rename moves a draft's content to another path.
func (pl *planner) rename(ctx context.Context, d *draft, c *Change) error {
	to, err := pl.target(ctx, c, c.To)
	if err != nil {
		return err
	}
	pl.remember(to, c)
	switch {
	case to.refused():
		return nil
	case d.cur == nil && (to.cur == nil || d.pre != nil && to.from != d):
		to.find(Conflict, "edit.missing", "", "there is no file %s to rename", d.path)
		return nil
	case d.cur == nil:
		to.find(Note, "rename.done", "", "it has this name already: there is no file %s", d.path)
		if c.Edit != nil {
			return pl.modify(ctx, to, c)
		}
		return nil
	case to == d:
		if c.Edit != nil {
			return pl.modify(ctx, d, c)
		}
		return nil
	case to.cur != nil:
		to.find(Conflict, "rename.exists", "", "a file of this name exists, so %s cannot take its place", d.path)
		return nil
	}
	content := d.cur
	if c.Edit != nil {
		content, err = pl.edit(ctx, to, d, c)
		if err != nil || content == nil {
			return err
		}
	}
	if c.Edit == nil {
		to.readings = d.readings
	}
	to.cur, d.cur, d.readings = content, nil, nil
	to.mode, to.exec = d.mode, d.exec
	switch {
	case d.pre != nil:
		to.from, d.movedTo = d, to
	case d.from != nil: // renamed twice
		to.from, d.from.movedTo = d.from, to
	}
	return nil
}

// free returns a draft of an unused name like path.
func (pl *planner) free(ctx context.Context, name string) (*draft, error) {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if path.Base(stem) == "." || stem == "" || strings.HasSuffix(stem, "/") {
		stem, ext = name, ""
	}
	for i := 2; ; i++ {
		try := fmt.Sprintf("%s (%d)%s", stem, i, ext)
		parent, base := splitPath(try)
		other, err := pl.tree.spelling(parent, base)
		if err != nil {
			return nil, err
		}
		n, err := pl.tree.stat(try)
		if err != nil {
			return nil, err
		}
		if d, ok := pl.drafts[try]; (!ok || d.cur == nil) && other == "" && !n.exists() {
			return pl.draft(ctx, try)
		}
	}
}

// generatedPath returns the path of a file that a program left in a container,
// relative to the directories of a user's files there, or the bare name.
func generatedPath(spelled string) (string, []Finding) {
	name := strings.ReplaceAll(strings.TrimSpace(spelled), `\`, "/")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "sandbox:"), "file://")
	for _, dir := range []string{"/mnt/data/", "/workspace/", "/mnt/user-data/outputs/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			return rest, nil
		}
	}
	if strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
		return path.Base(name), []Finding{finding(Note, "path.container", "", "only the name of %q was kept", spelled)}
	}
	return name, nil
}

// freeName returns a new name for a file whose own name cannot be used.
func (pl *planner) freeName(ctx context.Context, c *Change) string {
	ext := ""
	if head, err := c.Content.head(ctx); err == nil {
		ext = mimetype.Detect(head).Extension()
	}
	for i := 1; ; i++ {
		name := fmt.Sprintf("output-%d%s", i, ext)
		if n, err := pl.tree.stat(name); err != nil || !n.exists() && pl.drafts[name] == nil {
			return name
		}
	}
}
