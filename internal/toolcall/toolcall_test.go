package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ann = engine.Caller{Owner: "ann"}
	bob = engine.Caller{Owner: "bob"}
)

// script is a program whose lines are calls, each a message to the channel as it stands.
// It prints the answers.
func script(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	for line := range strings.Lines(spec.Code) {
		answer, err := host.Call(ctx, "calls", []byte(line))
		if err != nil {
			return sandboxtest.UntilKilled(ctx), nil
		}
		host.Output(engine.Stdout, append(answer, '\n'))
	}
	return sandboxtest.Exit(0), nil
}

type place struct {
	*Programs
	t *testing.T
}

func open(t *testing.T, ttl time.Duration) *place {
	t.Helper()
	sandbox := sandboxtest.NewFake(script)
	core := enginetest.StartOn(t, engine.Config{}, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
	s := New(core, ttl, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = core.Shutdown(ctx)
		_ = s.Close()
	})
	return &place{s, t}
}

func (p *place) start(caller engine.Caller, code string) (*Program, error) {
	return p.Start(p.t.Context(), caller, engine.RunRequest{Language: "python", Code: code}, []string{"f", "g"}, nil)
}

// begin starts a program, and returns it with its first round.
func (p *place) begin(caller engine.Caller, code string) (*Program, *Round) {
	p.t.Helper()
	program, err := p.start(caller, code)
	if err != nil {
		p.t.Fatal(err)
	}
	return program, p.next(program)
}

func (p *place) next(program *Program) *Round {
	p.t.Helper()
	r, err := program.Next(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// left is how many programs and requests are known.
func (p *place) left() (programs, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live), len(p.requests)
}

func (p *place) eventually(what string, yes func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !yes() {
		if time.Now().After(deadline) {
			p.t.Fatalf("in vain: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func (p *place) eventuallyEmpty() {
	p.t.Helper()
	p.eventually("nothing is left", func() bool { a, b := p.left(); return a+b == 0 })
}

const oneCall = `{"calls":[{"name":"f","input":{}}]}`

func result(text string) Answer { return Answer{Result: json.RawMessage(text)} }

// What belongs together goes out in one round, also if it comes in several messages;
// a round is answered whole, and its answers are taken once.
func TestRounds(t *testing.T) {
	p := open(t, time.Hour)
	three := `{"calls":[{"name":"f","input":{"a":1}},{"name":"g","input":{}},{"name":"h","input":{}}]}`
	program, r := p.begin(ann, three+"\n"+oneCall)
	if len(r.Calls) != 2 || r.Calls[0].ID != "call_001" || r.Calls[1].Name != "g" || r.Ended {
		t.Fatalf("%+v", r)
	}
	found, round, err := p.Find(t.Context(), r.Token)
	if found != program || round != 1 || err != nil {
		t.Fatalf("found %p, %d, %v", found, round, err)
	}
	both := map[string]Answer{"call_001": result("1"), "call_002": Failed("no")}
	for _, ids := range []string{"call_001", "call_001 call_002 call_009", "call_001 call_002 call_003"} {
		answers := map[string]Answer{}
		for _, id := range strings.Fields(ids) {
			answers[id] = result("1")
		}
		if _, err := program.Resume(1, answers); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("answers to %s: %v", ids, err)
		}
	}
	if again, err := program.Resume(1, both); again != nil || err != nil {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := program.Resume(1, both); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("while another request waits: %v", err)
	}
	r = p.next(program)
	want := `[{"result":1},{"error":"no"},{"error":"Sandbox requested an unregistered tool: h"}]` + "\n"
	if r.Stdout != want || len(r.Calls) != 1 || r.Calls[0].ID != "call_003" {
		t.Fatalf("%+v", r)
	}
	if again, err := program.Resume(1, both); err != nil || again == nil || again.Token != r.Token {
		t.Errorf("the same answers again: %+v, %v", again, err)
	}
	both["call_001"] = result("2")
	if _, err := program.Resume(1, both); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("other answers: %v", err)
	}
	for round, answers := range map[int]map[string]Answer{
		1: {"call_003": result("3")},                          // to a round that it is not of
		2: {"call_003": result("3"), "call_001": result("2")}, // one of them other than before
	} {
		if _, err := program.Resume(round, answers); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("round %d, %v: %v", round, answers, err)
		}
	}
	if _, err := program.Resume(2, map[string]Answer{"call_003": result("3")}); err != nil {
		t.Fatal(err)
	}
	if r = p.next(program); !r.Ended || r.Result == nil || r.Result.Status != engine.StatusOK ||
		!strings.HasSuffix(r.Stdout, `[{"result":3}]`+"\n") {
		t.Errorf("%+v", r)
	}
	p.eventuallyEmpty()
	if _, _, err := p.Find(t.Context(), r.Token); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the token of one that has ended: %v", err)
	}
	for _, token := range []string{"", ".", "x", "x.", "x.y", "x.1.2"} {
		if _, _, err := p.Find(t.Context(), token); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("the token %q: %v", token, err)
		}
	}
}

