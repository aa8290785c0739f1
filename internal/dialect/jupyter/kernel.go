package jupyter

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// kernel is a live session as clients of Jupyter see it.
type kernel struct {
	server *Server
	id     engine.ID
	caller engine.Caller
	spec   *spec
	ended  bool // guarded by the server's mu; an ended kernel stays known until its session has ended

	mu       sync.Mutex
	clients  []*client
	requests []*clientRequest // that wait
	bytes    int              // of those
	working  bool             // a goroutine handles them
	asker    *client          // the client that answers input() of the running cell
	wanted   bool             // a client wanted the next interpreter to be a new one
	inputs   []string         // of cells, for their history
	inputted int              // bytes of those
	count    int              // of the last cell
	state    string
	used     time.Time
	expiry   *time.Timer
	gone     bool
}

// clientRequest is a request with the client that it came from.
type clientRequest struct {
	*request
	from *client
}

// States of a kernel.
const (
	stateStarting   = "starting"
	stateIdle       = "idle"
	stateBusy       = "busy"
	stateRestarting = "restarting"
)

// kernelModel is a kernel as the REST API describes it.
type kernelModel struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	LastActivity stamp  `json:"last_activity"`
	State        string `json:"execution_state"`
	Connections  int    `json:"connections"`
}

func (k *kernel) model() kernelModel {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := kernelModel{ID: k.id.UUID(), Name: k.spec.name, LastActivity: stamp(k.used), State: k.state}
	for _, c := range k.clients {
		if c.connected() {
			m.Connections++
		}
	}
	return m
}

// add adds the kernel of a session, unless it exists. The caller holds the server's mu.
func (s *Server) add(caller engine.Caller, record engine.Session) *kernel {
	if known := s.kernels[record.ID]; known != nil {
		return known
	}
	k := &kernel{server: s, id: record.ID, caller: caller, spec: specOf(record), state: stateIdle, used: time.Now()}
	s.kernels[k.id] = k
	k.expiry = time.AfterFunc(s.Idle, k.expire)
	return k
}

func missing(id string) error {
	return wire.Refuse(http.StatusNotFound, "Kernel does not exist: %.60s", id)
}

