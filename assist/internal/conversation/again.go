package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/provider"
)

// Again returns the inputs of a closed conversation that its next turn sends once more
// after the user agreed, and the inputs that are no longer on this machine. If the provider
// still has them it returns none.
func (h *Host) Again(ctx context.Context, c *Conversation) (files []File, gone []Upload) {
	if c.Session.ID != "" {
		return nil, nil
	}
	return h.again(ctx, c)
}

func (h *Host) again(ctx context.Context, c *Conversation) (files []File, gone []Upload) {
	for _, in := range inputsOf(c) {
		f, err := h.reopen(ctx, c.Owner, in)
		if err != nil {
			gone = append(gone, in)
			continue
		}
		f.Path, f.Name, f.See, f.again, f.was = in.Path, in.Name, in.See, true, in.SHA256
		files = append(files, f)
	}
	return files, gone
}

// made returns the outputs of a conversation in quarantine, the last of each name: code of
// a later turn expects the files of earlier code. lost are the expired outputs.
func (h *Host) made(c *Conversation) (files []File, lost []Upload) {
	for _, t := range c.Turns {
		for _, o := range t.Outputs {
			if o.SHA256 == "" {
				continue // it was not fetched
			}
			files = slices.DeleteFunc(files, func(f File) bool { return f.Name == o.Name })
			lost = slices.DeleteFunc(lost, func(u Upload) bool { return u.Name == o.Name })
			f := h.heldFile(o.Name, o.MIME, o.Size, o.SHA256)
			if content, err := f.Open(); err != nil {
				lost = append(lost, Upload{Path: o.Name, Name: o.Name})
				continue
			} else if err := content.Close(); err != nil {
				continue
			}
			f.again, f.was, f.made = true, o.SHA256, true
			files = append(files, f)
		}
	}
	return files, lost
}

// heldFile returns an output in quarantine as an input.
func (h *Host) heldFile(name, kind string, size int64, sha256 string) File {
	return File{Source: provider.Source{Path: name, Name: name, MIME: kind, Size: size,
		Open: func() (io.ReadSeekCloser, error) { return h.quarantine.Open(sha256) }}}
}

// resume prepares the files that the next turn sends once more: inputs and, if the provider
// has sessions, outputs in place of inputs of their name.
func (c *Chat) resume(ctx context.Context) {
	c.resend, c.lost = c.host.again(ctx, c.record)
	if !c.Provider.Caps().Sessions {
		return
	}
	made, lost := c.host.made(c.record)
	for _, f := range made {
		same := func(name string) bool { return name == f.Name }
		c.resend = slices.DeleteFunc(c.resend, func(in File) bool { return same(in.Name) })
		c.lost = slices.DeleteFunc(c.lost, func(in Upload) bool { return same(in.Name) })
	}
	c.resend, c.lost = append(c.resend, made...), append(c.lost, lost...)
}

// inputsOf returns the inputs of a conversation, of those with the same place the last.
func inputsOf(c *Conversation) (list []Upload) {
	for _, t := range c.Turns {
		for _, in := range t.Inputs {
			if in.SHA256 == "" || in.Made {
				continue // it was not sent, or is an output
			}
			list = slices.DeleteFunc(list, func(old Upload) bool { return old.place() == in.place() })
			list = append(list, in)
		}
	}
	return list
}

// place identifies a file: by its path on this machine or, for an upload, by its name.
func (u *Upload) place() string { return placeOf(u.Local, u.Name) }

func placeOf(local, name string) string {
	return cmp.Or(local, "uploaded "+name)
}

// toSend returns the files of a turn: those of earlier turns that it sends once more,
// unless it has others in their place, and then its own.
func (c *Chat) toSend(own []File) []File {
	old := slices.DeleteFunc(slices.Clone(c.resend), func(f File) bool {
		return slices.ContainsFunc(own, func(o File) bool { return placeOf(o.Local, o.Name) == placeOf(f.Local, f.Name) })
	})
	return append(old, own...)
}

var errNotHere = errors.New("it is not on this machine")

// reopen opens an input of an earlier turn.
func (h *Host) reopen(ctx context.Context, owner string, in Upload) (File, error) {
	switch {
	case in.Local != "":
		return OpenFile(in.Local)
	case in.Stored != "" && h.Stored != nil:
		f, err := h.Stored(ctx, owner, in.Stored)
		f.Stored = in.Stored
		return f, err
	case in.Made:
		f := h.heldFile(in.Name, in.MIME, in.Size, in.SHA256)
		content, err := f.Open()
		if err != nil {
			return File{}, err
		}
		return f, content.Close()
	}
	return File{}, errNotHere
}

// lose emits a notice about inputs of earlier turns that the model's code does not have
// any more.
func (t *turn) lose() {
	lost := t.chat.lost
	if t.chat.lost = nil; len(lost) == 0 {
		return
	}
	var names []string
	for _, in := range lost {
		names = append(names, in.Path)
	}
	t.emit(Notice{Text: fmt.Sprintf(
		"%s of earlier turns cannot be given again, since what was uploaded is kept for a while only: %s.",
		english.Plural(len(lost), "file", ""), strings.Join(names, ", ")),
		Hint: "Add what the model still needs."})
}
