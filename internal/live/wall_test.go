package live

import (
	"errors"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A session has the wall of its key or request. Cells and processes of a key with a stronger one do not run in it;
// a copy has that one.
func TestWallOfSession(t *testing.T) {
	p := openOn(t, Config{}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), enginetest.NewIndex())
	guarded := p.caller
	guarded.Wall = engine.WallGVisor
	id := p.session("bash")
	_, cell := p.Start(t.Context(), guarded, id, CellRequest{Code: "x"})
	_, process := p.StartProcess(t.Context(), guarded, id, ProcessRequest{Argv: []string{"true"}})
	for _, err := range []error{cell, process} {
		if e, ok := errors.AsType[*engine.Error](err); !ok || e.Kind != engine.ErrInvalid || e.ID != "wall" || e.Hint == "" {
			t.Errorf("%v", err)
		}
	}
	copies, _, err := p.Copy(t.Context(), guarded, engine.CopySource{Session: id}, CopyRequest{Count: 1})
	if err != nil || copies[0].Wall != engine.WallGVisor {
		t.Errorf("%v %+v", err, copies)
	}
	raised, err := p.Create(t.Context(), p.caller, Request{Language: "bash", Wall: engine.WallGVisor})
	if err != nil || raised.Wall != engine.WallGVisor {
		t.Errorf("%v %+v", err, raised)
	}
	if _, err := p.Create(t.Context(), guarded, Request{Language: "bash", Wall: engine.WallShared}); err == nil {
		t.Error("a session with less than its key")
	}
}
