package executor

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// A failure says in a field whether its hint refers to `airlock doctor`, also on the service's side.
func TestFailureOf(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOENT, syscall.ENOSYS, syscall.EIO} {
		f := failureOf(engine.ErrUnavailable, fmt.Errorf("mount: %w", errno))
		if refers := strings.Contains(f.Hint, "airlock doctor"); f.Doctor != refers {
			t.Errorf("%v: Doctor is %v, its hint %q", errno, f.Doctor, f.Hint)
		}
		e, ok := errors.AsType[*engine.Error](fromFailure("run", f))
		if !ok || e.Doctor != f.Doctor || e.Hint != f.Hint {
			t.Errorf("%v: the service has Doctor %v, hint %q", errno, e.Doctor, e.Hint)
		}
	}
}
