package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
)

// The first letter of a handle shows its type.
const (
	sessionPrefix = "s_"
	runPrefix     = "r_"
)

const idLength = 21

// outcome is the state of a program.
type outcome struct {
	live.Cell
	run, session   string // handles
	exit           *int
	stdout, stderr string
	variables      string    // "new", "kept" or "lost"
	pictures       []picture // shown by the program
}

// cell is a running or finished cell of a live session.
type cell struct {
	live    live.Sessions
	caller  engine.Caller
	session engine.ID
	id      engine.ID
}

func (c *cell) handle() string { return runPrefix + c.session.String() + c.id.String() }

// text yields what the program prints, until it ends or ctx does.
func (c *cell) text(ctx context.Context) (iter.Seq[string], error) {
	events, err := c.live.Watch(ctx, c.caller, c.session, c.id, 0)
	if err != nil {
		return nil, err
	}
	return func(yield func(string) bool) {
		for e := range events {
			if text := plain(&e.Output); text != "" && !yield(text) {
				return
			}
		}
	}, nil
}

// plain returns the text of an output.
func plain(o *live.Output) string {
	switch o.Type {
	case live.Stdout, live.Stderr:
		return o.Text
	case live.Display, live.Result:
		if pictureOf(o).data != "" {
			return ""
		}
		for _, kind := range []string{"text/plain", "text/markdown", "application/json"} {
			var text string
			if raw := o.Data[kind]; raw != nil && json.Unmarshal(raw, &text) == nil {
				return strings.TrimSuffix(text, "\n") + "\n"
			} else if raw != nil {
				return string(raw) + "\n"
			}
		}
	case live.Error:
		if len(o.Traceback) > 0 {
			return strings.Join(o.Traceback, "\n") + "\n"
		}
		return o.Name + ": " + o.Value + "\n"
	}
	return ""
}

// picture is a picture that a program showed.
type picture struct {
	data  string // in base64
	saved string // path of the file that has it too, or ""
}

// pictureOf returns the picture in an output, or none.
func pictureOf(o *live.Output) (p picture) {
	for _, kind := range []string{"image/png", "image/jpeg"} {
		if json.Unmarshal(o.Data[kind], &p.data) == nil && p.data != "" {
			var about map[string]struct{ Saved string }
			if json.Unmarshal(o.Metadata, &about) == nil { // a cell's own may be anything
				p.saved = about[kind].Saved
			}
			return p
		}
	}
	return p
}

func (c *cell) outcome(ctx context.Context) (*outcome, error) {
	is, err := c.live.Cell(ctx, c.caller, c.session, c.id)
	if err != nil {
		return nil, err
	}
	out := &outcome{Cell: is, run: c.handle(), session: sessionPrefix + c.session.String(), exit: is.ExitCode,
		variables: "kept"}
	switch {
	case is.Status == live.StatusLost || is.Restarted:
		out.variables = "lost"
	case is.ExecutionCount == 1:
		out.variables = "new"
	}
	var stdout, stderr strings.Builder
	for i := range is.Outputs {
		o := &is.Outputs[i]
		if p := pictureOf(o); p.data != "" {
			out.pictures = append(out.pictures, p)
			continue
		}
		to := &stdout
		if o.Type == live.Stderr || o.Type == live.Error {
			to = &stderr
		}
		to.WriteString(plain(o))
	}
	out.stdout, out.stderr = stdout.String(), stderr.String()
	return out, nil
}

func (c *cell) cancel(ctx context.Context) error {
	return c.live.CancelCell(ctx, c.caller, c.session, c.id)
}

// program returns the program of a handle.
func (s *Server) program(ctx context.Context, caller engine.Caller, handle string) (*cell, error) {
	text, ok := strings.CutPrefix(handle, runPrefix)
	if !ok || len(text) != 2*idLength {
		return nil, &missingError{what: "run", handle: handle}
	}
	session, err := engine.ParseID(text[:idLength])
	id, bad := engine.ParseID(text[idLength:])
	c := &cell{live: s.Live, caller: caller, session: session, id: id}
	if err = errors.Join(err, bad); err == nil {
		_, err = s.Live.Cell(ctx, caller, session, id)
	} else {
		err = engine.ErrNotFound
	}
	if errors.Is(err, engine.ErrNotFound) {
		return nil, &missingError{what: "run", handle: handle}
	}
	return c, err
}

// missingError reports an unknown handle, or a handle of another owner.
type missingError struct{ what, handle string }

func (e *missingError) Error() string {
	if e.what == "session" {
		return "there is no session " + quote(e.handle) + " (it expired, or never was): leave session out to begin a new one"
	}
	return "there is no run " + quote(e.handle) + " (it expired, or never was): call run_code again"
}

// session returns the session of a handle, the language of its interpreter, and the name of its
// image.
func (s *Server) session(
	ctx context.Context, caller engine.Caller, handle string,
) (session engine.ID, speaks, image string, err error) {
	missing := &missingError{what: "session", handle: handle}
	id, err := engine.ParseID(strings.TrimPrefix(handle, sessionPrefix))
	if err != nil {
		return engine.ID{}, "", "", missing
	}
	record, err := s.Engine.GetSession(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return engine.ID{}, "", "", missing
	}
	if err != nil {
		return id, "", "", err
	}
	if record.Kind != engine.SessionLive {
		return id, "", "", missing // the service did not make this id
	}
	info, err := s.Live.Info(ctx, caller, id)
	lang, _ := language.Find(info.Language)
	return id, lang.Name, live.Image(record), err
}
