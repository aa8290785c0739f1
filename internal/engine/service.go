package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/airlock-run/airlock/internal/language"
)

// Config sets up a Service. Its zero value holds the native defaults, which
// surface documents.
type Config struct {
	Concurrency   int // runs at once; 0: twice the number of cores compute, others may rest
	Queue         int // runs that wait, of all owners; 0: 256
	QueuePerOwner int // runs that wait, of one owner; 0: 64

	// QueueTime is how long a run may wait for its slot before it is refused, if a client
	// waits for it; 0: without limit.
	QueueTime time.Duration

	// Memory is what all runs may take together once more than Concurrency have started
	// because some rest, if Concurrency is 0; 0: no more start.
	Memory int64

	// RunsPerOwner is how many runs of one owner may have a slot at once. 0: as many as
	// there are slots; once there are keys, and so maybe several owners, one less,
	// so that an owner whose programs run for minutes cannot lock out all others.
	RunsPerOwner int

	// Quota bounds the objects of one owner. The index must have the same quota.
	Quota Quota

	// Month bounds what one owner may use in a month; an account may use as much as its Allowance says.
	Month MonthQuota

	// AuditTTL is how long the audit log is kept; 0: 400 days.
	AuditTTL time.Duration

	// ConsumptionTTL is how long it is kept what was used in a day; 0: 400 days.
	ConsumptionTTL time.Duration

	// Defaults fill the zero fields of a request's limits, Maxima bound the
	// others. A zero field here takes the native default; a zero maximum is
	// the larger of that and the default, but 300 s for the timeout, and none
	// for CPUTime and CPUs.
	Defaults, Maxima Limits

	Wall     Wall // of all programs at least; empty: WallShared
	Packages PackageSets
	Images   ImageRules
	Mounts   MountRules
	Volumes  Volumes // nil: there are none
	Network  NetworkConfig

	MaxUpload int64 // bytes of one file; 0: 200 MiB
	MaxCode   int   // bytes of source; 0: 16 MiB

	FileTTL, RunTTL, SessionTTL time.Duration // 0: 24 h
	SnapshotTTL                 time.Duration // 0: a week
	FirstKey                    string        // token of the key that is made if there never was one; empty: none is
	SweepTime                   time.Duration // how long Open waits for the removal of unreferenced blobs; 0: no limit

	DropCode bool // History keeps no code

	// Traced is told of each run that has ended, in the context of the request that began it; nil: nothing is.
	Traced func(context.Context, *Run)

	// Space is the disk of the blobs and the index; nil: it is never full.
	Space Space

	// Now is the clock by which objects are created and expire. The index must
	// have the same clock.
	Now func() time.Time // nil: SteadyClock(time.Now)

	// Cluster describes other services on the same index; nil: there are none.
	Cluster Cluster
}

// RestingPerCore is how many runs may have started for each core, with enough
// memory, when nearly all of them rest.
const RestingPerCore = 32

const (
	mebibyte      = 1 << 20
	defaultTTL    = 24 * time.Hour
	snapshotTTL   = 7 * defaultTTL
	defaultMarker = "\n[... %d bytes of output left out ...]\n"
)

var (
	nativeDefaults = Limits{
		Timeout:   60 * time.Second,
		Memory:    1 << 30,
		Processes: 128,
		Workspace: 512 * mebibyte,
		Inodes:    10_000,
		Output:    OutputLimit{Bytes: mebibyte, Marker: defaultMarker},
		Files:     FileLimit{Count: 300, Bytes: 64 * mebibyte, Total: 256 * mebibyte},
	}
	nativeMaxTimeout = 300 * time.Second
)

// Processors returns how many processors this process may use: those of the machine, or fewer if its control group, as
// that of a container, has a limit. Go's runtime reads the limit, of both versions of control groups.
func Processors() int { return runtime.GOMAXPROCS(0) }

// filled returns cfg with every zero field replaced by its default.
func (cfg Config) filled() Config {
	positive := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	positive(&cfg.Concurrency, 2*Processors())
	positive(&cfg.Queue, 256)
	positive(&cfg.QueuePerOwner, 64)
	positive(&cfg.MaxCode, 16*mebibyte)
	if cfg.MaxUpload <= 0 {
		cfg.MaxUpload = 200 * mebibyte
	}
	for _, ttl := range []*time.Duration{&cfg.FileTTL, &cfg.RunTTL, &cfg.SessionTTL} {
		if *ttl <= 0 {
			*ttl = defaultTTL
		}
	}
	if cfg.AuditTTL <= 0 {
		cfg.AuditTTL = 400 * dayLength
	}
	if cfg.ConsumptionTTL <= 0 {
		cfg.ConsumptionTTL = 400 * dayLength
	}
	if cfg.SnapshotTTL <= 0 {
		cfg.SnapshotTTL = snapshotTTL
	}
	if cfg.Wall == "" {
		cfg.Wall = WallShared
	}
	if cfg.Now == nil {
		cfg.Now = SteadyClock(time.Now)
	}
	cfg.Defaults = cfg.Defaults.Or(nativeDefaults)
	cfg.Maxima = cfg.Maxima.atLeast(cfg.Defaults)
	return cfg
}

