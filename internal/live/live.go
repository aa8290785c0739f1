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
	"regexp"
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
	Secret   []byte        // of the cluster, for the ids of cells; nil: there is none

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
	preludes map[engine.Origin]string

	cells, lost, evicted, expired, changes atomic.Uint64
	computed, lived                        atomic.Int64 // nanoseconds, of cells and interpreters that have ended

	counting sync.Mutex
	counted  Counts // the last ones, for those that never fall
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
	s := &Service{config: config, engine: e, log: log, sessions: map[engine.ID]*session{}, sweepAt: leastSweep,
		preludes: map[engine.Origin]string{}}
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
	// python, javascript, typescript, bash or r; aliases of the language table. Empty: python, or
	// the first of these that the image has
	Language string
	Network  *engine.Network // destinations its programs may contact; nil: as the caller's key says
	Secrets  []engine.Secret // for requests to hosts of the network; in memory alone
	Packages string          // set of Python packages; empty: the service's default
	Mounts   []string        // folders of the host that it sees, see engine.MountName; nil: those of the key
	Volumes  []engine.VolumeMount
	Wall     engine.Wall      // empty: as the key and the service say
	Image    string           // name of an image; empty: as the caller's key or the service's settings say
	Limits   engine.Limits    // zero fields: the service's defaults. Timeout is a cell's, if that names none
	Files    []engine.FileRef // placed into the workspace
	TTL      time.Duration    // of the session after its last use; zero: the service's default
	Origin   engine.Origin    // empty: native
	Setup    Setup
	Idle     time.Duration // after which its interpreter is ended without a cell; zero: Config.Idle
	Scope    string        // the edge's own data about the session; see engine.Session
}

// Setup prepares each interpreter of a session before its first cell. It is stored with the
// session, but for its code.
type Setup struct {
	Env map[string]string `json:"env,omitempty"`
	Dir string            `json:"dir,omitempty"` // to start in; empty: the workspace
	// Code is Python, run in a namespace with shell, IPython's, and WhenImported. A session
	// that outlives the service has that of SetPrelude.
	Code string `json:"-"`
}

func (s *Setup) empty() bool { return len(s.Env) == 0 && s.Dir == "" && s.Code == "" }

// settings start the interpreter of a session. They are stored with it.
type settings struct {
	Language string               `json:"language"`
	Packages string               `json:"packages,omitempty"`
	Image    string               `json:"image,omitempty"` // its name; empty: none
	ImageID  string               `json:"image_id,omitempty"`
	Mounts   []string             `json:"mounts,omitempty"`
	Volumes  []engine.VolumeMount `json:"volumes,omitempty"`
	Network  *engine.Network      `json:"network,omitempty"`
	Limits   engine.Limits        `json:"limits"`
	Idle     time.Duration        `json:"idle,omitempty"`
	Setup    *Setup               `json:"setup,omitempty"`
	Secrets  []engine.Secret      `json:"secrets,omitempty"` // without their values
}

// SetPrelude sets the code of each Setup in Python of an edge's sessions that has none. It is
// called before the service is used.
func (s *Service) SetPrelude(origin engine.Origin, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.preludes[origin] = code
}

// languages that have a live interpreter, by name of the language table.
var languages = []string{"python", "js", "ts", "bash", "r"}

// livePython matches the versions of CPython with a live interpreter: those that setup has its
// packages for.
var livePython = regexp.MustCompile(`^3\.1[1-4]\b`)

// findLanguage returns a language with a live interpreter.
func findLanguage(name string) (language.Language, error) {
	if lang, ok := language.Find(name); ok && slices.Contains(languages, lang.Name) {
		return lang, nil
	}
	return language.Language{}, engine.Invalid("language",
		"%.40q has no live interpreter; there are python, javascript, typescript, bash and r", name)
}

// Named returns the name of a live session's language that a client spells in this way; "": it has no live interpreter.
func Named(name string) string {
	lang, _ := findLanguage(name)
	return nameOf(lang.Name)
}

// Create makes a live session. Its interpreter starts with its first cell.
func (s *Service) Create(ctx context.Context, caller engine.Caller, req Request) (engine.Session, error) {
	image, err := s.engine.ChooseImage(caller, cmp.Or(req.Origin, engine.OriginNative), req.Image, req.Packages)
	if err != nil {
		return engine.Session{}, err
	}
	lang, err := findLanguage(cmp.Or(req.Language, defaultLanguage(image)))
	if err != nil {
		return engine.Session{}, err
	}
	defaults, _ := s.engine.Limits()
	limits := req.Limits.Or(defaults)
	if err := s.engine.CheckNetwork(ctx, caller, req.Network, req.Secrets); err != nil {
		return engine.Session{}, err
	}
	if err := checkVariables(req.Secrets, req.Setup.Env); err != nil {
		return engine.Session{}, err
	}
	if req.Mounts, err = s.engine.ChooseMounts(caller, req.Mounts); err != nil {
		return engine.Session{}, err
	}
	if err := s.engine.CheckVolumes(ctx, caller, req.Volumes, req.Mounts); err != nil {
		return engine.Session{}, err
	}
	known := settings{Language: lang.Name, Packages: req.Packages, Mounts: req.Mounts, Volumes: req.Volumes,
		Network: req.Network, Limits: limits, Idle: req.Idle, Secrets: req.Secrets}
	if !req.Setup.empty() {
		known.Setup = &req.Setup
	}
	if err := hasLive(image, lang); err != nil {
		return engine.Session{}, err
	}
	if image != nil {
		known.Image, known.ImageID = image.Name, image.ID
	}
	remembered, err := json.Marshal(known)
	if err != nil {
		return engine.Session{}, err
	}
	made, err := s.engine.CreateSession(ctx, caller, engine.SessionRequest{
		Origin: req.Origin, Kind: engine.SessionLive, TTL: req.TTL, Files: req.Files, Limits: limits, Scope: req.Scope,
		Wall: req.Wall, Live: string(remembered),
	})
	if err != nil {
		return engine.Session{}, err
	}
	at, err := s.add(&session{id: made.ID, caller: caller, record: made, setup: req.Setup, secrets: req.Secrets})
	if err == nil {
		at.mu.Lock()
		at.fresh = true
		at.mu.Unlock()
	}
	return made, err
}

