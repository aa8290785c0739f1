package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

// A start that takes long ends at a signal, which the one who serves sees too.
func TestUntilSignal(t *testing.T) {
	signals := make(chan os.Signal, 4)
	stuck := func(ctx context.Context) (*service, error) {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := untilSignal(t.Context(), signals, stuck); !errors.Is(err, errSignal) || len(signals) != 1 {
		t.Errorf("%v, and %d signals are left", err, len(signals))
	}
	<-signals
	broken := errors.New("it does not start")
	if _, err := untilSignal(t.Context(), signals, func(context.Context) (*service, error) {
		return nil, broken
	}); !errors.Is(err, broken) || errors.Is(err, errSignal) {
		t.Errorf("without a signal: %v", err)
	}
}