// find returns a caller's kernel. A kernel from before a restart of the service is found by its
// session, and has its files.
func (s *Server) find(ctx context.Context, caller engine.Caller, name string) (*kernel, error) {
	id, err := engine.ParseUUID(strings.ToLower(name))
	if err != nil {
		return nil, missing(name)
	}
	info, err := s.Live.Info(ctx, caller, id)
	switch kind := engine.KindOf(err); {
	case err == nil && info.Session.Origin == engine.OriginJupyter:
	case err == nil, kind == engine.ErrConflict:
		return nil, missing(name) // the session is not a kernel
	case kind == engine.ErrNotFound:
		s.mu.Lock()
		k := s.kernels[id]
		s.mu.Unlock()
		if k != nil && k.caller.Owner == caller.Owner {
			k.forget("The kernel has ended.")
		}
		return nil, missing(name)
	default:
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.add(caller, info.Session); !k.ended {
		return k, nil
	}
	return nil, missing(name)
}

// owned returns a caller's kernels, newest first.
func (s *Server) owned(ctx context.Context, caller engine.Caller) ([]*kernel, error) {
	sessions, err := s.Engine.ListSessions(ctx, caller, engine.SessionQuery{Origin: engine.OriginJupyter})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*kernel
	for _, record := range sessions {
		if record.Kind != engine.SessionLive {
			continue
		}
		if k := s.add(caller, record); !k.ended {
			all = append(all, k)
		}
	}
	return all, nil
}

func (s *Server) listKernels(w http.ResponseWriter, r *http.Request) error {
	kernels, err := s.owned(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	models := make([]any, len(kernels))
	for i, k := range kernels {
		models[i] = k.model()
	}
	return s.writeList(w, r, models)
}

// writeList answers with a list, to which other nodes add remote.
func (s *Server) writeList(w http.ResponseWriter, r *http.Request, models []any) error {
	if s.Gather != nil {
		for _, answer := range s.Gather(w, r) {
			var remote []json.RawMessage
			if err := json.Unmarshal(answer, &remote); err != nil {
				return fmt.Errorf("a node's part of a list: %w", err)
			}
			for _, m := range remote {
				models = append(models, m)
			}
		}
	}
	return writeJSON(w, http.StatusOK, models)
}

// sessionTTL is how long a kernel is kept after its last use while a client is there.
const sessionTTL = 8 * time.Hour

// start makes a kernel.
func (s *Server) start(ctx context.Context, caller engine.Caller, name string, env map[string]string) (*kernel, error) {
	specs, err := s.specs(caller)
	if err != nil {
		return nil, err
	}
	kind := findSpec(specs, name)
	if kind == nil {
		return nil, wire.Refuse(http.StatusNotFound, "No such kernel: %.60s", name)
	}
	// A client that asks for one more kernel than may run waits here, where it can be refused with
	// an HTTP status. The first cell waits for itself.
	if err := s.Live.AwaitRoom(ctx, caller); err != nil {
		return nil, err
	}
	// A kernel's cells have no time limit in Jupyter, and its clients have their own:
	// the most that there is here is the nearest to that.
	_, most := s.Engine.Limits()
	made, err := s.Live.Create(ctx, caller, live.Request{
		Language: kind.language, Image: kind.image, Scope: kind.name, Origin: engine.OriginJupyter,
		TTL: sessionTTL, Idle: sessionTTL, Setup: live.Setup{Env: env},
		Limits: engine.Limits{Timeout: most.Timeout, Output: engine.OutputLimit{Bytes: most.Output.Bytes}},
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(caller, made), nil
}

func (s *Server) createKernel(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name string            `json:"name"`
		Env  map[string]string `json:"env"`
	}
	if err := s.readJSON(w, r, maxRequest, &body); err != nil {
		return err
	}
	// Variables about the machine of a gateway's client are not passed to programs.
	maps.DeleteFunc(body.Env, func(name, _ string) bool { return strings.HasPrefix(name, "KERNEL_") })
	k, err := s.start(r.Context(), s.Caller(r), body.Name, body.Env)
	if err != nil {
		return err
	}
	setLocation(w, r, "api/kernels/"+k.id.UUID())
	return writeJSON(w, http.StatusCreated, k.model())
}

// onKernel serves a request about the kernel in its path.
func (s *Server) onKernel(serve func(http.ResponseWriter, *http.Request, *kernel) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		k, err := s.find(r.Context(), s.Caller(r), r.PathValue("id"))
		if err != nil {
			return err
		}
		return serve(w, r, k)
	}
}

func sendModel(w http.ResponseWriter, _ *http.Request, k *kernel) error {
	return writeJSON(w, http.StatusOK, k.model())
}

func deleteKernel(w http.ResponseWriter, r *http.Request, k *kernel) error {
	return noContent(w, k.delete(r.Context()))
}

func interruptKernel(w http.ResponseWriter, r *http.Request, k *kernel) error {
	return noContent(w, k.server.Live.Interrupt(r.Context(), k.caller, k.id))
}

func restartKernel(w http.ResponseWriter, r *http.Request, k *kernel) error {
	parent := k.message(control, "shutdown_request", none, map[string]bool{"restart": true}).header
	k.status(stateBusy, parent)
	err := k.restart(r.Context(), parent)
	k.status(stateIdle, parent)
	if err != nil {
		return err
	}
	return sendModel(w, r, k)
}

// delete ends a kernel and deletes its session.
func (k *kernel) delete(ctx context.Context) error {
	k.forget("The kernel was shut down.")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := k.server.Engine.DeleteSession(ctx, k.caller, k.id)
	if engine.KindOf(err) == engine.ErrNotFound {
		err = nil
	}
	return err
}

// endTime bounds how long the end of a kernel takes.
const endTime = 30 * time.Second

// forget removes a kernel from the list, closes the connections of its clients, and drops its
// queue.
func (k *kernel) forget(why string) {
	s := k.server
	s.mu.Lock()
	if !k.ended {
		k.ended = true
		time.AfterFunc(2*endTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.kernels, k.id)
		})
	}
	for id, n := range s.notebook {
		if n.kernel == k {
			delete(s.notebook, id)
		}
	}
	s.mu.Unlock()
	k.mu.Lock()
	k.gone, k.requests, k.bytes = true, nil, 0
	k.expiry.Stop()
	k.mu.Unlock()
	k.leave(websocket.StatusNormalClosure, why)
}

// expire ends an unused kernel.
func (k *kernel) expire() {
	k.mu.Lock()
	idle := !k.gone && !k.working && !slices.ContainsFunc(k.clients, (*client).connected)
	k.mu.Unlock()
	if !idle {
		return
	}
	k.server.background(func() {
		if err := k.delete(k.server.life); err != nil {
			k.server.Log.Error("an idle kernel could not be ended", "session", k.id, "error", err)
		}
	})
}

// touch records a use, and starts or stops the timer of unused kernels. The caller holds mu.
func (k *kernel) touch() {
	k.used = time.Now()
	k.expiry.Stop()
	if !k.gone && !k.working && !slices.ContainsFunc(k.clients, (*client).connected) {
		k.expiry.Reset(k.server.Idle)
	}
}

// restart starts a kernel anew, for a request or for the REST API. Its clients are not sent the
// state restarting, which JupyterLab shows as a kernel that died.
func (k *kernel) restart(ctx context.Context, parent json.RawMessage) error {
	k.mu.Lock()
	waiting := k.requests
	k.requests, k.bytes, k.wanted, k.inputs, k.inputted, k.count = nil, 0, true, nil, 0, 0
	k.state = stateRestarting
	k.mu.Unlock()
	for _, r := range waiting {
		k.abort(r)
	}
	err := k.server.Live.Restart(ctx, k.caller, k.id)
	if err == nil {
		k.publish(iopub, "shutdown_reply", parent, map[string]any{"status": "ok", "restart": true})
		k.status(stateStarting, none)
	}
	k.setState(stateIdle, none)
	return err
}

// setState changes the state of the kernel and publishes it.
func (k *kernel) setState(state string, parent json.RawMessage) {
	k.mu.Lock()
	k.state = state
	k.mu.Unlock()
	k.status(state, parent)
}

// status sends a status message without a change of state.
func (k *kernel) status(state string, parent json.RawMessage) {
	k.publish(iopub, "status", parent, map[string]string{"execution_state": state})
}
