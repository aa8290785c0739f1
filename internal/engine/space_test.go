package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// smallDisk is low when it was told so.
type smallDisk struct{ low atomic.Bool }

func (d *smallDisk) Room() (engine.Room, error) {
	return engine.Room{Free: 5 << 20, Floor: 10 << 20, Low: d.low.Load()}, nil
}

func TestLowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &smallDisk{}
		r := newRig(t, engine.Config{Space: disk, FileTTL: time.Hour},
			func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
				return sandboxtest.Exit(0), nil
			})
		ctx := t.Context()
		kept, unwanted := r.put(t, alice, "kept", "kept"), r.put(t, alice, "unwanted", "unwanted")
		expired, err := r.PutFile(ctx, alice, engine.Upload{Name: "short", TTL: time.Second}, strings.NewReader("short"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		disk.low.Store(true)
		_, err = r.Run(ctx, alice, python(""))
		if e := wantKind(t, err, engine.ErrFull, ""); !strings.Contains(
			e.Hint, "5 MiB are free, and below 10 MiB (min_free)") {
			t.Errorf("%q", e.Hint)
		}
		_, err = r.PutFile(ctx, alice, engine.Upload{Name: "x"}, strings.NewReader("x"))
		wantKind(t, err, engine.ErrFull, "")
		_, err = r.CreateSession(ctx, alice, engine.SessionRequest{})
		wantKind(t, err, engine.ErrFull, "")
		wantKind(t, r.Ready(ctx), engine.ErrFull, "")
		synctest.Wait()
		if r.blobs.Has(ctx, expired.SHA256, expired.Size) {
			t.Error("the refusal did not make the janitor remove what has expired")
		}
		if err := r.DeleteFile(ctx, alice, unwanted.ID); err != nil {
			t.Errorf("a deletion: %v", err)
		}
		if _, content, err := r.OpenFile(ctx, alice, kept.ID); err != nil {
			t.Errorf("a download: %v", err)
		} else {
			content.Close()
		}
		disk.low.Store(false)
		if err := r.Ready(ctx); err != nil {
			t.Errorf("with room again: %v", err)
		}
		if _, err := r.Run(ctx, alice, python("")); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}