// Bad messages, bad inputs and endless calls get answers, and the program continues.
func TestBadCalls(t *testing.T) {
	p := open(t, time.Hour)
	many := `{"calls":[` + strings.TrimSuffix(strings.Repeat(`{"name":"f","input":{}},`, MaxCalls+1), ",") + "]}"
	program, r := p.begin(ann, `{"calls":[{"name":"f","input":[]},{"name":"f"}]}`+"\n"+many)
	refused := `[{"error":"The input of a tool must be an object"},{"error":`
	if !strings.HasPrefix(r.Stdout, refused) || len(r.Calls) != MaxCalls {
		t.Fatalf("%d calls, %.200s", len(r.Calls), r.Stdout)
	}
	answers := map[string]Answer{}
	for _, c := range r.Calls {
		answers[c.ID] = result("0")
	}
	if _, err := program.Resume(1, answers); err != nil {
		t.Fatal(err)
	}
	if r = p.next(program); !r.Ended || !strings.Contains(r.Stdout, "More than 200 tool calls") {
		t.Errorf("%.200s", r.Stdout)
	}
	if program, err := p.start(ann, "no JSON"); err != nil {
		t.Error(err)
	} else {
		go program.expire() // it waits for its end
		if r := p.next(program); !r.Ended {
			t.Errorf("%+v", r)
		}
	}
	p.eventuallyEmpty()
}

// A program keeps its memory while it waits: there are so many, and not for ever.
func TestLimits(t *testing.T) {
	p := open(t, time.Hour)
	var tokens []string
	for range MaxOwnerPrograms {
		_, r := p.begin(ann, oneCall)
		tokens = append(tokens, r.Token)
	}
	if _, err := p.start(ann, oneCall); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	if _, err := p.start(ann.User("z"), oneCall); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("one more of a user of the same key: %v", err)
	}
	p.begin(bob, oneCall)
	for _, token := range tokens {
		program, _, err := p.Find(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		program.expire()
	}
	p.eventually("those of one owner are gone", func() bool { programs, _ := p.left(); return programs == 1 })
	p.begin(ann, oneCall)
}

func TestExpiry(t *testing.T) {
	p := open(t, 50*time.Millisecond)
	program, _ := p.begin(ann, oneCall)
	p.eventuallyEmpty()
	if _, err := program.Resume(1, map[string]Answer{"call_001": result("1")}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("too late: %v", err)
	}
}

// A request is cancelled by its id while it is answered, and then its program while the
// program waits. Another owner cannot cancel it, and finished requests are forgotten.
func TestCancel(t *testing.T) {
	p := open(t, time.Hour)
	cancel := func(id string, owner engine.Owner, want bool) {
		t.Helper()
		if done, err := p.Cancel(id, owner); done != want || err != nil {
			t.Errorf("cancel %s: %t, %v", id, done, err)
		}
	}
	cancel("never", "ann", false)
	ctx, leave, err := p.Enter(t.Context(), "ann", "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Enter(t.Context(), "ann", "one"); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("twice at once: %v", err)
	}
	if _, err := p.Cancel("one", "bob"); !errors.Is(err, engine.ErrForbidden) {
		t.Errorf("a stranger: %v", err)
	}
	cancel("one", "ann", true)
	if !errors.Is(context.Cause(ctx), errCancelled) {
		t.Error("it was not cancelled")
	}
	leave(nil)
	p.eventuallyEmpty()

	_, leave, err = p.Enter(t.Context(), "ann", "two")
	if err != nil {
		t.Fatal(err)
	}
	program, _ := p.begin(ann, oneCall)
	leave(program)
	if _, _, err := p.Enter(t.Context(), "bob", "two"); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the id of another one's program: %v", err)
	}
	cancel("two", "ann", true)
	cancel("two", "ann", false)
	p.eventuallyEmpty()
	leave(program) // it has ended already
	p.eventuallyEmpty()
	ctx, leave, err = p.Enter(t.Context(), "ann", "")
	if leave(nil); err != nil || ctx.Err() == nil {
		t.Errorf("without an id: %v", err)
	}
	p.eventuallyEmpty()
}

// A client that leaves takes its program along.
func TestClientLeaves(t *testing.T) {
	p := open(t, time.Hour)
	program, _ := p.begin(ann, oneCall)
	if _, err := program.Resume(1, map[string]Answer{"call_001": result("1")}); err != nil {
		t.Fatal(err)
	}
	other, err := p.start(ann, `{"calls":[{"name":"f","input":{}}],"more":true}`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := other.Next(ctx); !errors.Is(err, engine.ErrCanceled) {
		t.Errorf("%v", err)
	}
	p.eventuallyEmpty()
}

// A person answers one call after the other, and is told of them once.
func TestQueue(t *testing.T) {
	var none *Queue
	if none.First() != nil || none.Answer(result("1")) {
		t.Error("a nil queue is not empty")
	}
	var q Queue
	var told atomic.Int32
	stop := q.Notify(func() { told.Add(1) })
	answers := make(chan string, 2)
	for _, name := range []string{"one", "two"} {
		before := told.Load()
		go func() {
			got, err := q.Ask(t.Context(), NewCall(name, nil))
			answers <- name + string(got) + " " + errorText(err)
		}()
		for told.Load() == before {
			<-time.After(time.Millisecond)
		}
	}
	stop()
	if q.First().Name != "one" || !q.Answer(result("1")) {
		t.Error("the first is not the first")
	}
	if got := <-answers; got != "one1 " {
		t.Error(got)
	}
	q.Answer(Failed("no"))
	if got := <-answers; got != "two no" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer q.Notify(cancel)()
	if _, err := q.Ask(ctx, NewCall("three", nil)); !errors.Is(err, context.Canceled) || q.First() != nil {
		t.Errorf("%v, left %v", err, q.First())
	}
	if told.Load() != 2 {
		t.Errorf("told %d times", told.Load())
	}
	q.Put(NewCall("four", nil))
	seen := false
	q.Notify(func() { seen = true })()
	if !seen {
		t.Error("of a call that waits already nobody is told")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
