package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

type fetchOptions struct {
	session string
	command.SaveFlags
}

// getRemote fetches a file into quarantine, as every output, and saves it from there.
func (a *Assistant) getRemote(ctx context.Context, id string, o fetchOptions) error {
	if err := command.CheckFolder(o.Folder); err != nil {
		return err
	}
	return a.withAccount(ctx, func(c *account) error {
		ref := provider.FileRef{Provider: c.name, Scope: provider.ScopeFile, ID: id, Session: o.session}
		if o.session != "" {
			ref.Scope = provider.ScopeSession
		}
		info, err := c.provider.Files().Stat(ctx, ref)
		if kind := provider.KindOf(err); kind == provider.FileNotFound || kind == provider.Invalid {
			info, err = c.findFile(ctx, id, o.session, err)
		}
		if err != nil {
			return err
		}
		if !info.Readable && info.Ref.Scope == provider.ScopeFile {
			return &provider.Error{Kind: provider.NotDownloadable, Provider: c.name, Op: "get " + id,
				Message: "the provider does not hand this file out"}
		}
		r, err := a.fetchRemote(ctx, c, info, o)
		if err != nil {
			return err
		}
		a.Out.Result(r)
		return r.problem(o.Folder)
	})
}

// getSession fetches all that code has made in a session.
func (a *Assistant) getSession(ctx context.Context, o fetchOptions) error {
	if err := command.CheckFolder(o.Folder); err != nil {
		return err
	}
	return a.withAccount(ctx, func(c *account) error {
		r := getAllReport{Provider: c.name, Session: o.session, Files: []getReport{}}
		var failed error
		for info, err := range c.provider.Sessions().Files(ctx, o.session) {
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("the session could not be listed to its end: %w", err))
				break
			}
			if info.Origin == provider.OriginUser {
				continue
			}
			one, err := a.fetchRemote(ctx, c, info, o)
			if err == nil {
				r.Files = append(r.Files, one)
				err = one.problem(o.Folder)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", info.Name, err))
			}
		}
		return a.Finish(&r, modelError(failed))
	})
}

// findFile looks in sessions, by id or path, for a file that the account's store does not know.
func (c *account) findFile(ctx context.Context, id, session string, missing error) (provider.FileInfo, error) {
	unknown := &provider.Error{Kind: provider.FileNotFound, Provider: c.name, Op: "get " + id,
		Message: "the provider does not know this file", Err: missing,
		Hint: "`airlock provider ls` lists files and sessions, `airlock provider ls --session ID` the files of a session. " +
			"Files of sessions that were deleted or have expired are gone."}
	if !c.bare.Caps().SessionFiles {
		return provider.FileInfo{}, unknown
	}
	const most = 100 // sessions to search
	var sessions []string
	if session != "" {
		sessions = append(sessions, session)
	} else {
		for s, err := range c.provider.Sessions().List(ctx, provider.Filter{}) {
			if err != nil {
				return provider.FileInfo{}, err
			}
			if s.Active {
				sessions = append(sessions, s.ID)
			}
			if len(sessions) == most {
				break
			}
		}
	}
	for _, s := range sessions {
		for f, err := range c.provider.Sessions().Files(ctx, s) {
			if kind := provider.KindOf(err); kind == provider.ContainerExpired || kind == provider.FileNotFound {
				break // the session ended meanwhile
			}
			if err != nil {
				return f, err
			}
			if f.Ref.ID == id || f.Ref.Path == id || session != "" && f.Name == id {
				return f, nil
			}
		}
	}
	return provider.FileInfo{}, unknown
}

// fetchRemote fetches one file and saves it.
func (a *Assistant) fetchRemote(
	ctx context.Context, c *account, info provider.FileInfo, o fetchOptions,
) (getReport, error) {
	shown := a.showTurns(false)
	found, err := c.Fetch(ctx, c.bare, provider.Artifact{Ref: info.Ref, Name: info.Name, MIME: info.MIME, Size: info.Size},
		a.Config.MaxDownload, func(done int64) {
			if !a.JSON {
				shown.Show("fetching", info.Name, done, info.Size)
			}
		})
	shown.clear()
	if err != nil {
		return getReport{}, err
	}
	r, err := a.saveOutput(ctx, c.modelHost,
		client.File{ID: found.Ref.ID, Path: found.Name, Size: found.Size, SHA256: found.SHA256}, o)
	r.MIME = found.MIME
	return r, err
}

