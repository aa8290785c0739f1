package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// uses is a program that used something.
func uses(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
	o := sandboxtest.Exit(0)
	o.Duration, o.CPU, o.MemoryPeak = 2*time.Second, 1500*time.Millisecond, 1<<20
	return o, nil
}

// once is what it is counted with.
var once = engine.Consumption{Runs: 1, CPU: 1500 * time.Millisecond, Memory: 2 << 20}

var (
	november = engine.DayOf(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	december = november.NextMonth()
)

// wantDays checks what a caller sees of a month.
func (r *rig) wantDays(
	t *testing.T, what string, caller engine.Caller, month engine.Day, q engine.ConsumptionQuery,
	want ...engine.ConsumptionDay,
) {
	t.Helper()
	got, more, err := r.Consumption(t.Context(), caller, month, q)
	if diff := cmp.Diff(want, got); err != nil || more || diff != "" {
		t.Errorf("%s: %v %v %s", what, err, more, diff)
	}
}

// What is counted is the sum of the runs, by owner, key and day, and nobody but operators sees another's.
func TestConsumption(t *testing.T) {
	now := time.Date(2026, 11, 30, 23, 59, 59, 999_000_000, time.UTC)
	r := newRig(t, engine.Config{Now: func() time.Time { return now }}, uses)
	keyed := engine.Caller{Owner: "alice", Key: "k1"}
	for _, caller := range []engine.Caller{keyed, keyed, {Owner: "alice"}, keyed.User("a"), {Owner: "bob", Key: "k2"}} {
		if _, err := r.Run(t.Context(), caller, python("")); err != nil {
			t.Fatal(err)
		}
	}
	r.put(t, keyed, "a", "seven b")
	r.Count(keyed, engine.Consumption{Sent: 11})
	r.Count(engine.Caller{}, engine.Consumption{Sent: 11}) // nobody
	last := december - 1
	ofKey := once.Plus(once).Plus(once).Plus(engine.Consumption{Stored: 7, Sent: 11})
	alices := []engine.ConsumptionDay{{Day: last, Owner: "alice", Consumption: once},
		{Day: last, Owner: "alice", Key: "k1", Consumption: ofKey}}
	bobs := engine.ConsumptionDay{Day: last, Owner: "bob", Key: "k2", Consumption: once}
	r.wantDays(t, "her own", keyed, november, engine.ConsumptionQuery{}, alices...)
	r.wantDays(t, "his own", engine.Caller{Owner: "bob"}, november+7, engine.ConsumptionQuery{}, bobs)
	r.wantDays(t, "a user's own", keyed.User("a"), november, engine.ConsumptionQuery{}, engine.ConsumptionDay{Day: last,
		Owner: keyed.User("a").Owner, Key: "k1", Consumption: once})
	r.wantDays(t, "all", engine.Caller{Owner: "root", Admin: true}, november, engine.ConsumptionQuery{},
		append(alices, bobs)...)
	r.wantDays(t, "an owner's, for an admin", engine.Caller{Owner: "root", Admin: true}, november,
		engine.ConsumptionQuery{Owner: "bob"}, bobs)
	for _, q := range []engine.ConsumptionQuery{{Owner: "alice"}, {Owner: keyed.User("a").Owner}} {
		_, _, err := r.Consumption(t.Context(), engine.Caller{Owner: "bob"}, november, q)
		wantKind(t, err, engine.ErrForbidden, "")
	}
	_, _, err := r.Consumption(t.Context(), keyed.User("a"), november, engine.ConsumptionQuery{Owner: "alice"})
	wantKind(t, err, engine.ErrForbidden, "")

	// The next millisecond is another month.
	now = now.Add(time.Millisecond)
	r.wantDays(t, "nothing in december", keyed, december, engine.ConsumptionQuery{})
	if _, err := r.Run(t.Context(), keyed, python("")); err != nil {
		t.Fatal(err)
	}
	r.wantDays(t, "december", keyed, december, engine.ConsumptionQuery{}, engine.ConsumptionDay{Day: december,
		Owner: "alice", Key: "k1", Consumption: once})
	r.wantDays(t, "november again", keyed, november, engine.ConsumptionQuery{}, alices...)
}

// What the index refuses for a while is counted once it takes it, and a service that is shut down loses nothing.
func TestConsumptionKept(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	index := enginetest.NewIndex()
	index.Now = nil
	cfg := engine.Config{Now: func() time.Time { return now }}
	s := enginetest.StartOn(t, cfg, sandboxtest.NewFake(uses), enginetest.NewBlobs(), index)
	index.Fail(func(method string) error {
		if method == "AddConsumption" {
			return errors.New("not now")
		}
		return nil
	})
	if _, err := s.Run(t.Context(), alice, python("")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Consumption(t.Context(), alice, november, engine.ConsumptionQuery{}); err == nil {
		t.Error("what could not be recorded is said to be all")
	}
	index.Fail(nil)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &rig{Service: enginetest.StartOn(t, cfg, sandboxtest.NewFake(uses), enginetest.NewBlobs(), index)}
	r.wantDays(t, "after a restart", alice, november, engine.ConsumptionQuery{}, engine.ConsumptionDay{Day: december - 1,
		Owner: alice.Owner, Key: alice.Key, Consumption: once})
}

// There is no end of the names of users: beyond a number they count for their account.
func TestConsumptionOfManyUsers(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := newRig(t, engine.Config{Now: func() time.Time { return now }}, uses)
	key := engine.Caller{Owner: "app", Key: "k1"}
	const users = 10_500
	for i := range users {
		r.Count(key.User(fmt.Sprint(i)), engine.Consumption{Sent: 1})
	}
	days, _, err := r.Consumption(t.Context(), key, november, engine.ConsumptionQuery{Users: true})
	if err != nil || len(days) != 10_001 {
		t.Fatalf("%d rows: %v", len(days), err)
	}
	r.wantDays(t, "all", key, november, engine.ConsumptionQuery{}, engine.ConsumptionDay{Day: december - 1, Owner: "app",
		Key: "k1", Consumption: engine.Consumption{Sent: users}})
}

func TestMonthQuota(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	quota, err := engine.ParseMonthQuota("runs=2,stored=1KiB")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, engine.Config{Now: func() time.Time { return now }, Month: quota}, uses)
	admin := engine.Caller{Owner: "root", Admin: true}
	limited := engine.Caller{Owner: "app", Key: "k1", Month: "cpu=3s"}
	run := func(caller engine.Caller) error {
		_, err := r.Run(t.Context(), caller, python(""))
		return err
	}
	refused := func(what string, err error, words ...string) {
		t.Helper()
		e := wantKind(t, err, engine.ErrSpent, "")
		for _, word := range append(words, "until 1 December 2026, 00:00 UTC", "ask the operator") {
			if !strings.Contains(e.Hint, word) {
				t.Errorf("%s: %q does not say %q", what, e.Hint, word)
			}
		}
		if e.RetryAfter != time.Hour {
			t.Errorf("%s: try again in %v", what, e.RetryAfter)
		}
	}
	if err := errors.Join(run(alice), run(alice)); err != nil {
		t.Fatal(err)
	}
	refused("a third run", run(alice), "This owner has used 2 programs", "owner_month")
	_, err = r.PutFile(t.Context(), alice, engine.Upload{Name: "a"}, strings.NewReader("x"))
	refused("an upload", err)
	if _, err := r.ListFiles(t.Context(), alice, engine.FileQuery{}); err != nil {
		t.Errorf("what is stored can be read: %v", err)
	}
	if err := run(bob); err != nil {
		t.Errorf("another owner: %v", err)
	}
	_, err = r.PutFile(t.Context(), bob, engine.Upload{Name: "a"}, strings.NewReader(strings.Repeat("x", 1024)))
	if err != nil {
		t.Error(err)
	}
	refused("after an upload", run(bob), "1 KiB of stored files")

	// A key has a bound of its own, for all users that it names.
	if err := errors.Join(run(limited.User("a")), run(limited.User("b"))); err != nil {
		t.Fatal(err)
	}
	refused("a key", run(limited.User("c")), "This key has used 3 s of processor time", "--month")
	// All users of an account have what one owner has, unless its key says more.
	refused("an account", run(engine.Caller{Owner: "app", Key: "k2"}.User("d")), "All users of this key", "2 programs")
	_, _, err = r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "app",
		Allowance: engine.Allowance{Users: 9, Shares: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(engine.Caller{Owner: "app", Key: "k2"}.User("d")); err != nil {
		t.Errorf("an account with more: %v", err)
	}
	now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	if err := errors.Join(run(alice), run(bob), run(limited.User("c"))); err != nil {
		t.Errorf("the next month: %v", err)
	}
	_, _, err = r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "x", Month: "cpu=fast"})
	wantKind(t, err, engine.ErrInvalid, "month")
}

