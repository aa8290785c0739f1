package workspace

import (
	"cmp"
	"context"
	"fmt"
	"path"
)

// describe sets the description of a change: text facts and hunks, or binary facts,
// and the findings about the content.
func (f *FileChange) describe(ctx context.Context, textLimit int64) error {
	f.Text, f.Binary, f.Hunks, f.Added, f.Removed = nil, nil, nil, 0, 0
	if f.pre == nil && f.post == nil {
		return nil
	}
	s, err := f.sides(ctx, textLimit)
	if err != nil {
		return err
	}
	if s.ok {
		f.Text = &s.facts[1]
		if f.post == nil {
			f.Text = &s.facts[0]
		}
		f.Hunks, f.Added, f.Removed = diffText(s.before, s.after)
		return nil
	}
	shown := cmp.Or(f.post, f.pre)
	if f.Binary, err = lookBinary(ctx, shown); err != nil {
		return err
	}
	if f.post == nil {
		return nil
	}
	if f.pre != nil {
		old, err := lookBinary(ctx, f.pre)
		if err != nil {
			return err
		}
		f.Binary.OldType = old.Type
	}
	if f.pre == nil || f.pre.hash != f.post.hash {
		f.suspect()
	}
	return nil
}

// suspect adds the findings about a new binary content.
func (f *FileChange) suspect() {
	add := func(severity Severity, rule, message string) {
		f.Findings = append(f.Findings, finding(severity, rule, "", "%s", message))
	}
	if why := f.Binary.suspicion(f.Path, f.post); why != "" {
		add(Ask, "binary.active", why)
	}
	if why := f.Binary.mismatch(f.Path); why != "" {
		add(Note, "binary.mismatch", why)
	}
	if f.pre != nil && f.Binary.OldType != f.Binary.Type {
		add(Note, "binary.type", fmt.Sprintf("a file of type %s would become one of type %s", f.Binary.OldType,
			f.Binary.Type))
	}
}

// sides are both sides of a change as texts. A file that is not there is an
// empty text.
type sides struct {
	before, after string
	facts         [2]TextFacts
	ok            bool // both are texts, no larger than the limit
}

func (f *FileChange) sides(ctx context.Context, limit int64) (s sides, err error) {
	s.facts[0].Encoding, s.facts[1].Encoding, s.ok = "utf-8", "utf-8", true
	texts := [...]*string{&s.before, &s.after}
	for i, c := range []*Content{f.pre, f.post} {
		if c == nil {
			continue
		}
		if c.size > limit {
			s.ok = false
			continue
		}
		data, err := c.Bytes(ctx, limit)
		if err != nil {
			return s, err
		}
		var ok bool
		*texts[i], s.facts[i], ok = decodeText(data)
		s.ok = s.ok && ok
	}
	return s, nil
}

// withHunks returns the text with only some hunks of a change, and both sides.
func (f *FileChange) withHunks(ctx context.Context, ids []string, limit int64) (string, sides, error) {
	s, err := f.sides(ctx, limit)
	if err != nil {
		return "", s, err
	}
	text, err := applyHunks(s.before, f.Hunks, ids)
	return text, s, err
}

// Preview returns how a page may show the content: "text", "image", or "none".
// Files that could carry scripts (SVG, HTML) are "text".
func (f *FileChange) Preview() string {
	switch {
	case f.Text != nil:
		return "text"
	case f.Binary == nil:
		return "none"
	}
	switch f.Binary.Type {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "image"
	}
	return "none"
}

// Summary returns one line about the file, such as "update src/a.ts (+3 -1)".
func (f *FileChange) Summary() string {
	name := f.Path
	if f.From != "" {
		name = f.From + " to " + f.Path
	}
	switch {
	case f.Op == OpUnchanged:
		return "unchanged " + name
	case f.Text != nil && f.Added+f.Removed > 0:
		return fmt.Sprintf("%s %s (+%d -%d)", f.Op, name, f.Added, f.Removed)
	case f.Binary != nil && f.Pre.Exists && f.Post.Exists:
		return fmt.Sprintf("%s %s (%s, %d to %d bytes)", f.Op, name, f.Binary.Type, f.Pre.Size, f.Post.Size)
	case f.Binary != nil:
		return fmt.Sprintf("%s %s (%s, %d bytes)", f.Op, name, f.Binary.Type, f.Pre.Size+f.Post.Size)
	}
	return fmt.Sprintf("%s %s", f.Op, path.Clean(name))
}
