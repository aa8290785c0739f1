package web

import (
	"context"
	_ "embed" // the program that reads tables as data frames
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/page"
)

//go:embed file_frame.py
var frameProgram string

// A table that a visitor opens is read once, by a program in a live session, which keeps it as a data frame. The
// page's script asks that session for the rows in sight, as a notebook does.
const (
	framesPerOwner = 2 // tables that one owner has open
	frameIdle      = 5 * time.Minute
	frameTTL       = time.Hour // of the session
	frameTime      = time.Minute
)

// frames are the open tables.
type frames struct {
	sessions live.Sessions // nil: there are none

	mu     sync.Mutex
	owners map[engine.Owner]*ownerFrames
}

type ownerFrames struct {
	mu   sync.Mutex
	open []openFrame // the last used at the end
}

// openFrame is a table that a session has.
type openFrame struct {
	content engine.Digest
	kind    string
	Session engine.ID       `json:"session"`
	Table   json.RawMessage `json:"table"` // its size and first rows: see live.TableForm
}

// get returns an open table, which it reads if it has to.
func (f *frames) get(ctx context.Context, caller engine.Caller, file engine.File) (openFrame, error) {
	f.mu.Lock()
	own := f.owners[caller.Owner]
	if own == nil {
		own = &ownerFrames{}
		f.owners[caller.Owner] = own
	}
	f.mu.Unlock()
	own.mu.Lock()
	defer own.mu.Unlock()
	kind := tableKind(file)
	at := slices.IndexFunc(own.open, func(o openFrame) bool { return o.content == file.SHA256 && o.kind == kind })
	if at >= 0 {
		found := own.open[at]
		own.open = slices.Delete(own.open, at, at+1)
		info, err := f.sessions.Info(ctx, caller, found.Session)
		if err == nil && (info.State == live.StateIdle || info.State == live.StateBusy) {
			own.open = append(own.open, found)
			return found, nil
		}
		f.close(ctx, caller, found)
	}
	for len(own.open) >= framesPerOwner {
		f.close(ctx, caller, own.open[0])
		own.open = slices.Delete(own.open, 0, 1)
	}
	made, err := f.read(ctx, caller, file, kind)
	if err == nil {
		own.open = append(own.open, made)
	}
	return made, err
}

// close deletes the session of a table. If that fails, the session expires.
func (f *frames) close(ctx context.Context, caller engine.Caller, o openFrame) {
	_ = f.sessions.Delete(context.WithoutCancel(ctx), caller, o.Session)
}

// read has a new session read a file.
func (f *frames) read(
	ctx context.Context, caller engine.Caller, file engine.File, kind string,
) (o openFrame, err error) {
	const at = "input"
	session, err := f.sessions.Create(ctx, caller, live.Request{
		Language: "python", Origin: engine.OriginPreview, TTL: frameTTL, Idle: frameIdle,
		Network: &engine.Network{}, Limits: engine.Limits{Timeout: frameTime},
		Files: []engine.FileRef{{ID: file.ID, Path: at, ReadOnly: true}},
	})
	if err != nil {
		return o, err
	}
	o = openFrame{content: file.SHA256, kind: kind, Session: session.ID}
	defer func() {
		if err != nil {
			f.close(ctx, caller, o)
		}
	}()
	cell, err := f.sessions.Start(ctx, caller, session.ID, live.CellRequest{
		Code: fmt.Sprintf("%s\n\nshow(%q, %q)", frameProgram, kind, at)})
	if err == nil {
		cell, err = f.sessions.Wait(ctx, caller, session.ID, cell.ID)
	}
	if err != nil {
		return o, err
	}
	for _, output := range cell.Outputs {
		if o.Table = output.Data[live.TableForm]; o.Table != nil {
			return o, nil
		}
	}
	return o, unreadFrame(&cell)
}

// unreadFrame returns why a program did not make a data frame of a file.
func unreadFrame(cell *live.Cell) error {
	why := "reading it failed"
	switch cell.Status {
	case live.StatusTimeout:
		why = "reading it took too long"
	case live.StatusLost:
		why = "it needs more memory than a program may have"
	}
	for _, output := range cell.Outputs {
		switch {
		case output.Type == live.Error && output.Name == "ModuleNotFoundError":
			why = "this service lacks a package for it, which `airlock setup` installs"
		case output.Type == live.Error:
			why = strings.TrimSuffix(fmt.Sprintf("%.300s", output.Value), ".")
		}
	}
	return &engine.Error{Op: "read a table", Kind: engine.ErrInvalid, ID: "table", Err: errors.New(why),
		Hint: "It cannot be read as a table: " + why + "."}
}

// openFrame opens a table for a script to show.
func (p *filesPage) openFrame(w http.ResponseWriter, v *page.Request, file engine.File) error {
	if p.frames.sessions == nil || page.PreviewKind(infoOf(file)) != "table" {
		return engine.ErrNotFound
	}
	made, err := p.frames.get(v.Context(), v.Caller, file)
	if engine.KindOf(err) == engine.ErrInvalid {
		return page.Refuse(http.StatusUnprocessableEntity, "This table cannot be shown.", page.Describe(err).Cure)
	}
	if err != nil {
		return err
	}
	page.WriteJSON(w, http.StatusOK, made)
	return nil
}
