package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
)

// fakeLive has interpreters that run one command and argument per line: print, error, make,
// plot, cut, wait (until it is cancelled) and sleepless.
type fakeLive struct {
	live.Sessions // not called by tests

	t      testing.TB
	engine *engine.Service
	root   string

	mu       sync.Mutex
	cells    map[engine.ID]*fakeCell
	count    map[engine.ID]int
	canceled int
	busy     int // number of cells to refuse first; negative: all

	languages map[engine.ID]string
	changed   *sync.Cond
}

type fakeCell struct {
	owner engine.Owner
	cell  live.Cell
	end   chan struct{} // closed when it is cancelled
}

func newFakeLive(t testing.TB, e *engine.Service) *fakeLive {
	f := &fakeLive{t: t, engine: e, root: t.TempDir(), cells: map[engine.ID]*fakeCell{}, count: map[engine.ID]int{},
		languages: map[engine.ID]string{}}
	f.changed = sync.NewCond(&f.mu)
	return f
}

func (f *fakeLive) Create(ctx context.Context, caller engine.Caller, req live.Request) (engine.Session, error) {
	chosen, err := f.engine.ChooseImage(caller, req.Origin, req.Image, "")
	if err != nil {
		return engine.Session{}, err
	}
	remembered := "{}"
	if chosen != nil {
		has := live.Languages(chosen)
		if req.Language == "" && len(has) > 0 {
			req.Language = has[0]
		}
		lang, _ := language.Find(req.Language)
		if _, err := chosen.For(lang); err != nil {
			return engine.Session{}, err
		}
		if !slices.Contains(has, req.Language) {
			return engine.Session{}, &engine.Error{Op: "create",
				Kind: engine.ErrNoLanguage, ID: "language", Err: errors.New("no live " + req.Language)}
		}
		remembered = fmt.Sprintf(`{"language":%q,"image":%q}`, req.Language, chosen.Name)
	}
	s, err := f.engine.CreateSession(ctx, caller, engine.SessionRequest{
		Origin: req.Origin, Kind: engine.SessionLive, Live: remembered, Files: req.Files})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.languages[s.ID] = cmp.Or(req.Language, "python")
	return s, err
}

