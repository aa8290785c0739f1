package providertest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Dialect is the wire format of a provider.
type Dialect interface {
	http.Handler
	// Op returns the operation of a request.
	Op(r *http.Request) Op
	// WriteError answers with the provider's error body for a status. The Retry-After header
	// is set; a provider may send it in another way.
	WriteError(w http.ResponseWriter, status int, retryAfter time.Duration)
	// ExpireSessions ends all sessions, as their idle clock would. Base has none.
	ExpireSessions()
}

// Base is the common part of all test servers. A server embeds it and passes itself as the
// dialect:
//
//	s := &GeminiServer{...}
//	providertest.NewBase(t, s, &s.Base)
type Base struct {
	Clock   *Clock
	URL     string // without a slash at its end
	dialect Dialect
	files   shelf

	mu       sync.Mutex
	turns    []Turn
	faults   []Fault
	requests []Request
	group    int           // downloads that wait for each other
	waiting  int           // of them
	together chan struct{} // closed when all are there
}

// Request is a received request.
type Request struct {
	Op     Op
	Method string
	Path   string
	Query  string
	Header http.Header
}

// NewBase starts the server; it ends with the test. It sets the field of the dialect before
// the first request.
func NewBase(tb testing.TB, d Dialect, field **Base) {
	tb.Helper()
	b := &Base{Clock: NewClock(), dialect: d, together: make(chan struct{})}
	*field = b
	server := httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.URL = "http://" + server.Listener.Addr().String()
	server.Start()
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

// Script appends turns to the script.
func (b *Base) Script(turns ...Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns = append(b.turns, turns...)
}

// Rescript replaces the rest of the script.
func (b *Base) Rescript(turns ...Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns = turns
}

// NextTurn takes the next turn of the script. The default is the answer "ok".
func (b *Base) NextTurn() Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.turns) == 0 {
		return Turn{Text: "ok"}
	}
	t := b.turns[0]
	b.turns = b.turns[1:]
	return t
}

// Inject adds faults, each of which happens once.
func (b *Base) Inject(faults ...Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, faults...)
}

// Pending returns the faults that have not happened yet.
func (b *Base) Pending() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}

// Heal removes the faults that have not happened.
func (b *Base) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// Group makes every download wait until n of them do, and then answers these n.
func (b *Base) Group(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.group, b.waiting, b.together = n, 0, make(chan struct{})
}

// join returns a channel that is closed when a download may be answered.
func (b *Base) join() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	together := b.together
	if b.waiting++; b.waiting >= b.group {
		close(together)
		b.waiting, b.together = 0, make(chan struct{})
	}
	return together
}

// Requests returns the received requests, oldest first.
func (b *Base) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Count counts the requests of an Op.
func (b *Base) Count(op Op) (n int) {
	for _, r := range b.Requests() {
		if r.Op == op {
			n++
		}
	}
	return n
}

// Objects names the objects at the provider, sorted: "file <id> <name>", "session <id>".
func (b *Base) Objects() []string {
	o := b.files.objects(b.Clock.Now())
	slices.Sort(o)
	return o
}

// ExpireSessions implements Dialect: there are no sessions.
func (b *Base) ExpireSessions() {}

func (b *Base) serve(w http.ResponseWriter, r *http.Request) {
	op := b.dialect.Op(r)
	fault := b.note(op, r)
	if op == OpDownload {
		select {
		case <-b.join():
		case <-r.Context().Done():
			return
		}
	}
	if fault != nil {
		b.breakOff(w, r, *fault)
		return
	}
	b.dialect.ServeHTTP(w, r)
}

// note records a request and takes its fault.
func (b *Base) note(op Op, r *http.Request) *Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, Request{Op: op, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: r.Header.Clone()})
	for i := range b.faults {
		if b.faults[i].On != op {
			continue
		}
		if b.faults[i].Skip > 0 {
			b.faults[i].Skip--
			continue
		}
		f := b.faults[i]
		b.faults = slices.Delete(b.faults, i, i+1)
		return &f
	}
	return nil
}

// serveOp calls the handler of an operation. It reports whether there is one.
func serveOp(w http.ResponseWriter, r *http.Request, op Op, check, run, upload, list, file http.HandlerFunc) bool {
	serve := map[Op]http.HandlerFunc{OpCheck: check, OpRun: run, OpUpload: upload, OpUploadPart: upload, OpList: list,
		OpStat: file, OpDownload: file, OpDelete: file}[op]
	if serve != nil {
		serve(w, r)
	}
	return serve != nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// sendEvent sends a server-sent event, without a name if it is empty.
func sendEvent(w http.ResponseWriter, name string, v any) {
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	data, _ := json.Marshal(v)
	fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush()
}

// NewID returns prefix and 26 random letters and digits.
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
