// Package live keeps interpreters between pieces of code. A live session is a session of the engine
// with one interpreter, which keeps its variables; the pieces of code are cells, run one after the
// other.
// An interpreter is one long run of the engine. Its driver asks over the channel for calls what to
// do next, and the answer is a cell. While the driver waits, the run's clock is stopped, and soon
// its processes are frozen and it holds no slot. Files that a cell changed are stored after it, so
// that they outlive the interpreter, the executor and the service. Variables do not, and the next
// cell reports that.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Config limits live sessions.
type Config struct {
	Idle     time.Duration // after which an interpreter without a cell is ended; 0: 30 min
	PerOwner int           // interpreters of one owner; 0: 16
	Total    int           // interpreters of all; 0: by memory

	// One more waits until another one has ended, or is idle and makes room.
	Wait          time.Duration // until it is refused; 0: 30 s
	Queue         int           // that wait, of all owners; 0: 256
	QueuePerOwner int           // that wait, of one owner; 0: 64
}

const (
	defaultIdle     = 30 * time.Minute
	defaultPerOwner = 16
	defaultTotal    = 64
	defaultWait     = 30 * time.Second
	defaultQueue    = 256
	queuePerOwner   = 64
)

// Service keeps the interpreters. It is safe for concurrent use. Errors are *engine.Error:
// ErrNotFound for sessions that do not exist or belong to another owner.
type Service struct {
	config Config
	engine *engine.Service
	log    *slog.Logger

	life context.Context //nolint:containedctx // of the goroutines that follow interpreters
	end  context.CancelCauseFunc
	work sync.WaitGroup

	rooms rooms

	mu       sync.Mutex
	sessions map[engine.ID]*session
	sweepAt  int // number of sessions at which deleted sessions are forgotten
	closed   bool

	cells, lost, evicted, expired, changes atomic.Uint64
}

var errClosing = errors.New("the service is shutting down")

func closing() error {
	return &engine.Error{Op: "live session", Kind: engine.ErrUnavailable, Err: errClosing, RetryAfter: 5 * time.Second}
}

// New returns a service over the engine.
func New(config Config, e *engine.Service, log *slog.Logger) *Service {
	config.Idle = cmp.Or(config.Idle, defaultIdle)
	config.PerOwner = cmp.Or(config.PerOwner, defaultPerOwner)
	config.Total = cmp.Or(config.Total, defaultTotal)
	config.Wait = cmp.Or(config.Wait, defaultWait)
	config.Queue = cmp.Or(config.Queue, defaultQueue)
	config.QueuePerOwner = cmp.Or(config.QueuePerOwner, queuePerOwner)
	s := &Service{config: config, engine: e, log: log, sessions: map[engine.ID]*session{}, sweepAt: leastSweep}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Close ends every interpreter and waits for their ends. The engine has been shut
// down before.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, at := range s.all() {
		at.quit("The service was shut down.")
	}
	s.end(errClosing)
	s.work.Wait()
	return nil
}

// CutOff ends every interpreter and forgets its session. It is called when this node was silent for
// so long that other nodes may have claimed the sessions.
func (s *Service) CutOff() {
	for _, at := range s.all() {
		at.quit("The node was cut off from the others for a while.")
		s.forget(at.id)
	}
}

// background runs a function that Close waits for, unless Close already waits.
func (s *Service) background(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(do)
	return true
}

// Request asks for a live session.
type Request struct {
	Language string           // python (default), javascript, typescript or bash; aliases of the language table
	Network  *engine.Network  // destinations its programs may contact; nil: as the caller's key says
	Packages string           // set of Python packages; empty: the service's default
	Limits   engine.Limits    // zero fields: the service's defaults. Timeout is a cell's, if that names none
	Files    []engine.FileRef // placed into the workspace
	TTL      time.Duration    // of the session after its last use; zero: the service's default
	Origin   engine.Origin    // empty: native
	Setup    Setup
	Idle     time.Duration // after which its interpreter is ended without a cell; zero: Config.Idle
	Scope    string        // the edge's own data about the session; see engine.Session
}

// Setup prepares each interpreter of a session before its first cell. It is not stored: a session
// that outlives the service has none.
type Setup struct {
	Env  map[string]string
	Dir  string // to start in; empty: the workspace
	Code string // of Python, run in a namespace with shell, IPython's, and WhenImported
}

func (s *Setup) empty() bool { return len(s.Env) == 0 && s.Dir == "" && s.Code == "" }

// settings start the interpreter of a session. They are stored with it.
type settings struct {
	Language string          `json:"language"`
	Packages string          `json:"packages,omitempty"`
	Network  *engine.Network `json:"network,omitempty"`
	Limits   engine.Limits   `json:"limits"`
	Idle     time.Duration   `json:"idle,omitempty"`
}

// languages that have a live interpreter, by name of the language table.
var languages = []string{"python", "js", "ts", "bash"}

// findLanguage returns the name in the language table of a language with a live interpreter.
func findLanguage(name string) (string, error) {
	if lang, ok := language.Find(name); ok && slices.Contains(languages, lang.Name) {
		return lang.Name, nil
	}
	return "", engine.Invalid("language",
		"%.40q has no live interpreter; there are python, javascript, typescript and bash", name)
}

