package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// Engine is what the edge asks of the core.
type Engine interface {
	Start(ctx context.Context, caller engine.Caller, req engine.RunRequest) (*engine.Run, error)
	Watch(ctx context.Context, caller engine.Caller, id engine.ID, after int) (iter.Seq[engine.Event], error)
	GetRun(ctx context.Context, caller engine.Caller, id engine.ID) (*engine.Run, error)
	CancelRun(ctx context.Context, caller engine.Caller, id engine.ID) error
	GetSession(ctx context.Context, caller engine.Caller, id engine.ID) (engine.Session, error)
	GetFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, error)
	OpenFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error)
	ListFiles(ctx context.Context, caller engine.Caller, query engine.FileQuery) ([]engine.File, error)
	Isolation(ctx context.Context) (engine.Isolation, error)
	Limits() (defaults, maxima engine.Limits)
	PackageSets() []engine.PackageSet
}

// Live has the sessions and their interpreters.
type Live interface {
	Create(ctx context.Context, caller engine.Caller, req live.Request) (engine.Session, error)
	Info(ctx context.Context, caller engine.Caller, session engine.ID) (live.Info, error)
	Start(ctx context.Context, caller engine.Caller, session engine.ID, req live.CellRequest) (live.Cell, error)
	Cell(ctx context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error)
	Watch(ctx context.Context, caller engine.Caller, session, cell engine.ID, after int) (iter.Seq[live.Event], error)
	CancelCell(ctx context.Context, caller engine.Caller, session, cell engine.ID) error
}

// Files are those in the working directory of a live session.
type Files interface {
	// ListFiles returns what is there, and whether there is more than it lists.
	ListFiles(ctx context.Context, caller engine.Caller, session engine.ID) (files []Entry, more bool, err error)
	OpenFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (Entry, *os.File, error)
	WriteFile(ctx context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader) (Entry, error)
	RemoveFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) error
}

// Entry is a file in a session.
type Entry struct {
	Path string
	Size int64
}

// What a handle is of shows in its first letter, for people and models.
const (
	sessionPrefix = "s_"
	runPrefix     = "r_"
)

const idLength = 21

// program is code that runs, or has run: a cell of an interpreter, or a run of
// the engine in the same workspace.
type program interface {
	handle() string
	// text yields what it prints, as it prints it, until it ends or ctx does.
	text(ctx context.Context) (iter.Seq[string], error)
	outcome(ctx context.Context) (*outcome, error)
	cancel(ctx context.Context) error
}

// outcome is how a program stands.
type outcome struct {
	final          bool
	run, session   string // handles
	status         string // "ok", "error", "timeout", ...
	exit           *int
	signal         string
	took           time.Duration
	stdout, stderr string
	truncated      bool
	variables      string // "new", "kept", "lost"; empty: the language has none that stay
	message        string // for a person
	files          []engine.File
	dropped        []engine.DroppedFile
	pictures       []picture
}

// picture is an image that a program showed.
type picture struct{ base64 string }

type cell struct {
	live    Live
	caller  engine.Caller
	session engine.ID
	id      engine.ID
}

func (c *cell) handle() string { return runPrefix + c.session.String() + c.id.String() }

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

