package toolcall

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// The most programs at once: a waiting program keeps its memory.
const (
	MaxPrograms      = 128
	MaxOwnerPrograms = 32
)

const (
	maxPauses   = time.Hour        // total time of a program's waits for answers
	cancelLimit = 30 * time.Second // for the engine to end a run
	// drainDelay is for text that a program printed right before a call: it uses another
	// channel than the call.
	drainDelay = 300 * time.Microsecond
)

// Programs are the runs that can call tools, and the requests about them.
type Programs struct {
	engine *engine.Service
	ttl    time.Duration
	log    *slog.Logger

	life context.Context //nolint:containedctx // of the goroutines that follow programs
	end  context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	live     map[string]*Program // by the secret in their tokens
	requests map[string]*request // by id
}

// New returns an empty set. Each program waits for the answers to a round for ttl.
func New(e *engine.Service, ttl time.Duration, log *slog.Logger) *Programs {
	s := &Programs{engine: e, ttl: ttl, log: log, live: map[string]*Program{}, requests: map[string]*request{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close waits for all goroutines. The engine must have been shut down before.
func (s *Programs) Close() error {
	s.end()
	s.work.Wait()
	return nil
}

// Program is a run that can call tools. Its process blocks at a call and continues with the
// answer.
type Program struct {
	Caller engine.Caller
	Note   any // for the edge

	of    *Programs
	key   string
	tools []string
	out   func(bool) // notifies the engine whether the program waits for its client
	run   engine.ID
	home  engine.ID // its session

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when something below changes
	serving  bool          // a request waits for the next round
	round    int           // the last issued round
	calls    int           // so far
	partial  bool          // more calls of the same round will come
	pending  []*Call       // not issued
	issued   []*Call       // issued, without an answer
	answered map[string][sha256.Size]byte
	expiry   *time.Timer
	stdout   strings.Builder
	stderr   strings.Builder
	result   *engine.Run // it has ended
	ended    bool        // it has ended, or its state is unknown
	refused  error       // instead of a result: it was queued for too long
}

// Round is the answer to a request: calls, or the end.
type Round struct {
	Token          string // identifies the program and the round; cannot be guessed
	Calls          []*Call
	Stdout, Stderr string // so far
	Session        engine.ID
	Result         *engine.Run // at the end; nil: unknown
	Ended          bool
}

// Start starts a program that can call tools by these names.
func (s *Programs) Start(
	ctx context.Context, caller engine.Caller, req engine.RunRequest, tools []string, note any,
) (*Program, error) {
	p := &Program{
		Caller: caller, Note: note, of: s, key: s.engine.Self().Prefix() + rand.Text() + rand.Text(), tools: tools,
		out:     func(bool) {},
		changed: make(chan struct{}), answered: map[string][sha256.Size]byte{}, serving: true,
	}
	if err := s.admit(p); err != nil {
		return nil, err
	}
	req.Profile.Calls = engine.Calls{Handler: p, Rounds: p.Rounds, Pauses: maxPauses}
	run, turn, err := s.engine.StartAttended(ctx, caller, req)
	if err != nil {
		s.drop(p)
		return nil, err
	}
	p.change(func() { p.run, p.home = run.ID, run.Session })
	s.work.Go(func() { p.follow(s.life, turn) })
	return p, nil
}

func (s *Programs) admit(p *Program) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.live {
		if other.Caller.Owner.Account() == p.Caller.Owner.Account() {
			own++
		}
	}
	if len(s.live) >= MaxPrograms || own >= MaxOwnerPrograms {
		return &engine.Error{Op: "run", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second,
			Err: errors.New("too many programs wait for their tools")}
	}
	s.live[p.key] = p
	return nil
}

// follow records the output and the end of a program.
func (p *Program) follow(ctx context.Context, turn engine.Turn) {
	defer p.of.drop(p)
	defer p.change(func() {
		p.ended = true
		if p.expiry != nil {
			p.expiry.Stop()
		}
	})
	if err := turn.Await(ctx); errors.Is(err, engine.ErrBusy) {
		p.change(func() { p.refused = err })
		return
	}
	events, err := p.of.engine.Watch(ctx, p.Caller, p.run, 0)
	if err != nil {
		p.of.log.ErrorContext(ctx, "a program cannot be followed", "run", p.run, "err", err)
		return
	}
	for event := range events {
		p.change(func() {
			switch {
			case event.Type == engine.EventOutput && event.Stream == engine.Stdout:
				p.stdout.WriteString(event.Data)
			case event.Type == engine.EventOutput:
				p.stderr.WriteString(event.Data)
			case event.Type == engine.EventResult:
				p.result = event.Run
			}
		})
	}
}

// change changes the state and wakes all waiters.
func (p *Program) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

// cancel ends the program and waits for its end.
func (p *Program) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), cancelLimit)
	defer stop()
	if err := p.of.engine.CancelRun(ctx, p.Caller, p.run); err != nil && !errors.Is(err, engine.ErrNotFound) {
		p.of.log.ErrorContext(ctx, "a program could not be cancelled", "run", p.run, "err", err)
	}
}

// expire ends and removes a program.
func (p *Program) expire() {
	p.of.drop(p)
	p.cancel()
}

// waiting reports whether the program waits for the answers to a round.
func (p *Program) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended && !p.serving
}

