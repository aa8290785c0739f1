package librechat

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	maxCalls          = 200 // of one execution
	maxExecutions     = 128 // that live at once: a waiting program keeps its memory
	maxUserExecutions = 32  // of one owner
	// maxPauses is how long a program may wait for answers, all together.
	maxPauses   = time.Hour
	cancelLimit = 30 * time.Second // for the engine to end a run
)

// executions are the programs that can call tools, from their start to their
// end.
type executions struct {
	engine Runs
	ttl    time.Duration
	log    *slog.Logger

	life context.Context //nolint:containedctx // of the goroutines that follow programs
	end  context.CancelFunc
	work sync.WaitGroup
	mu   sync.Mutex
	live map[executionKey]*execution
}

// executionKey is the secret in a continuation token.
type executionKey [32]byte

func newExecutions(e Runs, ttl time.Duration, log *slog.Logger) *executions {
	x := &executions{engine: e, ttl: ttl, log: log, live: map[executionKey]*execution{}}
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// execution is one program that can call tools. Its process lives for as long
// as this does: it stands still at a call, and goes on with the answer.
type execution struct {
	key    executionKey
	owner  *executions
	caller engine.Caller
	scope  string // see scope.mark
	inputs []input
	tools  map[string]bool
	out    func(bool) // tells the engine that the program waits for its client, and that it no longer does
	run    engine.ID
	within engine.ID // its session

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when something below changes
	serving bool          // a request waits for the next round
	round   int           // that was given out last
	calls   int           // so far
	partial bool          // more calls come that belong to the pending ones
	pending []*call       // not given out
	issued  []*call       // given out, without an answer
	answers map[string]string
	expiry  *time.Timer
	stdout  strings.Builder
	stderr  strings.Builder
	result  *engine.Run // it has ended
	ended   bool        // it has ended, or nobody can tell
	refused error       // instead of a result: its turn did not come in time
}

// call is one call of a program.
type call struct {
	id     string
	name   string
	input  json.RawMessage
	answer callAnswer
	done   chan struct{} // closed when answer is there
}

// start begins an execution.
func (x *executions) start(ctx context.Context, caller engine.Caller, p *prepared, tools []tool) (*execution, error) {
	e := &execution{owner: x, caller: caller, scope: p.Profile.Scope, inputs: p.inputs, tools: map[string]bool{},
		changed: make(chan struct{}), answers: map[string]string{}, serving: true, out: func(bool) {}}
	rand.Read(e.key[:])
	for _, t := range tools {
		e.tools[t.Name] = true
	}
	if err := x.admit(e); err != nil {
		return nil, err
	}
	p.Profile.Host, p.Profile.Pauses = e, maxPauses
	p.Attended = true
	run, err := x.engine.Start(ctx, caller, p.RunRequest)
	if err != nil {
		x.drop(e)
		return nil, err
	}
	e.mu.Lock()
	e.run, e.within = run.ID, run.Session
	e.mu.Unlock()
	x.work.Go(func() { e.follow(x.life) })
	return e, nil
}

func (x *executions) admit(e *execution) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := 0
	for _, other := range x.live {
		if other.caller.Owner == e.caller.Owner {
			own++
		}
	}
	if len(x.live) >= maxExecutions || own >= maxUserExecutions {
		return &engine.Error{Op: "run", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second,
			Err: errors.New("too many programs wait for their tools")}
	}
	x.live[e.key] = e
	return nil
}

func (x *executions) drop(e *execution) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.live, e.key)
}

func (x *executions) find(key executionKey) *execution {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live[key]
}

// follow notes what a program prints and how it ends.
func (e *execution) follow(ctx context.Context) {
	defer e.owner.drop(e)
	defer e.change(func() {
		e.ended = true
		if e.expiry != nil {
			e.expiry.Stop()
		}
	})
	if err := e.owner.engine.AwaitTurn(ctx, e.caller, e.run); errors.Is(err, engine.ErrBusy) {
		e.change(func() { e.refused = err })
		return
	}
	events, err := e.owner.engine.Watch(ctx, e.caller, e.run, 0)
	if err != nil {
		e.owner.log.ErrorContext(ctx, "a program cannot be followed", "run", e.run, "err", err)
		return
	}
	for event := range events {
		e.change(func() {
			switch {
			case event.Type == engine.EventOutput && event.Stream == engine.Stdout:
				e.stdout.WriteString(event.Data)
			case event.Type == engine.EventOutput:
				e.stderr.WriteString(event.Data)
			case event.Type == engine.EventResult:
				e.result = event.Run
			}
		})
	}
}

// change does something to the state, and tells who waits for it.
func (e *execution) change(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	close(e.changed)
	e.changed = make(chan struct{})
}

// cancel ends the program, and returns when nothing of it is left.
func (e *execution) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), cancelLimit)
	defer stop()
	if err := e.owner.engine.CancelRun(ctx, e.caller, e.run); err != nil && !errors.Is(err, engine.ErrNotFound) {
		e.owner.log.ErrorContext(ctx, "a program could not be cancelled", "run", e.run, "err", err)
	}
}

// token names this execution and its round. Nobody makes one up.
func (e *execution) token() string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(
		e.key[:len(e.key):len(e.key)], uint32(e.round)))
}

func parseToken(token string) (key executionKey, round int, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != len(key)+4 {
		if officialToken(token) {
			return key, 0, expired() // as for one of ours that nobody knows any more
		}
		return key, 0, bad("continuation_token is invalid")
	}
	return executionKey(raw[:len(key)]), int(binary.BigEndian.Uint32(raw[len(key):])), nil
}

