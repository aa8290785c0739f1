package sandboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// endings tests how programs end, and that all of them do.
func endings(t *testing.T, b *bench) {
	t.Run("children end with the program", func(t *testing.T) {
		begin := time.Now()
		r := b.run(t, Spec("bash", "(sleep 15; echo late) & setsid sleep 15 & nohup sleep 15 & echo done"))
		wantOutput(t, r, "done\n")
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("the answer came after %v", d)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		host := &recorder{seen: func(engine.Stream, []byte) { cancel() }}
		begin := time.Now()
		r := run(ctx, t, b.sandbox, Spec("bash", "echo x > early; echo on; sleep 15 & sleep 15"), host)
		if !r.Cancelled || r.ExitCode != nil {
			t.Errorf("cancelled %v, exit code %d", r.Cancelled, r.Code())
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("the program died after %v", d)
		}
	})
	t.Run("cancelled before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		outcome, err := b.sandbox.Run(ctx, Python("print(1)"), &recorder{})
		if err == nil && !outcome.Cancelled {
			t.Errorf("%+v", outcome)
		}
	})
	t.Run("the next works", func(t *testing.T) {
		wantOutput(t, b.run(t, Python("print('well')")), "well\n")
	})
}
