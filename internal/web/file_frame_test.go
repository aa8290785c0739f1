package web

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// readers is a service of live sessions whose cells read tables.
type readers struct {
	live.Sessions // what no test calls
	open          []engine.ID
	made          int
	ended         map[engine.ID]bool
	cell          live.Cell
}

func (r *readers) Create(_ context.Context, _ engine.Caller, req live.Request) (engine.Session, error) {
	r.made++
	if req.Origin != engine.OriginPreview || len(req.Files) != 1 || !req.Files[0].ReadOnly || req.Idle != frameIdle {
		return engine.Session{}, engine.Invalid("request", "%+v", req)
	}
	id := engine.NewID()
	r.open = append(r.open, id)
	return engine.Session{ID: id}, nil
}

func (r *readers) Delete(_ context.Context, _ engine.Caller, session engine.ID) error {
	r.open = slices.DeleteFunc(r.open, func(id engine.ID) bool { return id == session })
	return nil
}

func (r *readers) Start(context.Context, engine.Caller, engine.ID, live.CellRequest) (live.Cell, error) {
	return r.cell, nil
}

func (r *readers) Wait(context.Context, engine.Caller, engine.ID, engine.ID) (live.Cell, error) {
	return r.cell, nil
}

func (r *readers) Info(_ context.Context, _ engine.Caller, session engine.ID) (live.Info, error) {
	if r.ended[session] {
		return live.Info{State: live.StateNone}, nil
	}
	return live.Info{State: live.StateIdle}, nil
}

// An owner has few tables open, and one whose interpreter has ended is read again.
func TestOpenFrames(t *testing.T) {
	table := json.RawMessage(`{"rows":1}`)
	r := &readers{ended: map[engine.ID]bool{}, cell: live.Cell{Status: live.StatusOK,
		Outputs: []live.Output{{Type: live.Result, Data: map[string]json.RawMessage{live.TableForm: table}}}}}
	f := &frames{sessions: r, owners: map[engine.Owner]*ownerFrames{}}
	file := func(n byte) engine.File {
		return engine.File{ID: engine.NewID(), Name: "a.csv", SHA256: engine.Digest{n}}
	}
	get := func(owner engine.Owner, n byte) engine.ID {
		t.Helper()
		o, err := f.get(t.Context(), engine.Caller{Owner: owner}, file(n))
		if err != nil || string(o.Table) != string(table) {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Session
	}
	first := get("alice", 1)
	if get("alice", 1) != first || r.made != 1 {
		t.Errorf("an open table was read %d times", r.made)
	}
	get("alice", 2)
	get("alice", 1)
	get("alice", 3)
	if len(r.open) != framesPerOwner || !slices.Contains(r.open, first) {
		t.Errorf("%d tables are open, and not the last ones", len(r.open))
	}
	if get("bob", 1) == first {
		t.Error("bob has a session of alice")
	}
	r.ended[first] = true
	if again := get("alice", 1); again == first || slices.Contains(r.open, first) {
		t.Error("a session that has ended is used, or not deleted")
	}
	open := len(r.open)
	for status, c := range map[string]live.Cell{
		"reading it took too long": {Status: live.StatusTimeout}, "more memory": {Status: live.StatusLost},
		"lacks a package": {Status: live.StatusError, Outputs: []live.Output{{Type: live.Error,
			Name: "ModuleNotFoundError"}}},
		"as a table: CSV": {Status: live.StatusError, Outputs: []live.Output{{Type: live.Error, Value: "CSV parse error."}}},
	} {
		r.cell = c
		_, err := f.get(t.Context(), engine.Caller{Owner: "carol"}, file(9))
		told, ok := errors.AsType[*engine.Error](err)
		if !ok || told.Kind != engine.ErrInvalid || !strings.Contains(told.Hint, status) {
			t.Errorf("%v is told of %+v", err, c)
		}
		if len(r.open) != open {
			t.Errorf("the session stays open after %q", status)
		}
	}
}
