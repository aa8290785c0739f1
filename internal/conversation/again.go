package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Again says of a conversation that has ended which inputs its next turn brings
// once more, after it was agreed to, and which are not here any more. What is
// still at the provider needs neither.
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

// inputsOf are the files that a conversation was given, each once: of those
// with the same place the last.
func inputsOf(c *Conversation) (list []Upload) {
	for _, t := range c.Turns {
		for _, in := range t.Inputs {
			if in.SHA256 == "" {
				continue // it was not sent
			}
			list = slices.DeleteFunc(list, func(old Upload) bool { return old.place() == in.place() })
			list = append(list, in)
		}
	}
	return list
}

// place is what only one file has: a file of this machine its path, an upload
// its name.
func (u *Upload) place() string { return placeOf(u.Local, u.Name) }

func placeOf(local, name string) string {
	if local != "" {
		return local
	}
	return "uploaded " + name
}

// toSend are the files of a turn: its own, and before them those of earlier
// turns that it brings once more, unless it has something in their place.
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
	}
	return File{}, errNotHere
}

// lose tells of inputs of earlier turns that the model's code does not have any
// more.
func (t *turn) lose() {
	lost := t.chat.lost
	if t.chat.lost = nil; len(lost) == 0 {
		return
	}
	var names []string
	for _, in := range lost {
		names = append(names, in.Path)
	}
	t.emit(Notice{Text: fmt.Sprintf("%s of earlier turns cannot be given again, since what was uploaded is kept for a while only: %s.", counted(len(lost), "file"), strings.Join(names, ", ")),
		Hint: "Add what the model still needs."})
}
