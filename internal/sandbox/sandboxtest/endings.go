package sandboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// answerTime bounds the time between the end and the answer on a busy machine. A run
// that hangs takes far longer; `make numbers` has the figures.
const answerTime = 30 * time.Second

// endings tests how programs end, and that every program ends.
func endings(t *testing.T, b *bench) {
	t.Run("children end with the program", func(t *testing.T) {
		begin := time.Now()
		r := b.run(t, Spec("bash", "(sleep 90; echo late) & setsid sleep 90 & nohup sleep 90 & echo done"))
		wantOutput(t, r, "done\n")
		if d := time.Since(begin); d > answerTime {
			t.Errorf("the answer came after %v", d)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		host := &recorder{seen: func(engine.Stream, []byte) { cancel() }}
		begin := time.Now()
		r := run(ctx, t, b.sandbox, Spec("bash", "echo x > early; echo on; sleep 90 & sleep 90"), host)
		if !r.Cancelled || r.ExitCode != nil {
			t.Errorf("cancelled %v, exit code %d", r.Cancelled, r.Code())
		}
		if d := time.Since(begin); d > answerTime {
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
