package index

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/airlock-run/airlock/internal/engine"
)

// A worker beats for itself and removes itself: not an api, and not a worker of another name, whose epoch it has heard.
func TestWorkersOfNames(t *testing.T) { onEachStore(t, testWorkersOfNames) }

func testWorkersOfNames(t *testing.T, open func(...Option) *DB) {
	db, ctx := open(), t.Context()
	api := engine.Node{Epoch: 11, Name: "api", Role: engine.RoleAPI}
	alpha := engine.Node{Epoch: 12, Name: "alpha", Role: engine.RoleWorker, Slots: 2}
	beta := engine.Node{Epoch: 13, Name: "beta", Role: engine.RoleWorker, Slots: 2}
	for _, n := range []engine.Node{api, alpha, beta} {
		if err := db.AddNode(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []engine.Node{{Epoch: api.Epoch, Name: "api"}, {Epoch: api.Epoch, Name: "alpha"},
		{Epoch: beta.Epoch, Name: "alpha"}} {
		if _, err := db.BeatWorker(ctx, other); engine.KindOf(err) != engine.ErrNotFound {
			t.Errorf("%s beats as %d: %v", other.Name, other.Epoch, err)
		}
		if err := db.RemoveWorker(ctx, other.Name, other.Epoch); err != nil {
			t.Error(err)
		}
	}
	states := func(want ...string) {
		t.Helper()
		nodes, err := db.Nodes(ctx)
		var got []string
		for i := range nodes {
			got = append(got, nodes[i].Name+" "+nodes[i].State())
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	states("alpha alive", "api alive", "beta alive")
	if _, err := db.BeatWorker(ctx, alpha); err != nil {
		t.Error(err)
	}

	// One that is revoked is dead at once, and is not admitted again.
	if err := db.SetWorker(ctx, "alpha", engine.WorkerRevoked); err != nil {
		t.Fatal(err)
	}
	if _, err := db.BeatWorker(ctx, alpha); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("a revoked worker beats: %v", err)
	}
	if err := db.AdmitWorker(ctx, "alpha", false); engine.KindOf(err) != engine.ErrForbidden {
		t.Errorf("a revoked worker is admitted: %v", err)
	}
	// An api may have admitted it just before.
	alpha.Epoch = 14
	if err := db.AddNode(ctx, alpha); err != nil {
		t.Fatal(err)
	}
	states("alpha revoked", "alpha revoked", "api alive", "beta alive")

	if err := db.AdmitWorker(ctx, "beta", false); err != nil {
		t.Errorf("without approval: %v", err)
	}
	for range 2 {
		if err := db.AdmitWorker(ctx, "beta", true); engine.KindOf(err) != engine.ErrForbidden {
			t.Errorf("nobody has approved it: %v", err)
		}
	}
	names, err := db.WorkerNames(ctx)
	want := []engine.WorkerName{{Name: "alpha", State: engine.WorkerRevoked}, {Name: "beta", State: engine.WorkerPending}}
	if diff := cmp.Diff(want, names, cmpopts.IgnoreTypes(time.Time{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, name := range []string{"alpha", "beta"} {
		if err := db.SetWorker(ctx, name, engine.WorkerApproved); err != nil {
			t.Fatal(err)
		}
		if err := db.AdmitWorker(ctx, name, true); err != nil {
			t.Errorf("%s is approved: %v", name, err)
		}
	}
}
