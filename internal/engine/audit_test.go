package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestAudit(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := newRig(t, engine.Config{Now: func() time.Time { return now }}, nil)
	ctx := engine.WithFrom(t.Context(), engine.FromLoopback)
	admin := engine.Caller{Owner: "root", Key: "adminkey", Admin: true}
	key, token, err := r.CreateKey(ctx, admin, engine.NewKey{Owner: "bob", Network: []string{"api.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = r.CreateKey(ctx, alice, engine.NewKey{Owner: "alice", Admin: true})
	wantKind(t, err, engine.ErrForbidden, "")
	if err := r.RevokeKey(ctx, admin, key.ID); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		r.RecordAct(ctx, engine.Caller{}, engine.ActSignIn, strings.Repeat("x", 1000), "", engine.ErrUnauthorized)
	}
	now = now.Add(time.Minute)
	r.RecordAct(ctx, engine.Caller{}, engine.ActSignIn, "page", "", engine.ErrUnauthorized)
	r.RecordAct(ctx, engine.Caller{Owner: "bob"}, engine.ActSignIn, "page", "", nil)
	entries, err := r.Audit(ctx, admin, engine.AuditQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v", entries)
	if strings.Contains(text, token) || strings.Contains(text, token[len("ak_")+13:]) {
		t.Error("the audit log has a token")
	}
	// 20 of 31 refused sign-ins at once, one a minute later, and none of them in the way of bob's.
	if len(entries) != 3+20+1+1 {
		t.Errorf("%d entries", len(entries))
	}
	if e := entries[0]; e.Owner != "bob" || e.Outcome != engine.OutcomeDone {
		t.Errorf("bob's sign-in is %+v", e)
	}
	if e := entries[1]; e.Outcome != engine.OutcomeRefused || e.More != 10 || e.Owner != "" {
		t.Errorf("the last refused sign-in is %+v", e)
	}
	if e := entries[2]; len(e.Object) > 310 {
		t.Errorf("an object of %d bytes", len(e.Object))
	}
	want := []engine.AuditEntry{
		{Owner: "root", Key: "adminkey", Action: engine.ActKeyRevoked, Object: key.ID, Outcome: engine.OutcomeDone},
		{Owner: alice.Owner, Key: alice.Key, Action: engine.ActKeyMade, Outcome: engine.OutcomeRefused},
		{Owner: "root", Key: "adminkey", Action: engine.ActKeyMade, Object: key.ID, Outcome: engine.OutcomeDone,
			Detail: "for bob; network api.example.com"},
	}
	for i, e := range entries[len(entries)-3:] {
		want[i].At, want[i].From = now.Add(-time.Minute), engine.FromLoopback
		if e != want[i] {
			t.Errorf("%+v, want %+v", e, want[i])
		}
	}
	for _, other := range []engine.Caller{alice, {Owner: "bob", Key: "k"}, {Owner: engine.Local, Key: "k"}} {
		_, err := r.Audit(ctx, other, engine.AuditQuery{})
		wantKind(t, err, engine.ErrForbidden, "")
	}
}
