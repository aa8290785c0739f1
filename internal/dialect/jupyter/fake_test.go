package jupyter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/live"
)

// fake is an engine whose interpreters run one command and argument per line: print,
// result, big (a number of bytes), display (JSON), error, ask, wait (until it is
// interrupted) and die.
type fake struct {
	live.Sessions // not called by tests

	t    testing.TB
	root string

	mu       sync.Mutex
	full     map[engine.Owner]bool // without room for one more interpreter
	comms    map[string]live.Comm  // nil: there are none
	images   enginetest.Images
	usual    string // the image of programs that name none; empty: none
	sessions map[engine.ID]*fakeSession
	cells    map[engine.ID]*fakeCell
}

type fakeSession struct {
	record   engine.Session
	count    int
	running  *fakeCell
	restarts int
}

type fakeCell struct {
	events  chan live.Event
	stop    chan string // the reason
	answers chan string
}

func (f *fake) get(caller engine.Caller, id engine.ID) (*fakeSession, error) {
	s := f.sessions[id]
	if s == nil || s.record.Owner != caller.Owner {
		return nil, &engine.Error{Op: "find", Kind: engine.ErrNotFound}
	}
	return s, nil
}

func (f *fake) AwaitRoom(_ context.Context, caller engine.Caller) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full[caller.Owner] {
		return &engine.Error{Op: "test", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second}
	}
	return nil
}

func (f *fake) ListSessions(_ context.Context, caller engine.Caller, q engine.SessionQuery) (all []engine.Session, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.record.Owner == caller.Owner && s.record.Origin == q.Origin {
			all = append(all, s.record)
		}
	}
	return all, nil
}

func (f *fake) DeleteSession(_ context.Context, caller engine.Caller, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err != nil {
		return err
	}
	f.halt(s, "It was deleted.")
	delete(f.sessions, id)
	return nil
}

const byRequest = "It was restarted by request."

func (f *fake) halt(s *fakeSession, why string) {
	if s.running != nil {
		s.running.stop <- why
		s.running = nil
	}
}

func (f *fake) ImagesOf(engine.Caller) ([]engine.Image, error) { return f.images.List() }

func (f *fake) DefaultImage(engine.Caller, engine.Origin) string {
	return cmp.Or(f.usual, engine.HostImage)
}

func (f *fake) Limits() (defaults, maxima engine.Limits) {
	return engine.Limits{Timeout: time.Minute}, engine.Limits{Timeout: 5 * time.Minute, Output: engine.OutputLimit{Bytes: 16 << 20}}
}

func (f *fake) Create(_ context.Context, caller engine.Caller, req live.Request) (engine.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	record := engine.Session{
		ID: engine.NewID(), Owner: caller.Owner, Origin: req.Origin, Kind: engine.SessionLive, Scope: req.Scope,
		Live: fmt.Sprintf(`{"language":%q,"image":%q}`, req.Language, req.Image),
	}
	f.sessions[record.ID] = &fakeSession{record: record}
	return record, nil
}

func (f *fake) Info(_ context.Context, caller engine.Caller, id engine.ID) (live.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err != nil {
		return live.Info{}, err
	}
	return live.Info{Session: s.record}, nil
}

func (f *fake) Start(_ context.Context, caller engine.Caller, id engine.ID, req live.CellRequest) (live.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err != nil {
		return live.Cell{}, err
	}
	c := &fakeCell{events: make(chan live.Event, 100), stop: make(chan string, 1), answers: make(chan string, 1)}
	if !req.Silent {
		s.count++
	}
	s.running = c
	cell := live.Cell{ID: engine.NewID(), Session: id, ExecutionCount: s.count}
	f.cells[cell.ID] = c
	go f.run(c, cell, req)
	return cell, nil
}

