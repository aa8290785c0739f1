package workspace

import (
	"context"
	"strings"
)

// Versions are the versions of a file in conflict to choose from. A nil content is a
// missing file, or, for Base, an unknown one.
type Versions struct {
	Base   *Content // from which both others were made
	Mine   *Content // the folder's content
	Theirs *Content // the proposed content
}

// Versions returns the versions of a file: before it is changed, and as it is
// proposed. Base is known where the file was changed by both sides.
func (f *FileChange) Versions() Versions {
	if f.merge != nil {
		return Versions{Base: f.merge.base, Mine: f.merge.mine, Theirs: f.merge.theirs}
	}
	return Versions{Mine: f.pre, Theirs: f.post}
}

// bases returns the facts of the common versions of files in conflict.
func bases(files []FileChange) map[string]Fact {
	var all map[string]Fact
	for i := range files {
		f := &files[i]
		if f.merge == nil || f.merge.base == nil || f.Verdict() != Conflict {
			continue
		}
		if all == nil {
			all = map[string]Fact{}
		}
		all[f.ID] = Fact{Exists: true, Hash: f.merge.base.hash, Size: f.merge.base.size}
	}
	return all
}

// Draft returns the proposed text for an editor: without byte order mark, and with LF
// line ends. Where two sides changed the same lines it has both, between conflict
// marks. ok is false for a content that cannot be edited as a text without damage.
func (f *FileChange) Draft(ctx context.Context, limit int64) (text string, ok bool, err error) {
	v := f.Versions()
	if f.Verdict() == Conflict && v.Base != nil && v.Mine != nil && v.Theirs != nil {
		var sides [3]string
		for i, c := range []*Content{v.Base, v.Mine, v.Theirs} {
			if sides[i], ok, err = editable(ctx, c, limit); err != nil || !ok {
				return "", false, err
			}
		}
		merged, _ := Merge(sides[0], sides[1], sides[2])
		return merged, true, nil
	}
	if f.post == nil {
		return "", f.Text != nil, nil
	}
	return editable(ctx, f.post, limit)
}

// editable returns a text as an editor shows it.
func editable(ctx context.Context, c *Content, limit int64) (text string, ok bool, err error) {
	if c.size > limit {
		return "", false, nil
	}
	data, err := c.Bytes(ctx, limit)
	if err != nil {
		return "", false, err
	}
	text, facts, ok := decodeText(data)
	text = strings.ReplaceAll(text, "\r\n", "\n")
	// An editor that knows one line end only would make one of a lone CR.
	return text, ok && facts.Encoding != "unknown" && !strings.Contains(text, "\r"), nil
}

// Undraft returns the bytes of a text that the user made of a Draft: with the
// byte order mark, the encoding and the line ends of the file.
func (f *FileChange) Undraft(ctx context.Context, text string, limit int64) ([]byte, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	like := f.post
	if v := f.Versions(); like == nil || f.Verdict() == Conflict && v.Mine != nil {
		like = v.Mine
	}
	if like == nil {
		return []byte(text), nil
	}
	data, err := like.Bytes(ctx, limit)
	if err != nil {
		return nil, err
	}
	old, facts, ok := decodeText(data)
	if !ok || facts.Encoding == "unknown" {
		return []byte(text), nil
	}
	switch facts.EOL {
	case "crlf":
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case "mixed":
		text = adoptMixed(old, text)
	}
	return facts.encode(text), nil
}
