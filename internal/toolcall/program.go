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

// Programs that live at once: one that waits keeps its memory.
const (
	MaxPrograms      = 128
	MaxOwnerPrograms = 32
)

const (
	maxPauses   = time.Hour        // that a program waits for answers, all together
	cancelLimit = 30 * time.Second // for the engine to end a run
	// drainDelay is for text that a program printed right before a call: it comes
	// by another way than the call.
	drainDelay = 300 * time.Microsecond
)

// Programs are the runs that can call tools, from their start to their end, and the
// requests about them.
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

// New returns Programs, none yet. Each waits for the answers to a round for ttl.
func New(e *engine.Service, ttl time.Duration, log *slog.Logger) *Programs {
	s := &Programs{engine: e, ttl: ttl, log: log, live: map[string]*Program{}, requests: map[string]*request{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close waits for all that goes on. The engine has been shut down before.
func (s *Programs) Close() error {
	s.end()
	s.work.Wait()
	return nil
}

// Program is one that can call tools. Its process lives for as long as this does: it
// blocks at a call, and continues with the answer.
type Program struct {
	Caller engine.Caller
	Note   any // the edge's, about the program

	of    *Programs
	key   string
	tools []string
	out   func(bool) // tells the engine that the program waits for its client, and that it no longer does
	run   engine.ID
	home  engine.ID // its session

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when something below changes
	serving  bool          // a request waits for the next round
	round    int           // that was given out last
	calls    int           // so far
	partial  bool          // more calls come that belong to the pending ones
	pending  []*Call       // not given out
	issued   []*Call       // given out, without an answer
	answered map[string][sha256.Size]byte
	expiry   *time.Timer
	stdout   strings.Builder
	stderr   strings.Builder
	result   *engine.Run // it has ended
	ended    bool        // it has ended, or nobody can tell
	refused  error       // instead of a result: its turn did not come in time
}

// Round is what a request is answered with: calls, or the end.
type Round struct {
	Token          string // names the program and the round; nobody makes one up
	Calls          []*Call
	Stdout, Stderr string // so far
	Session        engine.ID
	Result         *engine.Run // of the end; nil: nobody can tell
	Ended          bool
}

// Start begins a program that can call tools by these names.
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
	req.Profile.Host, req.Profile.Pauses, req.Attended = p, maxPauses, true
	run, err := s.engine.Start(ctx, caller, req)
	if err != nil {
		s.drop(p)
		return nil, err
	}
	p.change(func() { p.run, p.home = run.ID, run.Session })
	s.work.Go(func() { p.follow(s.life) })
	return p, nil
}

func (s *Programs) admit(p *Program) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.live {
		if other.Caller.Owner == p.Caller.Owner {
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

// follow notes what a program prints and how it ends.
func (p *Program) follow(ctx context.Context) {
	defer p.of.drop(p)
	defer p.change(func() {
		p.ended = true
		if p.expiry != nil {
			p.expiry.Stop()
		}
	})
	if err := p.of.engine.AwaitTurn(ctx, p.Caller, p.run); errors.Is(err, engine.ErrBusy) {
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

// change does something to the state, and tells who waits for it.
func (p *Program) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

// cancel ends the program, and returns when nothing of it is left.
func (p *Program) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), cancelLimit)
	defer stop()
	if err := p.of.engine.CancelRun(ctx, p.Caller, p.run); err != nil && !errors.Is(err, engine.ErrNotFound) {
		p.of.log.ErrorContext(ctx, "a program could not be cancelled", "run", p.run, "err", err)
	}
}

// expire ends a program to which nobody came back, or is to.
func (p *Program) expire() {
	p.of.drop(p)
	p.cancel()
}

// waiting reports whether a round of it is out.
func (p *Program) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended && !p.serving
}

// Rounds implements engine.RoundHandler.
func (p *Program) Rounds(out func(bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = out
}

// Call implements engine.CallHandler: it takes the calls that a driver sends, and
// returns with their answers.
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

// refuse says why a call goes to nobody; the driver makes no such calls, the program
// itself might.
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

// Next waits for the next round of calls or the end of the program. When ctx ends
// before, so does the program. The error may come with a round, which says where the
// program was.
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

// issue gives the pending calls out. From now on the program waits, though not for
// ever.
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

// current is the round that the program waits in. The caller holds mu.
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

// Find returns the program that a token names, and the round. The error is ErrInvalid
// for what is no token, and ErrNotFound for one of a program that is gone.
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

// Resume gives the program the answers to the calls of a round, by their ids. A request
// that comes a second time gets the round that its first answer was about.
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

// print tells answers apart.
func sum(a Answer) [sha256.Size]byte {
	return sha256.Sum256([]byte(a.Error + "\x00" + string(a.Result)))
}

func conflict(format string, args ...any) error {
	return &engine.Error{Op: "continue", Kind: engine.ErrConflict, Err: fmt.Errorf(format, args...)}
}

var _ engine.RoundHandler = (*Program)(nil)