func (f *fake) run(c *fakeCell, cell live.Cell, req live.CellRequest) {
	started := cell
	c.events <- live.Event{Output: live.Output{Type: live.StartedEvent}, Cell: &started}
	cell.Status = live.StatusOK
	put := func(o live.Output) { c.events <- live.Event{Output: o} }
	for line := range strings.Lines(req.Code) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "print":
			put(live.Output{Type: live.Stdout, Text: rest + "\n"})
		case "big":
			var size int
			_, _ = fmt.Sscan(rest, &size)
			put(live.Output{Type: live.Stdout, Text: strings.Repeat("\x01é", size/3)})
		case "result":
			put(live.Output{Type: live.Result, Data: map[string]json.RawMessage{"text/plain": encode(rest)}})
		case "display":
			var data map[string]json.RawMessage
			_ = json.Unmarshal([]byte(rest), &data)
			put(live.Output{Type: live.Display, Data: data, DisplayID: "d"})
		case "error":
			put(live.Output{Type: live.Error, Name: "ValueError", Value: rest, Traceback: []string{"Traceback", "ValueError: " + rest}})
			cell.Status = live.StatusError
		case "ask":
			if !req.AllowInput {
				put(live.Output{Type: live.Error, Name: "EOFError", Value: live.NoInput + ": why",
					Traceback: []string{"Traceback", "EOFError: " + live.NoInput + ": why"}})
				cell.Status = live.StatusError
				continue
			}
			c.events <- live.Event{Output: live.Output{Type: live.InputEvent}, Prompt: rest}
			put(live.Output{Type: live.Stdout, Text: <-c.answers})
		case "comm":
			if req.Parent != "" {
				c.events <- live.Event{Output: live.Output{Type: live.CommEvent}, Comm: fakeComm(rest)}
			}
		case "wait":
			cell.Status, cell.Message = live.StatusInterrupted, <-c.stop
			if cell.Message == byRequest {
				cell.Status = live.StatusLost
			}
		case "misuse":
			put(live.Output{Type: live.Stderr, Text: "UsageError: Cell magic `%%" + rest + "` not found.\n"})
			cell.Status = live.StatusError
		case "die":
			cell.Status, cell.Message = live.StatusLost, "Its interpreter ended."
		}
	}
	c.events <- live.Event{Output: live.Output{Type: live.DoneEvent}, Cell: &cell}
	close(c.events)
}

