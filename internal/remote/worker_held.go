package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
)

// holdRequest makes a held workspace.
type holdRequest struct {
	ID     engine.ID
	Inputs []input
	Limits engine.Limits
}

func (w *Worker) hold(rw http.ResponseWriter, r *http.Request) {
	if err := w.enter(false); err != nil {
		refuse(rw, err)
		return
	}
	defer w.runs.Done()
	x := w.exchange(rw, r)
	var request holdRequest
	if err := x.first(&request); err != nil {
		refuse(rw, err)
		return
	}
	inputs, err := x.open(r.Context(), request.Inputs)
	if err == nil {
		err = w.config.Sandbox.Hold(r.Context(), request.ID, inputs, request.Limits)
		closeInputs(inputs)
	}
	x.done(result{}, err)
}

type changesRequest struct {
	ID     engine.ID
	Limits engine.FileLimit
}

func (w *Worker) changes(rw http.ResponseWriter, r *http.Request) {
	x := w.exchange(rw, r)
	var request changesRequest
	if err := x.first(&request); err != nil {
		refuse(rw, err)
		return
	}
	changes, err := w.config.Sandbox.Changes(r.Context(), request.ID, request.Limits)
	if err != nil {
		x.done(result{}, err)
		return
	}
	defer closeOutputs(changes.Outputs)
	stored, dropped, err := x.store(r.Context(), changes.Outputs)
	left := *changes
	left.Outputs, left.Dropped = nil, append(left.Dropped, dropped...)
	x.done(result{Changes: &left, Outputs: stored}, err)
}

// question is a request that has one answer. Exactly one field is set.
type question struct {
	Release   *engine.ID    `json:",omitempty"`
	Usage     *engine.ID    `json:",omitempty"`
	Held      bool          `json:",omitempty"`
	Isolation bool          `json:",omitempty"`
	Pools     bool          `json:",omitempty"`
	Files     *filesRequest `json:",omitempty"`
	Process   *processOrder `json:",omitempty"`
}

type reply struct {
	Usage     engine.SandboxUsage
	Held      map[engine.ID]int64 `json:",omitempty"`
	Isolation *engine.Isolation   `json:",omitempty"`
	Pools     []engine.Pool       `json:",omitempty"`
	Entries   []entry             `json:",omitempty"`
	More      bool                `json:",omitempty"`
}

func (w *Worker) ask(rw http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(rw, &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: err})
		return
	}
	a, err := w.reply(r.Context(), &q)
	if err != nil {
		refuse(rw, err)
		return
	}
	_ = json.NewEncoder(rw).Encode(a)
}

func (w *Worker) reply(ctx context.Context, q *question) (a reply, err error) {
	s := w.config.Sandbox
	switch {
	case q.Release != nil:
		err = s.Release(ctx, *q.Release)
	case q.Usage != nil:
		a.Usage, err = s.Usage(ctx, *q.Usage)
	case q.Held:
		a.Held, err = s.Held(ctx)
	case q.Isolation:
		var i engine.Isolation
		i, err = s.Isolation(ctx)
		a.Isolation = &i
	case q.Pools:
		a.Pools, err = s.Pools(ctx)
	case q.Process != nil:
		err = w.order(q.Process)
	case q.Files != nil:
		return q.Files.do(ctx, w.files(q.Files))
	default:
		err = &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: errors.New("nothing is asked")}
	}
	return a, err
}

func (w *Worker) files(r *filesRequest) engine.Files {
	if r.Tmp {
		return w.config.Sandbox.Tmp(r.Held)
	}
	return w.config.Sandbox.Files(r.Held)
}

// filesRequest is something to do with the files of a workspace.
type filesRequest struct {
	Held      engine.ID
	Tmp       bool `json:",omitempty"`
	Op        string
	Path      []byte
	To        []byte `json:",omitempty"`
	Depth     int    `json:",omitempty"`
	Replace   bool   `json:",omitempty"`
	Recursive bool   `json:",omitempty"`
}

// entry is an engine.Entry, whose names need not be UTF-8.
type entry struct {
	engine.Entry
	Path, Target []byte
}

