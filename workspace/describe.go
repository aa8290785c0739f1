package workspace

import (
	"cmp"
	"context"
	"fmt"
	"path"
)

// describe fills in what a person sees of a file: text facts and hunks, or
// binary facts, and the findings about its content.
func (f *FileChange) describe(ctx context.Context, textLimit int64) error {
	f.Text, f.Binary, f.Hunks, f.Added, f.Removed = nil, nil, nil, 0, 0
	if f.pre == nil && f.post == nil {
		return nil
	}
	before, oldFacts, oldText, err := sideText(ctx, f.pre, textLimit)
	if err != nil {
		return err
	}
	after, facts, isText, err := sideText(ctx, f.post, textLimit)
	if err != nil {
		return err
	}
	if f.post == nil {
		facts = oldFacts
	}
	if oldText && isText {
		f.Text = &facts
		f.Hunks, f.Added, f.Removed = diffText(before, after)
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
		f.Findings = append(f.Findings, Finding{Rule: rule, Severity: severity, Message: message})
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

// sideText returns one side of a change as text; a file that is not there is
// an empty text.
func sideText(ctx context.Context, c *Content, limit int64) (string, TextFacts, bool, error) {
	if c == nil {
		return "", TextFacts{Encoding: "utf-8"}, true, nil
	}
	if c.size > limit {
		return "", TextFacts{}, false, nil
	}
	data, err := c.Bytes(ctx, limit)
	if err != nil {
		return "", TextFacts{}, false, err
	}
	text, facts, ok := decodeText(data)
	return text, facts, ok, nil
}

// Preview is how a content may be shown by a page: "text", "image", or "none".
// What could carry scripts (SVG, HTML) is shown as text.
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