func (f *fake) Watch(ctx context.Context, _ engine.Caller, _, id engine.ID, _ int) (iter.Seq[live.Event], error) {
	f.mu.Lock()
	c := f.cells[id]
	f.mu.Unlock()
	return func(yield func(live.Event) bool) {
		for {
			select {
			case e, more := <-c.events:
				if !more || !yield(e) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

func (f *fake) Interrupt(_ context.Context, caller engine.Caller, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err == nil {
		f.halt(s, "It was interrupted.")
	}
	return err
}

func (f *fake) Restart(_ context.Context, caller engine.Caller, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err == nil {
		f.halt(s, byRequest)
		s.count, s.restarts = 0, s.restarts+1
	}
	return err
}

func (f *fake) Answer(_ context.Context, caller engine.Caller, id engine.ID, text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.get(caller, id)
	if err == nil && s.running != nil {
		s.running.answers <- text
	}
	return err
}

func (f *fake) Complete(_ context.Context, _ engine.Caller, _ engine.ID, code string, cursor int) (live.Completion, error) {
	if cursor > len(code) {
		return live.Completion{}, engine.Invalid("cursor", "is not in the code")
	}
	return live.Completion{Matches: []string{code + "!"}, Start: 0, End: cursor}, nil
}

func (f *fake) Inspect(context.Context, engine.Caller, engine.ID, string, int, int) (live.Inspection, error) {
	return live.Inspection{}, nil
}

func (f *fake) IsComplete(context.Context, engine.Caller, engine.ID, string) (status, indent string, err error) {
	return "incomplete", "    ", nil
}

// fakeComm has a text as its data and as its buffer.
func fakeComm(text string) *live.CommMessage {
	return &live.CommMessage{Kind: commMessage, Content: encode(map[string]string{"comm_id": "c", "data": text}),
		Metadata: json.RawMessage(`{"version":"2"}`), Buffers: [][]byte{[]byte(text), {}}}
}

func (f *fake) Comms(context.Context, engine.Caller, engine.ID, string) (map[string]live.Comm, error) {
	if f.comms == nil {
		return nil, &engine.Error{Op: "comms", Kind: engine.ErrConflict}
	}
	return f.comms, nil
}

// SendComm sends a message back, and its parent.
func (f *fake) SendComm(
	ctx context.Context, caller engine.Caller, id engine.ID, parent string, m live.CommMessage,
) (iter.Seq[live.Event], error) {
	if f.comms == nil {
		return nil, &engine.Error{Op: "comm", Kind: engine.ErrConflict}
	}
	return func(yield func(live.Event) bool) {
		_ = yield(live.Event{Output: live.Output{Type: live.StartedEvent}, Cell: &live.Cell{}}) &&
			yield(live.Event{Output: live.Output{Type: live.Stdout, Text: "for " + parent}}) &&
			yield(live.Event{Output: live.Output{Type: live.CommEvent}, Comm: &m}) &&
			yield(live.Event{Output: live.Output{Type: live.DoneEvent}, Cell: &live.Cell{Status: live.StatusOK}})
	}, nil
}

func (f *fake) at(caller engine.Caller, id engine.ID, path string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.get(caller, id)
	full := filepath.Join(f.root, id.String(), path)
	_ = os.MkdirAll(filepath.Join(f.root, id.String()), 0o700)
	return full, err
}

func entry(full, path string) (engine.Entry, error) {
	info, err := os.Stat(full)
	if err != nil {
		return engine.Entry{}, &engine.Error{Op: "stat", Kind: engine.ErrNotFound}
	}
	kind := engine.EntryFile
	if info.IsDir() {
		kind = engine.EntryFolder
	}
	return engine.Entry{Path: path, Kind: kind, Size: info.Size(), Mode: info.Mode(), Modified: info.ModTime()}, nil
}

func (f *fake) StatFile(_ context.Context, caller engine.Caller, id engine.ID, path string) (engine.Entry, error) {
	full, err := f.at(caller, id, path)
	if err != nil {
		return engine.Entry{}, err
	}
	return entry(full, path)
}

func (f *fake) ListFiles(_ context.Context, caller engine.Caller, id engine.ID, path string, _ int) (all []engine.Entry, _ bool, err error) {
	full, err := f.at(caller, id, path)
	if err != nil {
		return nil, false, err
	}
	found, err := os.ReadDir(full)
	for _, e := range found {
		one, _ := entry(filepath.Join(full, e.Name()), filepath.Join(path, e.Name()))
		all = append(all, one)
	}
	return all, false, err
}

func (f *fake) OpenFile(_ context.Context, caller engine.Caller, id engine.ID, path string) (engine.Entry, *os.File, error) {
	full, err := f.at(caller, id, path)
	if err != nil {
		return engine.Entry{}, nil, err
	}
	e, err := entry(full, path)
	if err != nil {
		return e, nil, err
	}
	file, err := os.Open(full)
	return e, file, err
}

func (f *fake) WriteFile(_ context.Context, caller engine.Caller, id engine.ID, path string, content io.Reader) (engine.Entry, error) {
	full, err := f.at(caller, id, path)
	if err != nil {
		return engine.Entry{}, err
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return engine.Entry{}, err
	}
	if err := os.WriteFile(full, data, 0o600); err != nil {
		return engine.Entry{}, &engine.Error{Op: "write", Kind: engine.ErrNotFound, Err: err}
	}
	return entry(full, path)
}

func (f *fake) MoveFile(_ context.Context, caller engine.Caller, id engine.ID, from, to string, _ bool) (engine.Entry, error) {
	full, err := f.at(caller, id, from)
	target, _ := f.at(caller, id, to)
	if err != nil {
		return engine.Entry{}, err
	}
	if os.Rename(full, target) != nil {
		return engine.Entry{}, &engine.Error{Op: "move", Kind: engine.ErrNotFound}
	}
	return entry(target, to)
}

func (f *fake) MakeFolder(_ context.Context, caller engine.Caller, id engine.ID, path string) (engine.Entry, error) {
	full, err := f.at(caller, id, path)
	if err != nil {
		return engine.Entry{}, err
	}
	_ = os.MkdirAll(full, 0o700)
	return entry(full, path)
}

func (f *fake) RemoveFile(_ context.Context, caller engine.Caller, id engine.ID, path string, _ bool) error {
	full, err := f.at(caller, id, path)
	if err != nil {
		return err
	}
	if os.Remove(full) != nil {
		return &engine.Error{Op: "remove", Kind: engine.ErrNotFound}
	}
	return nil
}

// waitTime bounds the wait for an expected event.
const waitTime = 2 * time.Minute

// rig is a server whose callers are named in a header.
type rig struct {
	t    *testing.T
	fake *fake
	*Server
	url string
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	f := &fake{t: t, root: t.TempDir(), sessions: map[engine.ID]*fakeSession{}, cells: map[engine.ID]*fakeCell{}}
	o.Engine, o.Live = f, f
	if o.Languages == nil {
		o.Languages = []string{"python", "javascript", "typescript", "bash"}
	}
	o.Caller = func(r *http.Request) engine.Caller {
		if name := r.Header.Get("Owner"); name != "" {
			return engine.Caller{Owner: engine.Owner(name)}
		}
		return engine.Caller{Owner: "ann"}
	}
	r := &rig{t: t, fake: f, Server: New(o)}
	server := httptest.NewServer(r.Server)
	r.url = server.URL
	t.Cleanup(func() {
		f.mu.Lock()
		for _, s := range f.sessions {
			f.halt(s, "The test is over.")
		}
		f.mu.Unlock()
		r.Close()
		server.Close()
	})
	return r
}

// ask sends a request and decodes its answer.
func (r *rig) ask(owner, method, path, body string, into any) int {
	r.t.Helper()
	status, _ := r.askHeader(owner, method, path, body, into)
	return status
}

// askHeader is ask with the header of the answer.
func (r *rig) askHeader(owner, method, path, body string, into any) (int, http.Header) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Owner", owner)
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			r.t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
		}
	}
	return resp.StatusCode, resp.Header
}

// kernel creates a kernel.
func (r *rig) kernel() string {
	r.t.Helper()
	var made struct{ ID string }
	if status := r.ask("ann", "POST", "/api/kernels", "", &made); status != http.StatusCreated {
		r.t.Fatalf("%d", status)
	}
	return made.ID
}

// peer is a client of a kernel.
type peer struct {
	t      *testing.T
	socket *websocket.Conn
	v1     bool
}

func (r *rig) dial(kernel, query string, header http.Header, protocols ...string) *peer {
	r.t.Helper()
	socket, resp, err := websocket.Dial(r.t.Context(), r.url+"/api/kernels/"+kernel+"/channels"+query, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		r.t.Fatalf("%v: %v", resp, err)
	}
	r.t.Cleanup(func() { _ = socket.CloseNow() })
	socket.SetReadLimit(64 << 20)
	return &peer{r.t, socket, socket.Subprotocol() == subprotocol}
}

// send sends a request.
func (p *peer) send(channel, kind, id string, content any, buffers ...[]byte) {
	p.t.Helper()
	m := &message{channel: channel, id: id, kind: kind, header: encode(map[string]string{"msg_id": id, "msg_type": kind, "date": "", "version": "7.0"}), parent: none, content: encode(content), buffers: buffers}
	frame, data := m.encode(p.v1)
	if err := p.socket.Write(p.t.Context(), frame, data); err != nil {
		p.t.Error(err)
	}
}

func (p *peer) run(id, code string) {
	p.t.Helper()
	p.send(shell, "execute_request", id, map[string]any{"code": code, "allow_stdin": true})
}

// heard is a received message.
type heard struct {
	channel, kind, parent, text string
	content                     map[string]any
	metadata                    string
	buffers                     [][]byte
	bytes                       int
}

// hear returns the next message.
func (p *peer) hear() (heard, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), waitTime)
	defer cancel()
	kind, data, err := p.socket.Read(ctx)
	if err != nil {
		return heard{}, err
	}
	r, err := readFrame(kind, data, p.v1)
	if err != nil {
		return heard{}, fmt.Errorf("%w: %.200q", err, data)
	}
	h := heard{channel: r.channel, kind: r.kind, text: string(r.content), bytes: len(data),
		metadata: string(r.metadata), buffers: r.buffers}
	_ = json.Unmarshal(r.content, &h.content)
	var parts struct {
		Parent struct {
			ID string `json:"msg_id"`
		} `json:"parent_header"`
	}
	if p.v1 {
		offsets, _ := readOffsets(data, 8, le64)
		_ = json.Unmarshal(data[offsets[2]:offsets[3]], &parts.Parent)
	} else {
		if offsets, err := readOffsets(data, 4, be32); kind == websocket.MessageBinary && err == nil {
			data = split(data, offsets)[0]
		}
		_ = json.Unmarshal(data, &parts)
	}
	h.parent = parts.Parent.ID
	return h, nil
}

// until returns the messages up to the idle status of a request.
func (p *peer) until(id string) (all []heard) {
	p.t.Helper()
	for {
		h, err := p.hear()
		if err != nil {
			p.t.Fatalf("after %d messages: %v", len(all), err)
		}
		all = append(all, h)
		if h.parent == id && h.kind == "status" && h.content["execution_state"] == "idle" {
			return all
		}
	}
}
