package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/airlock-run/airlock/assist"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
)

// This file connects the assistant with the service.

// connectAssistant connects a command of the assistant to the service that runs code.
func (a *app) connectAssistant(ctx context.Context) (*assist.Connection, error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &assist.Connection{Client: conn.client, Temporary: conn.service != nil, Close: conn.close}, nil
}

// startAssistant starts the assistant in a service.
func (a *app) startAssistant(ctx context.Context, s *service) error {
	serving, err := a.assistant.Serve(ctx, assist.Engine{
		Client: func(owner string) *client.Client {
			of := engine.Owner(owner)
			return a.inProcess(s.engine, engine.Caller{Owner: of, Wall: s.engine.AccountWall(of)})
		},
		Ready:  s.engine.Ready,
		Stored: openStored(s.engine),
		Local:  func() bool { return a.Config.Loopback() && !s.engine.Stats().HasKeys },
	})
	if err != nil {
		return err
	}
	s.assistant = serving
	s.below = append(s.below, serving.Close)
	return nil
}

// openStored returns a function that returns uploaded files. See assist.Engine.
func openStored(store *engine.Service) func(ctx context.Context, owner, id string) (provider.Source, string, error) {
	return func(ctx context.Context, owner, id string) (provider.Source, string, error) {
		file, err := engine.ParseID(id)
		if err != nil {
			return provider.Source{}, "", engine.ErrNotFound
		}
		caller := engine.Caller{Owner: engine.Owner(owner)}
		f, err := store.GetFile(ctx, caller, file)
		if err != nil {
			return provider.Source{}, "", err
		}
		ctx = context.WithoutCancel(ctx)
		kind, _, _ := strings.Cut(f.MIME, ";")
		return provider.Source{Path: f.Name, Name: f.Name, MIME: kind, Size: f.Size,
			Open: func() (io.ReadSeekCloser, error) {
				_, content, err := store.OpenFile(ctx, caller, file)
				if errors.Is(err, engine.ErrNotFound) {
					return nil, errors.New("the uploaded file was deleted or has expired")
				}
				return content, err
			}}, f.SHA256.String(), nil
	}
}
