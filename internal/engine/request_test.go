package engine_test

import (
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestRequestNotesItsRun(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	ctx := engine.WithRequest(t.Context(), "id")
	if noted := engine.RunNoted(ctx); !noted.IsZero() {
		t.Errorf("before: %v", noted)
	}
	run, err := r.Run(ctx, alice, python(""))
	if err != nil {
		t.Fatal(err)
	}
	if noted := engine.RunNoted(ctx); noted != run.ID {
		t.Errorf("noted %v, not %v", noted, run.ID)
	}
}
