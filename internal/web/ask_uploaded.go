package web

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
)

// uploaded gives a file of the store to a turn, which opens it in its own time.
func uploaded(ctx context.Context, store *engine.Service, caller engine.Caller, f engine.File) conversation.File {
	ctx = context.WithoutCancel(ctx)
	kind, _, _ := strings.Cut(f.MIME, ";")
	return conversation.File{Stored: f.ID.String(), Source: provider.Source{
		Path: f.Name, Name: f.Name, MIME: kind, Size: f.Size,
		Open: func() (io.ReadSeekCloser, error) {
			_, content, err := store.OpenFile(ctx, caller, f.ID)
			if errors.Is(err, engine.ErrNotFound) {
				return nil, errors.New("the uploaded file was deleted or has expired")
			}
			return content, err
		}}}
}

// Stored opens uploaded files for a conversation that is taken up again: see
// conversation.HostOptions.
func Stored(store *engine.Service) func(ctx context.Context, owner, id string) (conversation.File, error) {
	return func(ctx context.Context, owner, id string) (conversation.File, error) {
		file, err := engine.ParseID(id)
		if err != nil {
			return conversation.File{}, err
		}
		caller := engine.Caller{Owner: engine.Owner(owner)}
		f, err := store.GetFile(ctx, caller, file)
		if err != nil {
			return conversation.File{}, err
		}
		return uploaded(ctx, store, caller, f), nil
	}
}

// keptView says of a conversation that has ended which of its files the next
// turn brings again, and which are not here any more.
type keptView struct {
	Again []conversation.File
	Gone  []conversation.Upload
	Local bool // they stay on this machine
}

func (p *askPage) kept(v *webRequest, c *conversation.Conversation) keptView {
	view := keptView{Local: c.Settings.Provider == provider.Local}
	view.Again, view.Gone = p.Live.Host().Again(v.Context(), c)
	return view
}