// Another node counts, too: this one knows some seconds later.
func TestMonthQuotaOfTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, blobs := enginetest.NewIndex(), enginetest.NewBlobs()
		cfg := engine.Config{Month: engine.MonthQuota{Runs: 1}}
		one := enginetest.StartOn(t, cfg, sandboxtest.NewFake(uses), blobs, index)
		other := enginetest.StartOn(t, cfg, sandboxtest.NewFake(uses), blobs, index)
		if err := other.CheckMonth(t.Context(), "run", alice); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Run(t.Context(), alice, python("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Second)
		_, err := other.Run(t.Context(), alice, python(""))
		wantKind(t, err, engine.ErrSpent, "")
	})
}

// A live interpreter is measured while it lives, idle memory included, and ended once its quota is used up.
func TestConsumptionOfLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Month: engine.MonthQuota{Memory: 100 * 90}},
			func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
				<-ctx.Done()
				return &engine.Outcome{Cancelled: true, CPU: 5 * time.Second, MemoryPeak: 1 << 20, Duration: time.Minute}, nil
			})
		r.sandbox.SetUsage(engine.SandboxUsage{CPU: 3 * time.Second, Memory: 100})
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionLive, Live: "{}"})
		if err != nil {
			t.Fatal(err)
		}
		request := python("")
		request.Session, request.Profile.Live = session.ID, &engine.Interpreter{Fresh: true}
		run, err := r.Start(t.Context(), alice, request)
		if err != nil {
			t.Fatal(err)
		}
		sum := func() (sum engine.Consumption) {
			days, _, err := r.Consumption(t.Context(), alice, engine.DayOf(time.Now()), engine.ConsumptionQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range days {
				sum = sum.Plus(day.Consumption)
			}
			return sum
		}
		time.Sleep(61 * time.Second)
		if diff := cmp.Diff(engine.Consumption{CPU: 3 * time.Second, Memory: 100 * 60}, sum()); diff != "" {
			t.Error("after a minute", diff)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		ended, err := r.GetRun(t.Context(), alice, run.ID)
		if err != nil || ended.Status != engine.StatusCancelled || !strings.Contains(ended.Message, "month is used up") {
			t.Errorf("it is %+v, %v", ended, err)
		}
		if diff := cmp.Diff(engine.Consumption{CPU: 5 * time.Second, Memory: 100 * 90}, sum()); diff != "" {
			t.Error("at its end", diff)
		}
		if n := r.Stats().Runs[engine.StatusCancelled]; n != 0 {
			t.Errorf("%d runs count as cancelled, and nobody cancelled one", n)
		}
	})
}

func TestParseMonthQuota(t *testing.T) {
	q, err := engine.ParseMonthQuota("runs=10, cpu=1h30m,memory=2GiBh,stored=5TiB,sent=1B")
	want := engine.MonthQuota{Runs: 10, CPU: 90 * time.Minute, Memory: 2 << 30 * 3600, Stored: 5 << 40, Sent: 1}
	if diff := cmp.Diff(want, q); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if q, err := engine.ParseMonthQuota(""); q != (engine.MonthQuota{}) || err != nil {
		t.Errorf("none: %+v, %v", q, err)
	}
	for _, text := range []string{"runs", "runs=0", "runs=-1", "runs=1,runs=2", "cpu=5", "memory=2GiB",
		"memory=9999999TiBh", "stored=12", "stored=1.5GiB", "sent=9223372036854775807KiB", "users=3", ","} {
		if q, err := engine.ParseMonthQuota(text); err == nil {
			t.Errorf("%q is %+v", text, q)
		}
	}
}
