package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program has the strongest of what the service, its key and its request say, and a request for less is refused.
func TestChooseWall(t *testing.T) {
	const shared, gvisor = engine.WallShared, engine.WallGVisor
	for _, test := range []struct {
		service, key, asked, want engine.Wall
		fault                     string
	}{
		{"", "", "", shared, ""},
		{"", "", shared, shared, ""},
		{"", "", gvisor, gvisor, ""},
		{"", shared, "", shared, ""},
		{"", shared, gvisor, gvisor, ""},
		{"", gvisor, "", gvisor, ""},
		{"", gvisor, gvisor, gvisor, ""},
		{shared, gvisor, "", gvisor, ""},
		{gvisor, "", "", gvisor, ""},
		{gvisor, shared, "", gvisor, ""},
		{gvisor, gvisor, gvisor, gvisor, ""},
		{"", gvisor, shared, "", `"shared" is weaker than gvisor, which all programs of this key have at least`},
		{gvisor, "", shared, "", `"shared" is weaker than gvisor, which all programs of this service have at least`},
		{gvisor, gvisor, shared, "", `"shared" is weaker than gvisor, which all programs of this service`},
		{"", "", "kvm", "", `"kvm" is not known; there are shared and gvisor`},
	} {
		r := newRig(t, engine.Config{Wall: test.service}, nil)
		caller := engine.Caller{Owner: "alice", Wall: test.key}
		req := python("")
		req.Wall = test.asked
		run, err := r.Run(t.Context(), caller, req)
		if test.fault != "" {
			wantKind(t, err, engine.ErrInvalid, "wall")
			if !strings.Contains(err.Error(), test.fault) || len(r.sandbox.Specs()) > 0 {
				t.Errorf("%+v: %v", test, err)
			}
			_, err = r.CreateSession(t.Context(), caller, engine.SessionRequest{Wall: test.asked})
			wantKind(t, err, engine.ErrInvalid, "wall")
			continue
		}
		if err != nil || run.Wall != test.want || r.sandbox.Specs()[0].Wall != test.want {
			t.Errorf("%+v: %v %+v", test, err, run)
		}
		if again, err := r.GetRun(t.Context(), caller, run.ID); err != nil || again.Wall != test.want {
			t.Errorf("%+v: the record has %q, %v", test, again.Wall, err)
		}
	}
}

// A run has the wall that the sandbox says it had.
func TestWallOfOutcome(t *testing.T) {
	r := newRig(t, engine.Config{}, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		return &engine.Outcome{ExitCode: new(int), Wall: engine.WallGVisor}, nil
	})
	if run, err := r.Run(t.Context(), alice, python("")); err != nil || run.Wall != engine.WallGVisor {
		t.Errorf("%v %+v", err, run)
	}
}

// Programs in a workspace that is kept have its wall; those with files in the store have at least that of the session.
func TestWallOfSession(t *testing.T) {
	const shared, gvisor = engine.WallShared, engine.WallGVisor
	guarded := engine.Caller{Owner: alice.Owner, Wall: gvisor}
	for _, test := range []struct {
		kind       engine.SessionKind
		made, used engine.Caller
		of, asked  engine.Wall
		want       engine.Wall // empty: refused
	}{
		{engine.SessionFiles, alice, alice, "", "", shared},
		{engine.SessionFiles, alice, alice, "", gvisor, gvisor},
		{engine.SessionFiles, alice, guarded, "", "", gvisor},
		{engine.SessionFiles, alice, alice, gvisor, "", gvisor},
		{engine.SessionFiles, alice, alice, gvisor, shared, ""},
		{engine.SessionHeld, alice, alice, "", "", shared},
		{engine.SessionHeld, alice, alice, "", shared, shared},
		{engine.SessionHeld, alice, alice, "", gvisor, ""},
		{engine.SessionHeld, alice, guarded, "", "", ""},
		{engine.SessionHeld, alice, alice, gvisor, "", gvisor},
		{engine.SessionHeld, guarded, alice, "", "", gvisor},
		{engine.SessionHeld, guarded, alice, "", gvisor, gvisor},
		{engine.SessionHeld, guarded, alice, "", shared, ""},
	} {
		r := newRig(t, engine.Config{}, nil)
		session, err := r.CreateSession(t.Context(), test.made, engine.SessionRequest{Kind: test.kind, Wall: test.of})
		if err != nil {
			t.Fatal(err)
		}
		req := python("")
		req.Session, req.Wall = session.ID, test.asked
		run, err := r.Run(t.Context(), test.used, req)
		if test.want == "" {
			wantKind(t, err, engine.ErrInvalid, "wall")
		} else if err != nil || run.Wall != test.want || r.sandbox.Specs()[0].Wall != test.want {
			t.Errorf("%+v: %v %+v", test, err, run)
		}
	}
}