// saveOutput saves a file that is held here.
func (a *Assistant) saveOutput(ctx context.Context, h *modelHost, out client.File, o fetchOptions) (getReport, error) {
	s, err := command.NewSaver(ctx, a.App, o.Folder, o.SaveFlags, func(_ context.Context, _ string, to io.Writer) error {
		f, err := h.Output(out.SHA256)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(to, f)
		return err
	})
	if err != nil {
		return getReport{}, err
	}
	defer s.Root.Close()
	saved, err := s.Save(ctx, out)
	if err != nil {
		return getReport{}, err
	}
	return getReport{ID: out.ID, Name: out.Path, Size: out.Size, SHA256: out.SHA256, State: saved.State,
		Path: filepath.Join(o.Folder, saved.As)}, nil
}

// problem returns the error about a file that was not saved, because its name is taken
// or it was not approved, or nil.
func (r getReport) problem(folder string) error {
	switch r.State {
	case command.SaveHeld:
		return command.HeldProblem(r.Name)
	case command.SaveExists:
		return command.Fail(command.ExitApproval, "--yes saves it under a new name, and -o may name another folder",
			"%s exists in %s",
			r.Name, folder)
	}
	return nil
}

// saveHeld saves the outputs of a conversation that are held here. Of outputs with one
// name it saves the last.
func (a *Assistant) saveHeld(ctx context.Context, id string, o fetchOptions) error {
	if err := command.CheckFolder(o.Folder); err != nil {
		return err
	}
	return a.withHost(ctx, func(h *modelHost) error {
		c, err := h.Conversation(ctx, owner, id)
		if errors.Is(err, conversation.ErrNotFound) {
			return command.Fail(command.ExitUsage,
				"each command that asks a model names its conversation; they are kept for 90 days",
				"there is no conversation %s", id)
		}
		if err != nil {
			return err
		}
		r := getAllReport{Provider: c.Settings.Provider, Session: id, Files: []getReport{}}
		var failed error
		for _, out := range lastOutputs(c) {
			one, err := a.saveOutput(ctx, h, client.File{ID: out.ID, Path: out.Name, Size: out.Size, SHA256: out.SHA256}, o)
			if errors.Is(err, fs.ErrNotExist) {
				err = command.Fail(command.ExitFailed, "outputs are held for 7 days", "%s is not held here any more", out.Name)
			}
			if err == nil {
				one.MIME = out.MIME
				r.Files = append(r.Files, one)
				err = one.problem(o.Folder)
			}
			failed = errors.Join(failed, err)
		}
		return a.Finish(&r, modelError(failed))
	})
}

// lastOutputs returns the fetched outputs of a conversation, the last of each name.
func lastOutputs(c *conversation.Conversation) (list []conversation.Output) {
	for _, turn := range c.Turns {
		for _, out := range turn.Outputs {
			if out.SHA256 == "" {
				continue
			}
			list = slices.DeleteFunc(list, func(o conversation.Output) bool { return o.Name == out.Name })
			list = append(list, out)
		}
	}
	return list
}

// listSession lists the files of a session.
func (a *Assistant) listSession(ctx context.Context, session string, limit int) error {
	return a.withAccount(ctx, func(c *account) error {
		r := remoteReport{Provider: c.name, Files: []remoteFile{}, Sessions: []remoteSession{}}
		for f, err := range c.provider.Sessions().Files(ctx, session) {
			if err != nil {
				return err
			}
			if r.More = len(r.Files) >= limit; r.More {
				break
			}
			r.Files = append(r.Files, remoteFileOf(f, false, false))
		}
		return a.Print(r)
	})
}

// getAllReport is what provider get prints of a session.
type getAllReport struct {
	Provider string      `json:"provider"`
	Session  string      `json:"session"`
	Files    []getReport `json:"files"`
	command.Ended
}

func (r getAllReport) WriteText(p *command.Page) {
	for _, f := range r.Files {
		f.WriteText(p)
	}
	if len(r.Files) == 0 && r.Error == nil {
		p.Line("There are no files of %s.", command.Printable(r.Session))
	}
}