func newEntry(e engine.Entry) entry {
	out := entry{Entry: e, Path: []byte(e.Path), Target: []byte(e.Target)}
	out.Entry.Path, out.Entry.Target = "", ""
	return out
}

func (e entry) entry() engine.Entry {
	out := e.Entry
	out.Path, out.Target = string(e.Path), string(e.Target)
	return out
}

func (r *filesRequest) do(ctx context.Context, files engine.Files) (a reply, err error) {
	path := string(r.Path)
	var one engine.Entry
	var list []engine.Entry
	switch r.Op {
	case "list":
		list, a.More, err = files.List(ctx, path, r.Depth)
	case "stat":
		one, err = files.Stat(ctx, path)
	case "folder":
		one, err = files.MakeFolder(ctx, path)
	case "move":
		one, err = files.Move(ctx, path, string(r.To), r.Replace)
	case "remove":
		return a, files.Remove(ctx, path, r.Recursive)
	default:
		err = &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: errors.New("unknown operation")}
	}
	if r.Op != "list" {
		list = []engine.Entry{one}
	}
	for _, e := range list {
		a.Entries = append(a.Entries, newEntry(e))
	}
	return a, err
}

// inside are the requests that have streams of their own, each with a connection of
// its own: whoever does not read holds nobody else up.
func (w *Worker) inside(mux *http.ServeMux) {
	mux.HandleFunc("POST /worker/v1/open", func(rw http.ResponseWriter, r *http.Request) {
		q, err := asked[filesRequest](r)
		if err != nil {
			refuse(rw, err)
			return
		}
		f, e, err := w.files(q).Open(r.Context(), string(q.Path))
		if err != nil {
			refuse(rw, err)
			return
		}
		defer f.Close()
		head, _ := json.Marshal(newEntry(e))
		rw.Header().Set(headRequest, string(head))
		_, _ = io.Copy(rw, f)
	})
	mux.HandleFunc("POST /worker/v1/write", func(rw http.ResponseWriter, r *http.Request) {
		q, err := asked[filesRequest](r)
		var e engine.Entry
		if err == nil {
			e, err = w.files(q).Write(r.Context(), string(q.Path), r.Body)
		}
		if err != nil {
			refuse(rw, err)
			return
		}
		_ = json.NewEncoder(rw).Encode(reply{Entries: []entry{newEntry(e)}})
	})
	mux.HandleFunc("POST /worker/v1/watch", w.watch)
	mux.HandleFunc("POST /worker/v1/dial", w.dial)
	mux.HandleFunc("POST /worker/v1/start", w.start)
}

// headRequest is the header that a request is in whose body is something else.
const headRequest = "Airlock-Request"

func asked[T any](r *http.Request) (*T, error) {
	var q T
	if err := json.Unmarshal([]byte(r.Header.Get(headRequest)), &q); err != nil {
		return nil, &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: err}
	}
	return &q, nil
}

// fileEvents is one message of a watch; the first one is empty.
type fileEvents struct {
	Events []fileEvent
}

type fileEvent struct {
	engine.FileEvent
	Path, From []byte
}

func (w *Worker) watch(rw http.ResponseWriter, r *http.Request) {
	q, err := asked[filesRequest](r)
	if err != nil {
		refuse(rw, err)
		return
	}
	x := w.exchange(rw, r)
	ready := func() { _ = x.frames.sendJSON(kindStarted, fileEvents{}) }
	err = w.files(q).Watch(r.Context(), string(q.Path), q.Recursive, ready,
		func(list []engine.FileEvent) {
			var m fileEvents
			for _, e := range list {
				out := fileEvent{FileEvent: e, Path: []byte(e.Path), From: []byte(e.From)}
				out.FileEvent.Path, out.FileEvent.From = "", ""
				m.Events = append(m.Events, out)
			}
			_ = x.frames.sendJSON(kindStdout, m)
		})
	x.done(result{}, err)
}