// Create makes a live session. Its interpreter starts with its first cell.
func (s *Service) Create(ctx context.Context, caller engine.Caller, req Request) (engine.Session, error) {
	lang, err := findLanguage(cmp.Or(req.Language, languages[0]))
	if err != nil {
		return engine.Session{}, err
	}
	defaults, _ := s.engine.Limits()
	limits := req.Limits.Or(defaults)
	if err := s.engine.CheckNetwork(ctx, caller, req.Network); err != nil {
		return engine.Session{}, err
	}
	remembered, err := json.Marshal(settings{lang, req.Packages, req.Network, limits, req.Idle})
	if err != nil {
		return engine.Session{}, err
	}
	made, err := s.engine.CreateSession(ctx, caller, engine.SessionRequest{
		Origin: req.Origin, Kind: engine.SessionLive, TTL: req.TTL, Files: req.Files, Limits: limits, Scope: req.Scope,
		Live: string(remembered),
	})
	if err != nil {
		return engine.Session{}, err
	}
	at, err := s.add(&session{id: made.ID, caller: caller, record: made, setup: req.Setup})
	if err == nil {
		at.mu.Lock()
		at.fresh = true
		at.mu.Unlock()
	}
	return made, err
}

// Language is the language of a live session: python, javascript, typescript or bash.
func Language(of engine.Session) string {
	var known settings
	if json.Unmarshal([]byte(of.Live), &known) != nil {
		return ""
	}
	return known.language()
}

func (s *settings) language() string {
	switch s.Language {
	case "js":
		return "javascript"
	case "ts":
		return "typescript"
	}
	return s.Language
}

// inNode reports whether the interpreter is Node.
func (s *settings) inNode() bool { return s.Language == "js" || s.Language == "ts" }

// add adds a session, unless another goroutine has added it.
func (s *Service) add(at *session) (*session, error) {
	at.service, at.used, at.stored = s, time.Now(), s.changes.Add(1)
	if at.settings.Language == "" {
		if err := json.Unmarshal([]byte(at.record.Live), &at.settings); err != nil {
			return nil, fmt.Errorf("the settings of a live session: %w", err)
		}
		defaults, _ := s.engine.Limits()
		at.settings.Limits = at.settings.Limits.Or(defaults)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sessions[at.id]; known != nil {
		return known, nil
	}
	if s.closed {
		return nil, closing()
	}
	if at.id != at.record.ID {
		if err := s.fits(at); err != nil {
			return nil, err
		}
	}
	s.sessions[at.id] = at
	if len(s.sessions) >= s.sweepAt {
		s.sweepAt = math.MaxInt
		s.work.Go(s.sweep)
	}
	return at, nil
}

func missing(what string) error {
	return &engine.Error{Op: "live session", Kind: engine.ErrNotFound, ID: what}
}

// find returns a caller's live session. A session exists as long as its interpreter runs.
func (s *Service) find(ctx context.Context, caller engine.Caller, id engine.ID) (*session, error) {
	s.mu.Lock()
	at := s.sessions[id]
	s.mu.Unlock()
	if at != nil && at.caller.Owner != caller.Owner {
		return nil, missing(id.String())
	}
	if at != nil && (at.alive() || at.young()) {
		return at, nil
	}
	return s.lookUp(ctx, caller, id, at)
}

// lookUp finds a session in the index, or forgets it. at is the session in memory, or nil.
func (s *Service) lookUp(ctx context.Context, caller engine.Caller, id engine.ID, at *session) (*session, error) {
	within := id
	if at != nil {
		within = at.record.ID
	}
	record, err := s.engine.GetSession(ctx, caller, within)
	if err != nil {
		if errors.Is(err, engine.ErrNotFound) {
			s.forget(id)
		}
		return nil, err
	}
	if record.Kind != engine.SessionLive {
		return nil, &engine.Error{Op: "live session", Kind: engine.ErrConflict, ID: id.String(),
			Hint: "Make a session of the kind live.", Err: errors.New("the session has no live interpreter")}
	}
	if record, err = s.engine.Claim(ctx, record); err != nil {
		s.forget(id) // another node has taken it over
		return nil, err
	}
	switch {
	case at == nil:
	case at.record.Place == record.Place:
		return at, nil
	default: // another node had it in the meantime
		s.forget(id)
		if id != record.ID {
			return nil, missing(id.String()) // a fork ends with its node
		}
	}
	return s.add(&session{id: id, caller: caller, record: record, why: "The service was restarted."})
}

// sweep forgets sessions that have expired or were deleted.
func (s *Service) sweep() {
	for _, at := range s.all() {
		if !at.alive() {
			_, _ = s.lookUp(s.life, at.caller, at.id, at)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepAt = max(leastSweep, 2*len(s.sessions))
}

// leastSweep is how many sessions are remembered before the first sweep.
const leastSweep = 64

func (s *Service) forget(id engine.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// Counts holds statistics for operators.
type Counts struct {
	Interpreters int    // alive
	Busy         int    // run a cell
	Total        int    // interpreters at most
	PerOwner     int    // of one owner
	Cells        uint64 // that have ended, since the start
	Lost         uint64 // interpreters that ended in a cell: memory, a crash, an ignored interrupt
	Evicted      uint64 // ended to free capacity
	Expired      uint64 // ended idle
}

// Counts returns the number of interpreters, and counts of the ends of earlier ones.
func (s *Service) Counts() Counts {
	c := Counts{
		Total: s.config.Total, PerOwner: s.config.PerOwner,
		Cells: s.cells.Load(), Lost: s.lost.Load(), Evicted: s.evicted.Load(), Expired: s.expired.Load(),
	}
	for _, at := range s.all() {
		at.mu.Lock()
		if at.interpreter != nil {
			c.Interpreters++
			if at.current != nil {
				c.Busy++
			}
		}
		at.mu.Unlock()
	}
	return c
}

func (s *Service) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}