// Copies of a session have at least its wall, and so have those of its snapshots.
func TestWallOfCopy(t *testing.T) {
	const shared, gvisor = engine.WallShared, engine.WallGVisor
	r := newRig(t, engine.Config{}, nil)
	guarded := engine.Caller{Owner: alice.Owner, Wall: gvisor}
	for _, test := range []struct {
		caller          engine.Caller
		of, asked, want engine.Wall
	}{
		{alice, shared, "", shared}, {alice, shared, gvisor, gvisor}, {guarded, shared, "", gvisor},
		{alice, gvisor, "", gvisor}, {alice, gvisor, gvisor, gvisor},
	} {
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Wall: test.of})
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := r.AddSnapshot(t.Context(), alice, session.ID, "", false)
		if err != nil || snapshot.Wall != test.of {
			t.Fatalf("%v %+v", err, snapshot)
		}
		for _, from := range []engine.CopySource{{Session: session.ID}, {Snapshot: snapshot.ID}} {
			made, _, err := r.CopySession(t.Context(), test.caller, from, []engine.SessionRequest{{Wall: test.asked}})
			if err != nil || made[0].Wall != test.want {
				t.Errorf("%+v: %v %+v", test, err, made)
			}
		}
	}
	_, _, err := r.CopySession(t.Context(), guarded, engine.CopySource{}, []engine.SessionRequest{{Wall: shared}})
	if err == nil {
		t.Error("a copy with less than the key has")
	}
}

// A key has a wall, which is that of its callers, and of whoever acts for its owner without it.
func TestWallOfKey(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	_, _, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "team", Wall: "kvm"})
	wantKind(t, err, engine.ErrInvalid, "wall")
	key, token, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "team", Wall: engine.WallGVisor})
	if err != nil || key.Wall != engine.WallGVisor {
		t.Fatalf("%v %+v", err, key)
	}
	caller, err := r.Authenticate(t.Context(), token)
	if err != nil || caller.Wall != engine.WallGVisor || caller.User("u").Wall != engine.WallGVisor {
		t.Errorf("%v %+v", err, caller)
	}
	if of, other := r.AccountWall(caller.User("u").Owner), r.AccountWall("other"); of != engine.WallGVisor || other != "" {
		t.Errorf("%q, and of another owner %q", of, other)
	}
	if err := r.RevokeKey(t.Context(), admin, key.ID); err != nil || r.AccountWall("team") != "" {
		t.Errorf("revoked: %v, %q", err, r.AccountWall("team"))
	}
}

// A wall that is not to be had is refused in words, and the program is not run.
func TestNoWall(t *testing.T) {
	refusal := engine.NoWall("gvisor is not to be had here: it needs root", "run the service as root")
	r := newRig(t, engine.Config{}, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		return nil, refusal
	})
	req := python("")
	req.Wall = engine.WallGVisor
	if _, err := r.Run(t.Context(), alice, req); !errors.Is(err, engine.ErrNoWall) || !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("%v", err)
	}
	runs, err := r.ListRuns(t.Context(), alice, engine.RunQuery{})
	const want = "The program was not run: gvisor is not to be had here: it needs root. Run the service as root."
	if err != nil || len(runs) != 1 || runs[0].Message != want {
		t.Errorf("%v %+v", err, runs)
	}
}
