package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
)

// holdRequest makes a held workspace.
type holdRequest struct {
	ID     engine.ID
	Lease  lease `json:",omitzero"`
	Wall   engine.Wall
	Inputs []input
	Limits engine.Limits
}

func (w *Worker) hold(rw http.ResponseWriter, r *http.Request, request *holdRequest) error {
	if err := w.enter(false); err != nil {
		return err
	}
	defer w.runs.Done()
	x := w.exchange(rw, r)
	inputs, err := x.open(r.Context(), request.Inputs)
	if err == nil {
		err = w.inNew(r.Context(), request.ID, request.Lease, func() error {
			return w.config.Sandbox.Hold(r.Context(), request.ID, request.Lease.Generation, request.Wall, inputs, request.Limits)
		})
		closeInputs(inputs)
	}
	x.done(result{}, err)
	return nil
}

type changesRequest struct {
	ID     engine.ID
	Lease  lease `json:",omitzero"`
	Limits engine.FileLimit
	Paths  []string `json:",omitempty"`
}

func (w *Worker) changes(rw http.ResponseWriter, r *http.Request, request *changesRequest) error {
	x := w.exchange(rw, r)
	done, err := w.use(request.ID, request.Lease)
	if err != nil {
		x.done(result{}, err)
		return nil
	}
	changes, err := w.config.Sandbox.Changes(r.Context(), request.ID, request.Limits, request.Paths...)
	done()
	if err != nil {
		x.done(result{}, err)
		return nil
	}
	defer closeOutputs(changes.Outputs)
	stored, dropped, err := x.store(r.Context(), changes.Outputs, false)
	left := *changes
	left.Outputs, left.Dropped = nil, append(left.Dropped, dropped...)
	x.done(result{Changes: &left, Outputs: stored}, err)
	return nil
}

// question is a request with one answer. Exactly one field is set, and Lease for one of a workspace.
type question struct {
	Lease     lease         `json:",omitzero"`
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

func (w *Worker) serveQuery(rw http.ResponseWriter, r *http.Request, q *question) error {
	a, err := w.reply(r.Context(), q)
	if err == nil {
		_ = json.NewEncoder(rw).Encode(a)
	}
	return err
}

func (w *Worker) reply(ctx context.Context, q *question) (a reply, err error) {
	s := w.config.Sandbox
	switch {
	case q.Release != nil:
		err = w.release(ctx, *q.Release, q.Lease)
	case q.Usage != nil:
		if _, err = w.leaseOf(*q.Usage, q.Lease); err == nil {
			a.Usage, err = s.Usage(ctx, *q.Usage)
		}
	case q.Held:
		if w.admitsHeld() {
			a.Held, err = s.Held(ctx)
		}
	case q.Isolation:
		var i engine.Isolation
		i, err = s.Isolation(ctx)
		a.Isolation = &i
	case q.Pools:
		a.Pools, err = s.Pools(ctx)
	case q.Process != nil:
		err = w.order(q.Process)
	case q.Files != nil:
		files, err := w.files(q.Files)
		if err != nil {
			return a, err
		}
		return q.Files.do(ctx, files)
	default:
		err = &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: errors.New("nothing is asked")}
	}
	return a, err
}

func (w *Worker) files(r *filesRequest) (engine.Files, error) {
	if _, err := w.leaseOf(r.Held, r.Lease); err != nil {
		return nil, err
	}
	if r.Tmp {
		return w.config.Sandbox.Tmp(r.Held), nil
	}
	return w.config.Sandbox.Files(r.Held), nil
}

// filesRequest is an operation on the files of a workspace.
type filesRequest struct {
	Held      engine.ID
	Lease     lease `json:",omitzero"`
	Tmp       bool  `json:",omitempty"`
	Op        string
	Path      []byte
	To        []byte `json:",omitempty"`
	Depth     int    `json:",omitempty"`
	Replace   bool   `json:",omitempty"`
	Recursive bool   `json:",omitempty"`
}

// entry carries an engine.Entry, whose names need not be UTF-8.
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

func (w *Worker) open(rw http.ResponseWriter, r *http.Request, q *filesRequest) error {
	files, err := w.files(q)
	if err != nil {
		return err
	}
	f, e, err := files.Open(r.Context(), string(q.Path))
	if err != nil {
		return err
	}
	defer f.Close()
	head, _ := json.Marshal(newEntry(e))
	rw.Header().Set(headRequest, string(head))
	_, _ = io.Copy(rw, f)
	return nil
}