// officialToken reports whether a token has the form of the official server's:
// the base64 of a JSON object. After a move its clients still show some.
func officialToken(token string) bool {
	token = strings.TrimRight(token, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		var content map[string]any
		if raw, err := encoding.DecodeString(token); err == nil && json.Unmarshal(raw, &content) == nil && len(content) > 0 {
			return true
		}
	}
	return false
}

// Rounds implements engine.RoundHandler.
func (e *execution) Rounds(out func(bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out = out
}

// Call takes the calls that the driver sends, and returns with their answers.
func (e *execution) Call(ctx context.Context, _ string, text []byte) ([]byte, error) {
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
	calls := make([]*call, len(batch.Calls))
	e.change(func() {
		e.partial = batch.More
		for i, asked := range batch.Calls {
			c := &call{name: asked.Name, input: asked.Input, done: make(chan struct{})}
			calls[i] = c
			if refused := e.refuse(c); refused != "" {
				c.answer.Error = &refused
				close(c.done)
				continue
			}
			e.calls++
			c.id = fmt.Sprintf("call_%03d", e.calls)
			e.pending = append(e.pending, c)
		}
	})
	answers := make([]callAnswer, len(calls))
	for i, c := range calls {
		select {
		case <-c.done:
			answers[i] = c.answer
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return json.Marshal(answers)
}

// refuse says why a call goes to nobody; the driver makes no such calls, the
// program itself might.
func (e *execution) refuse(c *call) string {
	switch {
	case !e.tools[c.name]:
		return "Sandbox requested an unregistered tool: " + c.name
	case e.calls >= maxCalls:
		return fmt.Sprintf("More than %d tool calls in one program", maxCalls)
	case !strings.HasPrefix(strings.TrimSpace(string(c.input)), "{"):
		return "The input of a tool must be an object"
	}
	return ""
}

// settleTime is for text that a program printed right before a call: it comes
// by another way than the call.
const settleTime = 300 * time.Microsecond

// next waits for the next round of calls or the end of the program. Each time
// tick says so, beat is called. Without an answer in time to ctx the program is
// ended.
func (e *execution) next(ctx context.Context, tick <-chan time.Time, beat func()) (*round, error) {
	for {
		e.mu.Lock()
		changed, ended := e.changed, e.ended
		ready := len(e.pending) > 0 && !e.partial && len(e.issued) == 0
		e.mu.Unlock()
		switch {
		case ended:
			return e.last()
		case ready:
			pause := time.NewTimer(settleTime)
			<-pause.C
			return e.issue(), nil
		}
		select {
		case <-changed:
		case <-tick:
			beat()
		case <-ctx.Done():
			e.cancel()
			return nil, &engine.Error{Op: "run", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
		}
	}
}

// round is what a request is answered with: calls, or the end.
type round struct {
	token          string
	calls          []*call
	stdout, stderr string
	session        engine.ID
	result         *engine.Run
	ended          bool
}

// issue gives the pending calls out. From now on the program waits, though not
// for ever.
func (e *execution) issue() *round {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.round++
	e.issued, e.pending = e.pending, nil
	e.serving = false
	e.out(true)
	e.expiry = time.AfterFunc(e.owner.ttl, e.expire)
	return e.current()
}

// current is the round that the program waits in.
func (e *execution) current() *round {
	return &round{token: e.token(), calls: e.issued, stdout: e.stdout.String(), stderr: e.stderr.String(),
		session: e.within}
}

// expire ends a program to which nobody came back.
func (e *execution) expire() {
	e.owner.drop(e)
	e.cancel()
}

func (e *execution) last() (*round, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serving = false
	return &round{ended: true, result: e.result, session: e.within, stdout: e.stdout.String(), stderr: e.stderr.String()},
		e.refused
}

// resume gives the program the answers to its calls. A request that comes a
// second time gets the round that its first answer was about.
func (e *execution) resume(turn int, results map[string]result) (again *round, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.serving {
		return nil, conflict("another request continues this execution")
	}
	if turn != e.round {
		for id, r := range results {
			if known, ok := e.answers[id]; !ok || known != r.print() {
				return nil, conflict("this token has been used")
			}
		}
		return e.current(), nil
	}
	issued := map[string]bool{}
	for _, c := range e.issued {
		issued[c.id] = true
		if _, ok := results[c.id]; !ok {
			return nil, bad("tool_results has no result for %s", c.id)
		}
	}
	for id := range results {
		if known, answered := e.answers[id]; answered {
			r := results[id]
			if known != r.print() {
				return nil, conflict("%s has been answered", id)
			}
		} else if !issued[id] {
			return nil, bad("%s was never issued", id)
		}
	}
	if !e.expiry.Stop() {
		return nil, expired()
	}
	e.out(false)
	for _, c := range e.issued {
		r := results[c.id]
		e.answers[c.id] = r.print()
		c.answer = r.answer()
		close(c.done)
	}
	e.issued, e.serving = nil, true
	return nil, nil
}

// print tells answers apart.
func (r *result) print() string {
	text := encode(r)
	if len(text) > 64 {
		return digest(text)
	}
	return string(text)
}

// Close waits for all that the dialect has going on. The engine has been shut
// down before.
func (h *Handler) Close() error {
	h.executions.end()
	h.executions.work.Wait()
	return nil
}

var (
	_ io.Closer           = (*Handler)(nil)
	_ engine.RoundHandler = (*execution)(nil)
)