// Rounds sets what to call about rounds; see engine.Calls.
func (p *Program) Rounds(out func(bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = out
}

// Call implements engine.CallHandler. It takes the calls of a driver and returns their
// answers.
func (p *Program) Call(ctx context.Context, _ string, text []byte) ([]byte, error) {
	var batch struct {
		Calls []struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"calls"`
		More bool `json:"more"`
	}
	if err := json.Unmarshal(text, &batch); err != nil {
		return nil, errors.New("these are no calls")
	}
	calls := make([]*Call, len(batch.Calls))
	p.change(func() {
		p.partial = batch.More
		for i, asked := range batch.Calls {
			c := NewCall(asked.Name, asked.Input)
			calls[i] = c
			if why := p.refuse(c); why != "" {
				c.answer <- Failed(why)
				continue
			}
			p.calls++
			c.ID = fmt.Sprintf("call_%03d", p.calls)
			p.pending = append(p.pending, c)
		}
	})
	answers := make([]Answer, len(calls))
	for i, c := range calls {
		var err error
		if answers[i], err = c.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return json.Marshal(answers)
}

// refuse returns why a call is invalid, or "". Drivers make no such calls; programs can.
func (p *Program) refuse(c *Call) string {
	switch {
	case !slices.Contains(p.tools, c.Name):
		return "Sandbox requested an unregistered tool: " + c.Name
	case p.calls >= MaxCalls:
		return fmt.Sprintf("More than %d tool calls in one program", MaxCalls)
	case !strings.HasPrefix(strings.TrimSpace(string(c.Input)), "{"):
		return "The input of a tool must be an object"
	}
	return ""
}

// Next waits for the next round of calls or the end of the program. If ctx ends, Next ends the
// program. An error may come with the last round.
func (p *Program) Next(ctx context.Context) (*Round, error) {
	for {
		p.mu.Lock()
		changed, ended := p.changed, p.ended
		ready := len(p.pending) > 0 && !p.partial && len(p.issued) == 0
		p.mu.Unlock()
		switch {
		case ended:
			return p.last()
		case ready:
			<-time.After(drainDelay)
			return p.issue(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p.cancel()
			return nil, &engine.Error{Op: "run", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
		}
	}
}

// issue issues the pending calls. From now on the program waits, for at most ttl.
func (p *Program) issue() *Round {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	p.issued, p.pending = p.pending, nil
	p.serving = false
	p.out(true)
	p.expiry = time.AfterFunc(p.of.ttl, p.expire)
	return p.current()
}

// current returns the current round. The caller holds mu.
func (p *Program) current() *Round {
	return &Round{
		Token: fmt.Sprintf("%s.%d", p.key, p.round), Calls: p.issued, Session: p.home,
		Stdout: p.stdout.String(), Stderr: p.stderr.String(),
	}
}

func (p *Program) last() (*Round, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving = false
	r := p.current()
	r.Calls, r.Result, r.Ended = nil, p.result, true
	return r, p.refused
}

// Find returns the program and the round of a token. The error is ErrInvalid for an invalid
// token, and ErrNotFound if the program has ended.
func (s *Programs) Find(ctx context.Context, token string) (p *Program, round int, err error) {
	key, number, _ := strings.Cut(token, ".")
	if round, err = strconv.Atoi(number); err != nil {
		return nil, 0, engine.Invalid("continuation_token", "is invalid")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.live[key]; p == nil {
		if self, holder := s.engine.Self(), engine.EpochOf(key); self != 0 && holder != 0 && holder != self {
			return nil, 0, s.engine.Elsewhere(ctx, "continue", "", holder)
		}
		return nil, 0, &engine.Error{Op: "continue", Kind: engine.ErrNotFound}
	}
	return p, round, nil
}

// Resume gives the program the answers to the calls of a round, by their ids. A repeated
// request gets the same next round as the first.
func (p *Program) Resume(round int, answers map[string]Answer) (again *Round, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving {
		return nil, conflict("another request continues this execution")
	}
	for id, a := range answers {
		known, ok := p.answered[id]
		switch given := slices.ContainsFunc(p.issued, func(c *Call) bool { return c.ID == id }); {
		case round != p.round && (!ok || known != sum(a)):
			return nil, conflict("this token has been used")
		case ok && known != sum(a):
			return nil, conflict("%s has been answered", id)
		case !ok && !given:
			return nil, engine.Invalid(id, "was never issued")
		}
	}
	if round != p.round {
		return p.current(), nil
	}
	for _, c := range p.issued {
		if _, ok := answers[c.ID]; !ok {
			return nil, engine.Invalid("tool_results", "has no result for %s", c.ID)
		}
	}
	if !p.expiry.Stop() {
		return nil, &engine.Error{Op: "continue", Kind: engine.ErrNotFound}
	}
	p.out(false)
	for _, c := range p.issued {
		p.answered[c.ID] = sum(answers[c.ID])
		c.answer <- answers[c.ID]
	}
	p.issued, p.serving = nil, true
	return nil, nil
}

// sum identifies an answer.
func sum(a Answer) [sha256.Size]byte {
	return sha256.Sum256([]byte(a.Error + "\x00" + string(a.Result)))
}

func conflict(format string, args ...any) error {
	return &engine.Error{Op: "continue", Kind: engine.ErrConflict, Err: fmt.Errorf(format, args...)}
}

var _ engine.CallHandler = (*Program)(nil)
