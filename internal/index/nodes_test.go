package index

import (
	"context"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func newNode(name string) engine.Node {
	return engine.Node{Epoch: engine.NewEpoch(), Name: name, Role: engine.RoleAll, Address: "http://" + name + ":8000",
		Version: "1", Slots: 4, Memory: 1 << 30, Languages: []string{"python", "bash"}, Packages: []string{"current"}}
}

// silence moves the last sign of life of a node into the past.
func silence(t *testing.T, db *DB, epoch engine.Epoch, d time.Duration) {
	t.Helper()
	err := db.store.write(t.Context(), synced, func(ctx context.Context, c *conn) error {
		return changed(c.exec(ctx, "UPDATE nodes SET beat_us = beat_us - $1 WHERE epoch = $2", d.Microseconds(),
			int64(epoch)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A node that was silent for too long is dead for good; any other node is not.
func TestNodes(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		b := bench{T: t, Index: open()}
		db := b.Index.(*DB)
		one, two := newNode("one"), newNode("two")
		b.want(db.AddNode(b.Context(), two), "")
		b.want(db.AddNode(b.Context(), one), "")
		b.want(db.AddNode(b.Context(), one), engine.ErrConflict)

		load := engine.Load{Running: 1, Queued: 2, Held: 3, Memory: 4}
		drain, err := db.Beat(b.Context(), one.Epoch, load, true)
		b.want(err, "")
		b.same("drain", drain, false)
		nodes, err := db.Nodes(b.Context())
		b.want(err, "")
		if len(nodes) != 2 || nodes[0].Silent < 0 || nodes[0].Silent > time.Minute || nodes[0].Since.IsZero() {
			t.Fatalf("%+v", nodes)
		}
		one.Load, one.Draining, one.Silent, one.Since = load, true, nodes[0].Silent, nodes[0].Since
		b.same("node", nodes[0], one)

		b.want(db.DrainNode(b.Context(), "three", true), engine.ErrNotFound)
		b.want(db.DrainNode(b.Context(), "one", true), "")
		drain, err = db.Beat(b.Context(), one.Epoch, load, false)
		b.want(err, "")
		b.same("drain", drain, true)

		// Beats come late on a busy machine, so here the limit is an hour away.
		silence(t, db, one.Epoch, -time.Hour)
		dead, err := db.GiveUp(b.Context(), one.Epoch)
		b.want(err, "")
		b.same("dead", dead, false)
		silence(t, db, one.Epoch, time.Hour+engine.DeadAfter+time.Second)
		dead, err = db.GiveUp(b.Context(), one.Epoch)
		b.want(err, "")
		b.same("dead", dead, true)
		_, err = db.Beat(b.Context(), one.Epoch, load, false)
		b.want(err, engine.ErrNotFound)

		b.want(db.RemoveNode(b.Context(), one.Epoch), "")
		nodes, err = db.Nodes(b.Context())
		b.want(err, "")
		b.same("nodes", len(nodes), 1)
	})
}

// Runs and workspaces of live nodes do not count as lost.
func TestLost(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		b := bench{T: t, Index: open(WithClock((&clock{now: start}).Now))}
		db := b.Index.(*DB)
		node := newNode("one")
		b.want(db.AddNode(b.Context(), node), "")
		var runs []*engine.Run
		var held []engine.Session
		for _, epoch := range []engine.Epoch{node.Epoch, engine.NewEpoch()} {
			run, session := newRun("ada"), newSession("ada")
			run.Node, session.Kind, session.Place = epoch, engine.SessionHeld, engine.Place{Holder: epoch, Generation: 1}
			_, err := b.StartRun(b.Context(), run, nil, "", engine.Digest{})
			b.want(err, "")
			b.want(b.AddSession(b.Context(), session, nil), "")
			runs, held = append(runs, run), append(held, session)
		}
		n, err := b.InterruptRuns(b.Context(), start)
		b.want(err, "")
		b.same("interrupted", n, 1)
		for i, want := range []engine.Status{engine.StatusQueued, engine.StatusInterrupted} {
			run, err := b.Run(b.Context(), "ada", runs[i].ID)
			b.want(err, "")
			b.same("status", run.Status, want)
			b.same("node", run.Node, runs[i].Node)
		}
		mine, err := b.HeldSessions(b.Context(), node.Epoch)
		b.want(err, "")
		b.same("held", mine, held[:1])
	})
}

// A session is led by one node at a time, and a former one's files do not go into it.
func TestClaim(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		b := bench{T: t, Index: open(WithClock((&clock{now: start}).Now))}
		db := b.Index.(*DB)
		one, two := newNode("one"), newNode("two")
		b.want(db.AddNode(b.Context(), one), "")
		b.want(db.AddNode(b.Context(), two), "")
		session := newSession("ada")
		b.want(b.AddSession(b.Context(), session, nil), "")

		first, err := db.ClaimSession(b.Context(), session.ID, 0, engine.Place{Holder: one.Epoch})
		b.want(err, "")
		b.same("place", first, engine.Place{Holder: one.Epoch, Generation: 1})
		for _, from := range []int64{0, 1} { // one is alive
			_, err = db.ClaimSession(b.Context(), session.ID, from, engine.Place{Holder: two.Epoch})
			b.want(err, engine.ErrConflict)
		}
		save := func(place engine.Place) error {
			file := newFile("ada")
			file.Path = "a.txt"
			return b.SaveFiles(b.Context(), &engine.Run{ID: engine.NewID(), Owner: "ada", Session: session.ID,
				Files: []engine.File{file}, Generation: place.Generation}, nil, start)
		}
		b.want(save(first), "")

		silence(t, db, one.Epoch, time.Hour)
		_, err = db.GiveUp(b.Context(), one.Epoch)
		b.want(err, "")
		second, err := db.ClaimSession(b.Context(), session.ID, 1, engine.Place{Holder: two.Epoch, Worker: 7})
		b.want(err, "")
		b.same("place", second, engine.Place{Holder: two.Epoch, Worker: 7, Generation: 2})
		b.want(save(first), engine.ErrConflict)
		b.want(save(second), "")
		found, err := b.Session(b.Context(), "ada", session.ID)
		b.want(err, "")
		b.same("place", found.Place, second)
		usage, err := b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("files", usage.Files, 2)
	})
}

// All nodes have what the first one said.
func TestAgree(t *testing.T) {
	onEachStore(t, func(t *testing.T, open func(...Option) *DB) {
		b := bench{T: t, Index: open()}
		for _, value := range []string{"a", "b"} {
			agreed, err := b.Index.(*DB).Agree(b.Context(), "colour", value)
			b.want(err, "")
			b.same("agreed", agreed, "a")
		}
	})
}