// plain is what an output says in text.
func plain(o *live.Output) string {
	switch o.Type {
	case live.Stdout, live.Stderr:
		return o.Text
	case live.Display, live.Result:
		if picturesOf(o) != nil {
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

func picturesOf(o *live.Output) *picture {
	for _, kind := range []string{"image/png", "image/jpeg"} {
		var text string
		if json.Unmarshal(o.Data[kind], &text) == nil && text != "" {
			return &picture{base64: text}
		}
	}
	return nil
}

var cellStatus = map[live.Status]int{live.StatusOK: 0, live.StatusError: 1}

func (c *cell) outcome(ctx context.Context) (*outcome, error) {
	is, err := c.live.Cell(ctx, c.caller, c.session, c.id)
	if err != nil {
		return nil, err
	}
	out := &outcome{
		final: is.Status.Final(),
		run:   c.handle(), session: sessionPrefix + c.session.String(), status: string(is.Status), took: is.Usage.Duration,
		files: is.Files, dropped: is.Dropped, message: is.Message, variables: "kept",
	}
	if code, ok := cellStatus[is.Status]; ok {
		out.exit = &code
	}
	switch {
	case is.Status == live.StatusLost || is.Restarted:
		out.variables = "lost"
	case is.ExecutionCount <= 1:
		out.variables = "new"
	}
	var stdout, stderr strings.Builder
	for i := range is.Outputs {
		o := &is.Outputs[i]
		if p := picturesOf(o); p != nil {
			out.pictures = append(out.pictures, *p)
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

type run struct {
	engine Engine
	caller engine.Caller
	id     engine.ID
}

func (r *run) handle() string { return runPrefix + r.id.String() }

func (r *run) text(ctx context.Context) (iter.Seq[string], error) {
	events, err := r.engine.Watch(ctx, r.caller, r.id, 0)
	if err != nil {
		return nil, err
	}
	return func(yield func(string) bool) {
		for e := range events {
			if e.Type == engine.EventOutput && !yield(e.Data) {
				return
			}
		}
	}, nil
}

func (r *run) outcome(ctx context.Context) (*outcome, error) {
	is, err := r.engine.GetRun(ctx, r.caller, r.id)
	if err != nil {
		return nil, err
	}
	return &outcome{
		final: is.Status.Final(),
		run:   r.handle(), session: sessionPrefix + is.Session.String(), status: string(is.Status), exit: is.ExitCode, signal: is.Signal,
		took: is.Duration, stdout: is.Stdout, stderr: is.Stderr, truncated: is.Truncated, message: is.Message, files: is.Files, dropped: is.Dropped,
	}, nil
}

func (r *run) cancel(ctx context.Context) error { return r.engine.CancelRun(ctx, r.caller, r.id) }

// program returns the program that a handle names.
func (s *Server) program(ctx context.Context, caller engine.Caller, handle string) (program, error) {
	missing := &missingError{what: "run", handle: handle}
	text, ok := strings.CutPrefix(handle, runPrefix)
	if !ok {
		return nil, missing
	}
	var ids []engine.ID
	for part := range slices.Chunk([]byte(text), idLength) {
		id, err := engine.ParseID(string(part))
		if err != nil {
			return nil, missing
		}
		ids = append(ids, id)
	}
	var p program
	switch len(ids) {
	case 1:
		p = &run{s.Engine, caller, ids[0]}
	case 2:
		p = &cell{live: s.Live, caller: caller, session: ids[0], id: ids[1]}
	default:
		return nil, missing
	}
	if _, err := p.outcome(ctx); errors.Is(err, engine.ErrNotFound) {
		return nil, missing
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

// missingError says that a handle names nothing, or what another owner has.
type missingError struct{ what, handle string }

func (e *missingError) Error() string {
	if e.what == "session" {
		return "there is no session " + quote(e.handle) + " (it expired, or never was): leave session out to begin a new one"
	}
	return "there is no run " + quote(e.handle) + " (it expired, or never was): call run_code again"
}

// session returns the session that a handle names, and the language of its
// interpreter; empty: it has none, and keeps files only.
func (s *Server) session(ctx context.Context, caller engine.Caller, handle string) (session engine.ID, speaks string, err error) {
	missing := &missingError{what: "session", handle: handle}
	id, err := engine.ParseID(strings.TrimPrefix(handle, sessionPrefix))
	if err != nil {
		return engine.ID{}, "", missing
	}
	record, err := s.Engine.GetSession(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return engine.ID{}, "", missing
	}
	if err != nil || record.Kind != engine.SessionLive {
		return id, "", err
	}
	info, err := s.Live.Info(ctx, caller, id)
	return id, info.Language, err
}