// defaultLanguage returns the language of a session that asks for none: the first that the
// image has.
func defaultLanguage(image *engine.Image) string {
	if image == nil {
		return languages[0]
	}
	if has := Languages(image); len(has) > 0 {
		return has[0]
	}
	return languages[0] // which is refused in words
}

// Languages returns the languages of an image that have a live interpreter: python, javascript,
// typescript, bash and r, in this order. Of the host, nil, they are those that setup always
// installs, and r if it is there.
func Languages(image *engine.Image) (names []string) {
	for _, name := range languages {
		lang, _ := language.Find(name)
		if hasLive(image, lang) == nil {
			names = append(names, nameOf(name))
		}
	}
	return names
}

// hasLive returns an error if an image, or the host, has no live interpreter of a language. Python leads
// Bash's.
func hasLive(image *engine.Image, lang language.Language) error {
	if image == nil {
		if lang.Default || lang.Missing() == "" {
			return nil
		}
		return &engine.Error{Op: "session", Kind: engine.ErrNoLanguage,
			Err:  errors.New(lang.Title + " is not installed on this host"),
			Hint: "`airlock setup --languages " + lang.Name + "` installs it."}
	}
	if _, err := image.For(lang); err != nil || lang.Name != "python" && lang.Name != "bash" {
		return err
	}
	python, ok := image.Language("python")
	has := "Python " + python.Version
	switch {
	case !ok:
		has = "no Python"
	case livePython.MatchString(python.Version):
		return nil
	}
	return &engine.Error{Op: "session", Kind: engine.ErrNoLanguage, ID: "language",
		Err:  fmt.Errorf("the image %s has %s: live sessions of Python and Bash need CPython 3.11 to 3.14", image.Name, has),
		Hint: "Name another image, or run programs, which need no session."}
}

// image returns the image of the session, nil if it has none.
func (at *session) image() (*engine.Image, error) {
	if at.settings.Image == "" {
		return nil, nil
	}
	return at.service.engine.ChooseImage(at.caller, at.record.Origin, at.settings.Image, "")
}

// inImage returns a language as the image of the session has it.
func (at *session) inImage(lang language.Language) (language.Language, error) {
	image, err := at.image()
	if image == nil || err != nil {
		return lang, err
	}
	return image.For(lang)
}

// hasLive returns an error if the image of the session has no live interpreter of a language.
func (at *session) hasLive(lang language.Language) error {
	image, err := at.image()
	if err != nil {
		return err
	}
	return hasLive(image, lang)
}

// Image is the name of the image of a live session; empty: it has none.
func Image(of engine.Session) string {
	var known settings
	if json.Unmarshal([]byte(of.Live), &known) != nil {
		return ""
	}
	return known.Image
}

// Language is the language of a live session: python, javascript, typescript, bash or r.
func Language(of engine.Session) string {
	var known settings
	if json.Unmarshal([]byte(of.Live), &known) != nil {
		return ""
	}
	return known.language()
}

func (s *settings) language() string { return nameOf(s.Language) }

// nameOf returns the name for clients of a language of the language table.
func nameOf(language string) string {
	switch language {
	case "js":
		return "javascript"
	case "ts":
		return "typescript"
	}
	return language
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
		if setup := at.settings.Setup; setup != nil && at.setup.empty() {
			at.setup = *setup
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.id == at.record.ID && at.settings.Language == "python" {
		at.setup.Code = cmp.Or(at.setup.Code, s.preludes[at.record.Origin])
	}
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

func missing(what string) error { return engine.NotFound("live session", what) }

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

// findToRun returns a caller's live session, unless the caller's programs are to have a stronger wall.
func (s *Service) findToRun(ctx context.Context, caller engine.Caller, id engine.ID) (*session, error) {
	at, err := s.find(ctx, caller, id)
	if err == nil {
		err = s.engine.CheckWallOf(caller, at.record)
	}
	if err != nil {
		return nil, err
	}
	return at, nil
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

	// Computed is for how long cells ran, Lived for how long interpreters were alive, those of now included.
	Computed, Lived time.Duration
}

// Counts returns the number of interpreters, and counts of the ends of earlier ones.
func (s *Service) Counts() Counts {
	c := Counts{
		Total: s.config.Total, PerOwner: s.config.PerOwner,
		Cells: s.cells.Load(), Lost: s.lost.Load(), Evicted: s.evicted.Load(), Expired: s.expired.Load(),
		Computed: time.Duration(s.computed.Load()), Lived: time.Duration(s.lived.Load()),
	}
	for _, at := range s.all() {
		at.mu.Lock()
		if at.interpreter != nil {
			c.Interpreters++
			c.Lived += time.Since(at.interpreter.start)
			if at.current != nil {
				c.Busy++
				c.Computed += at.current.cell.ran()
			}
		}
		at.mu.Unlock()
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	// What has ended since the first line is counted the next time.
	c.Computed, c.Lived = max(c.Computed, s.counted.Computed), max(c.Lived, s.counted.Lived)
	s.counted = c
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
