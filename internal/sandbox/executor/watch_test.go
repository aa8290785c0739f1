package executor

import (
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// A run is not answered early while a process other than pid 1 exists, or may exist.
func TestExitedAlone(t *testing.T) {
	for left, want := range map[int64]bool{1: true, 2: false, 0: false} {
		for _, reaped := range []bool{true, false} {
			event, done := Event{Status: 7 << 8, Alone: reaped}, &outcome{Lost: true}
			got := (&watch{}).exited(event, func() int64 { return left }, done)
			if got != (want && reaped) || done.Lost ||
				done.Status != 7<<8 {
				t.Errorf("%d are left, reaped: %v: %v, %+v", left, reaped, got, done)
			}
		}
	}
	if (&watch{}).exited(Event{Alone: true}, (*cgroup.Group)(nil).Processes, &outcome{}) {
		t.Error("without control groups")
	}
}