func (w *Worker) write(rw http.ResponseWriter, r *http.Request, q *filesRequest) error {
	files, err := w.files(q)
	if err != nil {
		return err
	}
	e, err := files.Write(r.Context(), string(q.Path), r.Body)
	if err == nil {
		_ = json.NewEncoder(rw).Encode(reply{Entries: []entry{newEntry(e)}})
	}
	return err
}

// fileEvents is one message of a watch.
type fileEvents struct {
	Events []fileEvent
}

type fileEvent struct {
	engine.FileEvent
	Path, From []byte
}

func (w *Worker) watch(rw http.ResponseWriter, r *http.Request, q *filesRequest) error {
	files, err := w.files(q)
	if err != nil {
		return err
	}
	x := w.exchange(rw, r)
	ready := func() { _ = x.frames.sendJSON(kindStarted, fileEvents{}) }
	err = files.Watch(r.Context(), string(q.Path), q.Recursive, ready,
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
	return nil
}

// hijack upgrades the connection of a request to a stream in both directions.
func hijack(rw http.ResponseWriter) (net.Conn, error) {
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
	Held  engine.ID
	Lease lease `json:",omitzero"`
	Port  int
}

func (w *Worker) dial(rw http.ResponseWriter, r *http.Request, q *dialRequest) error {
	if _, err := w.leaseOf(q.Held, q.Lease); err != nil {
		return err
	}
	inner, err := w.config.Sandbox.Dial(r.Context(), q.Held, q.Port)
	if err != nil {
		return err
	}
	defer inner.Close()
	outer, err := hijack(rw)
	if err != nil {
		return nil // the connection has failed
	}
	defer outer.Close()
	var group sync.WaitGroup
	group.Go(func() { splice(inner, outer) })
	splice(outer, inner)
	group.Wait()
	return nil
}

// splice copies until from ends, and ends to as well.
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
	ID    engine.ID // of the process, in a processOrder
	Held  engine.ID
	Lease lease `json:",omitzero"`
	Argv  [][]byte
	Env   map[string]string
	Dir   []byte
	Term  *engine.TerminalSize
}

func (w *Worker) start(rw http.ResponseWriter, r *http.Request, q *startRequest) error {
	spec := &engine.ProcessSpec{Env: q.Env, Dir: string(q.Dir), Terminal: q.Term}
	for _, a := range q.Argv {
		spec.Argv = append(spec.Argv, string(a))
	}
	if _, err := w.leaseOf(q.Held, q.Lease); err != nil {
		return err
	}
	p, err := w.config.Sandbox.Start(r.Context(), q.Held, spec)
	if err != nil {
		return err
	}
	defer p.Close()
	rw.Header().Set(headPID, strconv.Itoa(p.PID()))
	conn, err := hijack(rw)
	if err != nil {
		return nil // the connection has failed
	}
	defer conn.Close()
	w.serve(q.ID, p, &frames{r: conn, w: conn}, q.Term != nil)
	return nil
}

// serve carries the streams of a process, until they end or the api disconnects. Signals
// come in requests of their own, because input may wait for the process.
func (w *Worker) serve(id engine.ID, p engine.Process, f *frames, terminal bool) {
	w.mu.Lock()
	w.processes[id] = p
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.processes, id)
	}()
	var input, streams sync.WaitGroup
	input.Go(func() { readInput(p, f) })
	pump := func(k kind, r io.Reader) {
		w := frameWriter{f, k}
		_, _ = io.Copy(w, r)
		_ = w.Close() // fails if the api has disconnected
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
	_ = p.WaitAll() // its executor has ended, and all with it
	_ = f.send(kindAllDone, nil)
	input.Wait()
}

type processEnd struct {
	End   engine.ProcessEnd
	Error *failure `json:",omitempty"`
}

// readInput writes to the standard input of a process until the api disconnects, and then
// closes the process.
func readInput(p engine.Process, f *frames) {
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
		_, _ = p.Stdin().Write(payload) // a process may continue without reading
	}
}

// processOrder signals a process, or resizes its terminal.
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