// take makes the connection of a request the handler's.
func take(rw http.ResponseWriter) (net.Conn, error) {
	rw.Header().Set("Connection", "Upgrade")
	rw.Header().Set("Upgrade", "airlock")
	rw.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return nil, err
	}
	if err := buffered.Flush(); err != nil {
		return nil, err
	}
	return conn, nil
}

type dialRequest struct {
	Held engine.ID
	Port int
}

func (w *Worker) dial(rw http.ResponseWriter, r *http.Request) {
	q, err := asked[dialRequest](r)
	var inner net.Conn
	if err == nil {
		inner, err = w.config.Sandbox.Dial(r.Context(), q.Held, q.Port)
	}
	if err != nil {
		refuse(rw, err)
		return
	}
	defer inner.Close()
	outer, err := take(rw)
	if err != nil {
		return
	}
	defer outer.Close()
	var group sync.WaitGroup
	group.Go(func() { splice(inner, outer) })
	splice(outer, inner)
	group.Wait()
}

// splice copies until one side ends, and says so to the other.
func splice(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

type startRequest struct {
	ID   engine.ID // by which the process is called
	Held engine.ID
	Argv [][]byte
	Env  map[string]string
	Dir  []byte
	Term *engine.TerminalSize
}

func (w *Worker) start(rw http.ResponseWriter, r *http.Request) {
	q, err := asked[startRequest](r)
	if err != nil {
		refuse(rw, err)
		return
	}
	spec := &engine.ProcessSpec{Env: q.Env, Dir: string(q.Dir), Terminal: q.Term}
	for _, a := range q.Argv {
		spec.Argv = append(spec.Argv, string(a))
	}
	p, err := w.config.Sandbox.Start(r.Context(), q.Held, spec)
	if err != nil {
		refuse(rw, err)
		return
	}
	defer p.Close()
	conn, err := take(rw)
	if err != nil {
		return
	}
	defer conn.Close()
	w.serve(q.ID, p, &frames{r: conn, w: conn}, q.Term != nil)
}

// serve carries the streams of a process, until they are at their end or the api is
// gone. What is typed waits for the process; signals come by other ways.
func (w *Worker) serve(id engine.ID, p engine.Process, f *frames, terminal bool) {
	w.mu.Lock()
	w.processes[id] = p
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.processes, id)
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		typed(p, f)
	}()
	var streams sync.WaitGroup
	pump := func(k kind, r io.Reader) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			if n > 0 && f.send(k, buffer[:n]) != nil {
				return
			}
			if err != nil {
				_ = f.send(k, nil)
				return
			}
		}
	}
	streams.Go(func() { pump(kindStdout, p.Stdout()) })
	if !terminal {
		streams.Go(func() { pump(kindStderr, p.Stderr()) })
	}
	end, err := p.Wait()
	ended := processEnd{End: end}
	if err != nil {
		ended.Error = newFailure(err)
	}
	_ = f.sendJSON(kindDone, ended)
	streams.Wait()
	<-gone
}

type processEnd struct {
	End   engine.ProcessEnd
	Error *failure `json:",omitempty"`
}

// typed passes on what a process is to read, until the api closes: then the process is
// closed.
func typed(p engine.Process, f *frames) {
	defer p.Close()
	for {
		k, payload, err := f.receive()
		if err != nil || k != kindBytes {
			return
		}
		if len(payload) == 0 {
			p.Stdin().Close()
			continue
		}
		_, _ = p.Stdin().Write(payload) // one that reads no more may go on
	}
}

// processOrder is what an api may ask of a process that runs.
type processOrder struct {
	ID     engine.ID
	Signal int                  `json:",omitempty"`
	Size   *engine.TerminalSize `json:",omitempty"`
}

func (w *Worker) order(o *processOrder) error {
	w.mu.Lock()
	p := w.processes[o.ID]
	w.mu.Unlock()
	if p == nil {
		return &engine.Error{Op: "signal", Kind: engine.ErrConflict, Err: errors.New("the process has ended")}
	}
	if o.Size != nil {
		return p.Resize(*o.Size)
	}
	return p.Signal(syscall.Signal(o.Signal))
}
