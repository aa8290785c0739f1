package linux

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Two executors of a machine do not have the same users, for which the kernel counts: while a program of one fills
// its queue of signals, one of the other can still send some.
func TestExecutorsShareNoUser(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it each sandbox has a user namespace")
	}
	const program = `
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
sent = 0
while sent < int(sys.argv[1]) and libc.sigqueue(os.getpid(), 40, None) == 0: sent += 1
print(sent, os.getuid(), flush=True)
`
	first, second := start(t), start(t)
	filling := sandboxtest.Python(program + "signal.pause()")
	filling.Args, filling.Limits.Timeout = []string{"100000"}, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	host := &firstLine{line: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() {
		_, err := first.Run(ctx, filling, host)
		ended <- err
	}()
	filled := <-host.line
	few := sandboxtest.Python(program)
	few.Args = []string{"10"}
	r := sandboxtest.Run(t, second, few)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	own, user, _ := strings.Cut(r.Stdout, " ")
	if _, other, _ := strings.Cut(filled, " "); own != "10" || user == other {
		t.Errorf("one has sent %q signals as its user, and then the other %q", filled, r.Stdout)
	}
	if n, _, _ := strings.Cut(filled, " "); n == "0" || n == "100000" {
		t.Errorf("it has sent %s signals: this test shows nothing", n)
	}
}

// firstLine passes on the first output of a program.
type firstLine struct {
	sandboxtest.Host
	line chan string
}

func (h *firstLine) Output(_ engine.Stream, data []byte) {
	select {
	case h.line <- string(data):
	default:
	}
}
