package engine_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// BenchmarkRun measures what a service adds to a program: admission, slot, log and record.
func BenchmarkRun(b *testing.B) {
	for name, pieces := range map[string]int{"silent": 0, "prints": 20} {
		b.Run(name, func(b *testing.B) {
			db, err := index.Open(b.Context(), filepath.Join(b.TempDir(), "index.db"), slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { db.Close() })
			fake := sandboxtest.NewFake(func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
				for range pieces {
					host.Output(engine.Stdout, []byte("0123456789\n"))
				}
				return sandboxtest.Exit(0), nil
			})
			s := enginetest.StartOn(b, engine.Config{}, fake, enginetest.NewBlobs(), db)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := s.Run(b.Context(), alice, python("")); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