// Service is the engine: it runs code for its callers and stores the results. Every
// method may be called from many goroutines. Errors are *Error.
type Service struct {
	cfg     Config
	sandbox Sandbox
	blobs   Blobs
	index   Index
	log     *slog.Logger
	now     func() time.Time
	cluster Cluster // nil: it is alone

	queue   *queue
	touches touches
	reclaim reclaim
	meter   meter

	accounts accounts
	volumes  volumeUses
	inFlight Tally // bytes of large requests whose runs have not ended
	arrivals Tally // bytes of uploads in progress, which the index does not know yet
	records  *records
	counts   *consumptions
	acts     acts
	janitor  janitor
	restores singleflight.Group // of held workspaces, by session
	saves    sessionLocks       // of SaveSession
	claims   sessionLocks       // of Claim

	mu       sync.Mutex
	opened   bool
	closing  bool
	idle     chan struct{} // closed when the service is closing and no job is left
	jobs     map[ID]*job   // runs that have not ended; after a kill the index reads them as interrupted
	deleting map[ID]bool   // sessions that are being deleted here: no new run may enter
}

// New returns a service that accepts nothing before Open.
func New(cfg Config, sandbox Sandbox, blobs Blobs, index Index, log *slog.Logger) *Service {
	resting := cfg.Concurrency <= 0 && cfg.Memory > 0
	cfg = cfg.filled()
	s := &Service{
		cfg:      cfg,
		sandbox:  sandbox,
		blobs:    blobs,
		index:    index,
		log:      log,
		now:      cfg.Now,
		cluster:  cfg.Cluster,
		queue:    newQueue(cfg.Concurrency, cfg.Queue, cfg.QueuePerOwner),
		touches:  touches{uses: map[ID]time.Time{}},
		idle:     make(chan struct{}),
		jobs:     map[ID]*job{},
		records:  newRecords(index, log, cfg.Cluster != nil),
		counts:   newConsumptions(index, log, cfg.Now),
		meter:    newMeter(),
		deleting: map[ID]bool{},
		volumes:  volumeUses{users: map[ID][]VolumeUser{}, removing: map[ID]bool{}},
	}
	s.queue.share = s.share
	s.queue.maxWaiting = func(account Owner) int { return int(s.accounts.get(account).times(int64(cfg.QueuePerOwner))) }
	if resting {
		s.queue.seats, s.queue.memory = max(RestingPerCore*Processors(), cfg.Concurrency), cfg.Memory
	}
	s.reclaim.blobs = blobs
	s.janitor.wake, s.janitor.low = make(chan struct{}, 1), make(chan struct{}, 1)
	return s
}

// Open cleans up after an earlier process, and starts the janitor. Runs that the process
// had not finished become interrupted, and blobs that no
// file has are removed.
func (s *Service) Open(ctx context.Context) error {
	const op = "open"
	if err := s.Reap(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.loadAccounts(ctx), s.measureVolumes(ctx)); err != nil {
		return failure(op, "", err)
	}
	if err := s.makeFirstKey(ctx); err != nil {
		return failure(op, "", err)
	}
	s.mu.Lock()
	if s.opened || s.closing {
		s.mu.Unlock()
		return &Error{Op: op, Kind: ErrConflict, Err: errors.New("a service opens once")}
	}
	s.opened = true
	swept := s.startJanitor()
	s.mu.Unlock()

	var enough <-chan time.Time // never
	if s.cfg.SweepTime > 0 {
		timer := time.NewTimer(s.cfg.SweepTime)
		defer timer.Stop()
		enough = timer.C
	}
	var err error
	select {
	case err = <-swept:
	case <-enough: // the janitor continues
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.stopJanitor()
		return failure(op, "", err)
	}
	return nil
}

// killGrace is how long Shutdown waits for killed runs to end. A sandbox
// that needs longer is broken, and its runs read as interrupted after the
// next start.
const killGrace = 30 * time.Second

// RefuseRuns refuses new runs from now on.
func (s *Service) RefuseRuns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		if len(s.jobs) == 0 {
			close(s.idle)
		}
	}
}

// Shutdown refuses new runs at once and drains accepted runs until ctx ends.
// Then it kills and records the rest, and returns when every goroutine of the
// service has ended. A second call with a shorter context shortens the first.
func (s *Service) Shutdown(ctx context.Context) error {
	s.RefuseRuns()
	s.drain(ctx)
	var late error
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-s.idle:
	case <-grace.C:
		late = &Error{Op: "shut down", Kind: ErrUnavailable, Err: errors.New("runs are left that the sandbox did not end")}
	}
	s.stopJanitor()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	s.records.close(last)
	if err := s.counts.close(last); err != nil {
		s.logFailure(last, "record what was used", err)
	}
	if err := s.touches.flush(last, s.index); err != nil {
		s.logFailure(last, "write down uses", err)
	}
	return late
}

// drainLook is how often a service that drains looks for runs that wait.
const drainLook = 50 * time.Millisecond