func (f *fakeLive) Info(ctx context.Context, caller engine.Caller, id engine.ID) (live.Info, error) {
	s, err := f.engine.GetSession(ctx, caller, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	return live.Info{Session: s, Language: f.languages[id]}, err
}

func (f *fakeLive) Start(
	ctx context.Context, caller engine.Caller, session engine.ID, req live.CellRequest,
) (live.Cell, error) {
	if _, err := f.engine.GetSession(ctx, caller, session); err != nil {
		return live.Cell{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy != 0 {
		f.busy--
		return live.Cell{}, &engine.Error{Op: "start", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second,
			Err: errors.New("too many interpreters")}
	}
	f.count[session]++
	c := &fakeCell{owner: caller.Owner, end: make(chan struct{}), cell: live.Cell{
		ID: engine.NewID(), Session: session, Status: live.StatusRunning, ExecutionCount: f.count[session],
	}}
	f.cells[c.cell.ID] = c
	f.changed.Broadcast()
	go f.run(caller, c, req)
	return c.cell, nil
}

// run executes the lines of a cell.
func (f *fakeLive) run(caller engine.Caller, c *fakeCell, req live.CellRequest) {
	status := live.StatusOK
	put := func(o live.Output) {
		f.mu.Lock()
		defer f.mu.Unlock()
		c.cell.Outputs = append(c.cell.Outputs, o)
		f.changed.Broadcast()
	}
	if p := req.Program; p != nil {
		put(live.Output{Type: live.Stdout, Text: p.Language + ": " + req.Code + strings.Join(p.Args, " ") + p.Stdin + "\n"})
		req.Code = ""
	}
	timeout := time.After(cmp.Or(req.Timeout, time.Minute))
	for line := range strings.Lines(req.Code) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "print":
			put(live.Output{Type: live.Stdout, Text: rest + "\n"})
		case "error":
			put(live.Output{Type: live.Error, Name: "ValueError", Value: rest,
				Traceback: []string{"Traceback", "ValueError: " + rest}})
			status = live.StatusError
		case "make":
			content := "made here"
			if strings.HasSuffix(rest, ".png") {
				content = string(picture1(8, 8))
			}
			file, err := f.engine.PutFile(context.Background(), caller, engine.Upload{Name: rest, Origin: engine.OriginMCP},
				strings.NewReader(content))
			if err == nil {
				_, err = f.WriteFile(context.Background(), caller, c.cell.Session, rest, strings.NewReader(content))
			}
			if err != nil {
				f.t.Error(err)
			}
			file.Path = rest
			f.mu.Lock()
			c.cell.Files = append(c.cell.Files, file)
			f.mu.Unlock()
		case "plot":
			var width, height int
			var saved string
			_, _ = fmt.Sscan(rest, &width, &height, &saved)
			quoted, _ := json.Marshal(base64.StdEncoding.EncodeToString(picture1(width, height)))
			about, _ := json.Marshal(map[string]any{"image/png": map[string]string{"saved": saved}})
			put(live.Output{Type: live.Display, Metadata: about, Data: map[string]json.RawMessage{
				"image/png": quoted, "text/plain": []byte(`"<Figure>"`)}})
		case "cut":
			f.mu.Lock()
			c.cell.Truncated = true
			f.mu.Unlock()
		case "wait":
			select {
			case <-c.end:
				status = live.StatusInterrupted
			case <-timeout:
				status = live.StatusTimeout
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.cell.Status, c.cell.ExitCode = status, exitCodes[status]
	f.changed.Broadcast()
}

// exitCodes are those of cells that end by themselves.
var exitCodes = map[live.Status]*int{live.StatusOK: new(0), live.StatusError: new(1)}

func picture1(width, height int) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return b.Bytes()
}

func (f *fakeLive) cell(caller engine.Caller, id engine.ID) (*fakeCell, error) {
	c := f.cells[id]
	if c == nil || c.owner != caller.Owner {
		return nil, &engine.Error{Op: "cell", Kind: engine.ErrNotFound}
	}
	return c, nil
}

func (f *fakeLive) Cell(_ context.Context, caller engine.Caller, _, id engine.ID) (live.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.cell(caller, id)
	if err != nil {
		return live.Cell{}, err
	}
	return c.cell, nil
}

func final(s live.Status) bool { return s != live.StatusQueued && s != live.StatusRunning }

func (f *fakeLive) Watch(
	ctx context.Context, caller engine.Caller, _, id engine.ID, _ int,
) (iter.Seq[live.Event], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.cell(caller, id)
	if err != nil {
		return nil, err
	}
	return func(yield func(live.Event) bool) {
		defer context.AfterFunc(ctx, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changed.Broadcast()
		})()
		f.mu.Lock()
		defer f.mu.Unlock()
		for n := 0; ; {
			for ; n < len(c.cell.Outputs); n++ {
				event := live.Event{Seq: n + 1, Output: c.cell.Outputs[n]}
				f.mu.Unlock()
				more := yield(event)
				f.mu.Lock()
				if !more {
					return
				}
			}
			if ctx.Err() != nil || final(c.cell.Status) {
				return
			}
			f.changed.Wait()
		}
	}, nil
}

func (f *fakeLive) CancelCell(_ context.Context, caller engine.Caller, _, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.cell(caller, id)
	if err != nil {
		return err
	}
	f.canceled++
	close(c.end)
	f.changed.Broadcast()
	return nil
}

// awaitCancels returns once n cells were cancelled.
func (f *fakeLive) awaitCancels(n int) {
	f.t.Helper()
	defer time.AfterFunc(time.Minute, func() { panic("no cell was cancelled") }).Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.canceled < n {
		f.changed.Wait()
	}
}

// awaitCells returns once n cells have begun.
func (f *fakeLive) awaitCells(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.cells) < n {
		f.changed.Wait()
	}
}

func (f *fakeLive) at(session engine.ID, path string) string {
	return filepath.Join(f.root, session.String(), filepath.FromSlash(path))
}

func (f *fakeLive) ListFiles(
	_ context.Context, _ engine.Caller, session engine.ID, _ string, _ int,
) (found []engine.Entry, _ bool, _ error) {
	root := f.at(session, "")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // there are no files yet
		}
		info, _ := d.Info()
		name, _ := filepath.Rel(root, path)
		found = append(found, engine.Entry{Path: name, Size: info.Size(), Kind: engine.EntryFile})
		return nil
	})
	return found, false, err
}

func (f *fakeLive) OpenFile(
	_ context.Context, _ engine.Caller, session engine.ID, path string,
) (engine.Entry, *os.File, error) {
	file, err := os.Open(f.at(session, path))
	if err != nil {
		return engine.Entry{}, nil, &engine.Error{Op: "open", Kind: engine.ErrNotFound}
	}
	info, err := file.Stat()
	if err != nil {
		return engine.Entry{}, nil, err
	}
	return engine.Entry{Path: path, Size: info.Size()}, file, nil
}

func (f *fakeLive) WriteFile(
	_ context.Context, _ engine.Caller, session engine.ID, path string, content io.Reader,
) (engine.Entry, error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return engine.Entry{}, err
	}
	if err := os.MkdirAll(filepath.Dir(f.at(session, path)), 0o700); err != nil {
		return engine.Entry{}, err
	}
	return engine.Entry{Path: path, Size: int64(len(data))}, os.WriteFile(f.at(session, path), data, 0o600)
}

func (f *fakeLive) MakeFolder(_ context.Context, _ engine.Caller, session engine.ID, path string) (engine.Entry, error) {
	return engine.Entry{Path: path}, os.MkdirAll(f.at(session, path), 0o700)
}

func (f *fakeLive) RemoveFile(_ context.Context, _ engine.Caller, session engine.ID, path string, _ bool) error {
	if os.Remove(f.at(session, path)) != nil {
		return &engine.Error{Op: "remove", Kind: engine.ErrNotFound}
	}
	return nil
}