// drain waits for the runs to end, and kills the rest when ctx ends. It kills a run whose
// program waits for an answer from a client at once: the client can no longer send one.
func (s *Service) drain(ctx context.Context) {
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for {
		over := ctx.Err() != nil // read once: it may end meanwhile
		s.mu.Lock()
		for _, j := range s.jobs {
			if over || s.queue.isParked(j.ticket) {
				j.cancel(errShutdown)
			}
		}
		s.mu.Unlock()
		if over {
			return
		}
		select {
		case <-s.idle:
			return
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// Ready returns nil when runs are accepted.
func (s *Service) Ready(ctx context.Context) error {
	const op = "ready"
	if err := s.accepting(op); err != nil {
		return err
	}
	if err := s.RoomFor(op); err != nil {
		return err
	}
	if s.cluster != nil {
		if err := s.cluster.Check(); err != nil {
			return err
		}
	}
	_, err := s.Isolation(ctx)
	return err
}

// accepting returns an error before Open and after Shutdown began.
func (s *Service) accepting(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepts(op)
}

// accepts does what accepting does, for a caller that holds s.mu.
func (s *Service) accepts(op string) error {
	switch {
	case s.closing:
		return shuttingDown(op)
	case !s.opened:
		return &Error{Op: op, Kind: ErrUnavailable, Hint: "The service is starting.", RetryAfter: time.Second}
	}
	return nil
}

// RoomFor returns an error when the disk is low, and wakes the janitor to remove expired
// objects.
func (s *Service) RoomFor(op string) error {
	if s.cfg.Space == nil {
		return nil
	}
	room, err := s.cfg.Space.Room()
	if err != nil {
		return failure(op, "", err)
	}
	if err := room.Check(op); err != nil {
		s.janitor.runSoon()
		return err
	}
	return nil
}

// Isolation returns what separates programs from this host.
func (s *Service) Isolation(ctx context.Context) (Isolation, error) {
	isolation, err := s.sandbox.Isolation(ctx)
	return isolation, failure("isolation", "", err)
}

// Pools returns the pools of warm sandboxes.
func (s *Service) Pools(ctx context.Context) ([]Pool, error) {
	pools, err := s.sandbox.Pools(ctx)
	return pools, failure("pools", "", err)
}

// share returns how many slots an account may have at once, and one of its users. The queue
// asks, under its lock.
func (s *Service) share(account Owner) (all, one int) {
	switch {
	case s.cfg.RunsPerOwner > 0:
		return int(s.accounts.get(account).times(int64(s.cfg.RunsPerOwner))), s.cfg.RunsPerOwner
	case s.meter.keys.Load() == 0:
		all = s.queue.slots
	default:
		all = max(s.queue.slots-1, 1)
	}
	return all, max(all-1, 1)
}

// Now returns the time by which objects are created and expire.
func (s *Service) Now() time.Time { return s.now() }

// Languages returns the languages that a run can name.
func (s *Service) Languages() []language.Language { return language.All() }

// Limits returns the defaults for a request's zero limits, and the maxima. A
// zero maximum means no maximum.
func (s *Service) Limits() (defaults, maxima Limits) { return s.cfg.Defaults, s.cfg.Maxima }

var errShutdown = errors.New("the service is shutting down")

func shuttingDown(op string) error {
	return &Error{Op: op, Kind: ErrUnavailable, Hint: "The service is shutting down.", RetryAfter: 5 * time.Second,
		Err: errShutdown, Refusal: RefusedDrain}
}

// failure makes an *Error of the error of an index, a store of blobs or a sandbox. It
// returns nil for nil, and an *Error as it is.
func failure(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Hint == "" && hints[e.Kind] != "" {
			hinted := *e
			hinted.Hint, hinted.Doctor = hints[e.Kind], e.Kind == ErrUnavailable
			return &hinted
		}
		return e
	}
	kind := KindOf(err)
	if kind == ErrInternal && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		kind = ErrCanceled
	}
	if kind == ErrInternal && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		return &Error{Op: op, Kind: ErrUnavailable, ID: id, Err: err, RetryAfter: 5 * time.Second,
			Hint: "The service has too many open files: try again later, or have the operator raise its limit (LimitNOFILE)."}
	}
	return &Error{Op: op, Kind: kind, ID: id, Hint: hints[kind], Doctor: kind == ErrUnavailable, Err: err}
}

// missing does what failure does, for a look-up of the object with that id.
func missing(op, id string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return NotFound(op, id)
	}
	return failure(op, id, err)
}

var hints = map[Kind]string{
	ErrFull:        "The disk of the service is full: delete files, or ask its operator for room.",
	ErrUnavailable: "The sandbox is not available right now. Try again; if it persists, run airlock doctor on the host.",
}

// SteadyClock returns a clock for creation and expiry: the wall time of the
// call, plus the time elapsed since. A wall clock that jumps by a year,
// forwards or back, does not move it. Service and index must have the same
// clock.
func SteadyClock(wall func() time.Time) func() time.Time {
	began, start := wall().Round(0).UTC(), time.Now()
	return func() time.Time { return began.Add(time.Since(start)) }
}
