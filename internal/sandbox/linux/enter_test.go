package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// standingHost reports the first output of its program.
type standingHost struct {
	silent
	ready chan struct{}
	once  sync.Once
}

func (h *standingHost) Output(engine.Stream, []byte) { h.once.Do(func() { close(h.ready) }) }

// standingProgram runs a program in a held workspace until the test ends. It returns
// when the program runs.
func standingProgram(t *testing.T, s *executor.Sandbox, limits func(*engine.Limits)) (held engine.ID, end func()) {
	t.Helper()
	spec := sandboxtest.Spec("bash", "echo up; exec sleep 1000")
	spec.Limits.Timeout = time.Hour
	if limits != nil {
		limits(&spec.Limits)
	}
	spec.Held = engine.NewID()
	if err := s.Hold(t.Context(), spec.Held, 0, "", nil, spec.Limits); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	host := &standingHost{ready: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := s.Run(ctx, spec, host); err != nil {
			t.Error(err)
		}
	})
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(func() {
		end()
		_ = s.Release(context.Background(), spec.Held, 0)
	})
	<-host.ready
	return spec.Held, end
}

// inside runs a process until it ends.
func inside(
	t *testing.T, s *executor.Sandbox, held engine.ID, spec *engine.ProcessSpec,
) (stdout, stderr string, end engine.ProcessEnd) {
	t.Helper()
	p, err := s.Start(t.Context(), held, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var reading sync.WaitGroup
	read := func(to *string, from io.Reader) {
		reading.Go(func() {
			b, err := io.ReadAll(from)
			if err != nil {
				t.Error(err)
			}
			*to = string(b)
		})
	}
	read(&stdout, p.Stdout())
	if spec.Terminal == nil {
		p.Stdin().Close()
		read(&stderr, p.Stderr())
	}
	if end, err = p.Wait(); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	return stdout, stderr, end
}

func shell(script string) *engine.ProcessSpec {
	return &engine.ProcessSpec{Argv: []string{"bash", "-c", script}}
}

func TestEnter(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	out, errors, end := inside(t, s, held, &engine.ProcessSpec{
		Argv: []string{"bash", "-c", `echo $0 $1 "$X"; pwd; echo oops >&2; cat; exit 3`, "name", "a b"},
		Env:  map[string]string{"X": "ü"}, Dir: "/tmp",
	})
	if out != "name a b ü\n/tmp\n" || errors != "oops\n" || end.ExitCode != 3 || end.Signal != "" {
		t.Errorf("%q %q %+v", out, errors, end)
	}
	if _, _, end := inside(t, s, held, shell("kill -9 $$")); end.Signal != "SIGKILL" || end.ExitCode != 137 {
		t.Errorf("%+v", end)
	}
	if out, _, _ := inside(t, s, held, shell("echo hi > f; id -u; sleep 0 & wait")); out == "0\n" {
		t.Error("it is root")
	}
	if out, _, _ := inside(t, s, held, shell("cat f; ls /proc | grep -c '^[0-9]'")); !strings.HasPrefix(out, "hi\n") {
		t.Errorf("another process does not see its file: %q", out)
	}
}

// The executor has a short slice; the processes that it starts have the default one.
func TestEnteredSlice(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	sleeping := 0
	if !sandboxtest.Await(func() bool { // until both are executed
		sleeping = 0
		for _, pid := range executor.Descendants(executors(t)[0]) {
			attr, err := unix.SchedGetAttr(pid, 0)
			if err != nil || !strings.HasPrefix(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "comm"), "sleep") {
				continue
			}
			if sleeping++; attr.Runtime != usual.Runtime {
				t.Errorf("a process has slices of %d ns, usual are %d", attr.Runtime, usual.Runtime)
			}
		}
		return sleeping == 2
	}) {
		t.Fatalf("%d processes were seen, want 2", sleeping)
	}
}

// Invalid requests are rejected, and no process is started.
func TestEnterRefused(t *testing.T) {
	s := start(t)
	held, end := standingProgram(t, s, nil)
	for name, tt := range map[string]struct {
		held engine.ID
		spec engine.ProcessSpec
		want engine.Kind
	}{
		"no command":     {held, engine.ProcessSpec{}, engine.ErrInvalid},
		"unknown":        {held, engine.ProcessSpec{Argv: []string{"no-such-command"}}, engine.ErrInvalid},
		"not executable": {held, engine.ProcessSpec{Argv: []string{"/etc/passwd"}}, engine.ErrInvalid},
		"folder":         {held, engine.ProcessSpec{Argv: []string{"true"}, Dir: "/nowhere"}, engine.ErrInvalid},
		"relative":       {held, engine.ProcessSpec{Argv: []string{"true"}, Dir: "nowhere"}, engine.ErrInvalid},
		"NUL":            {held, engine.ProcessSpec{Argv: []string{"true", "a\x00b"}}, engine.ErrInvalid},
		"environment": {held, engine.ProcessSpec{Argv: []string{"true"}, Env: map[string]string{"": "x"}},
			engine.ErrInvalid},
		"long":    {held, engine.ProcessSpec{Argv: []string{"true", strings.Repeat("x", 1<<20)}}, engine.ErrInvalid},
		"another": {engine.NewID(), engine.ProcessSpec{Argv: []string{"true"}}, engine.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := s.Start(t.Context(), tt.held, &tt.spec)
			if err == nil {
				p.Close()
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	end()
	if _, err := s.Start(t.Context(), held, shell("true")); !errors.Is(err, engine.ErrConflict) ||
		!errors.Is(err, engine.ErrNoProgram) {
		t.Errorf("without a program: %v", err)
	}
}

// When the program ends, all processes started beside it are killed, however they try to stay.
func TestEnteredEndWithSandbox(t *testing.T) {
	s := start(t)
	held, end := standingProgram(t, s, nil)
	p, err := s.Start(t.Context(), held,
		shell(`trap '' HUP TERM INT; (setsid sh -c 'trap "" HUP TERM; sleep 1000' &) ; echo up; sleep 1000; sleep 1000`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Stdout().Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	end()
	if got, err := p.Wait(); err != nil || got.Signal != "SIGKILL" {
		t.Errorf("%+v %v", got, err)
	}
	if b, err := io.ReadAll(p.Stdout()); err != nil || len(b) > 0 { // no process has it open
		t.Errorf("%q %v", b, err)
	}
}

func TestEnteredSignals(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	p, err := s.Start(t.Context(), held, shell(`trap 'echo got; exit 7' USR1; sleep 1000 & echo up; wait`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := make([]byte, 10)
	if _, err := p.Stdout().Read(b); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if n, _ := p.Stdout().Read(b); string(b[:n]) != "got\n" {
		t.Errorf("%q", b[:n])
	}
	if end, err := p.Wait(); err != nil || end.ExitCode != 7 {
		t.Errorf("%+v %v", end, err)
	}
}

// Closing a process kills it and its group.
func TestEnteredClosed(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	before := len(executor.Descendants(executors(t)[0]))
	p, err := s.Start(t.Context(), held, shell(`trap '' HUP TERM PIPE; sleep 1000 & wait; sleep 1000`))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	awaitAlone(t, s, held, before)
}

// awaitAlone waits until the executor has no more descendants than before.
func awaitAlone(t *testing.T, s *executor.Sandbox, held engine.ID, before int) {
	t.Helper()
	var left []int
	for range 200 {
		if left = executor.Descendants(executors(t)[0]); len(left) <= before {
			return
		}
		inside(t, s, held, shell("true"))
	}
	t.Errorf("left: %v", left)
}

func TestEnterTerminal(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	spec := shell(`test -t 0 && test -t 1 && test -t 2 && stty size; echo > /dev/stderr; tty; stty size < /dev/tty; stty size < $(tty); echo /dev/pts/*; head -c1 /dev/pts/ptmx; chmod 666 /dev/pts/ptmx; read -r line; echo "read $line"; trap 'stty size; exit 5' WINCH; echo set; sleep 1000 & wait`)
	spec.Terminal = &engine.TerminalSize{Columns: 81, Rows: 25}
	p, err := s.Start(t.Context(), held, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var shown strings.Builder
	until := func(text string) {
		t.Helper()
		b := make([]byte, 1000)
		for !strings.Contains(shown.String(), text) {
			n, err := p.Stdout().Read(b)
			shown.Write(b[:n])
			if err != nil {
				t.Fatalf("%v after %q", err, shown.String())
			}
		}
	}
	until("25 81")
	until("/dev/pts/0\r\n25 81\r\n25 81\r\n/dev/pts/0 /dev/pts/ptmx\r\n")
	until("cannot open '/dev/pts/ptmx' for reading: Permission denied")
	until("changing permissions of '/dev/pts/ptmx'")
	fmt.Fprint(p.Stdin(), "word\r")
	until("read word")
	until("set")
	if err := p.Resize(engine.TerminalSize{Columns: 100, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	until("50 100")
	if end, err := p.Wait(); err != nil || end.ExitCode != 5 {
		t.Errorf("%+v %v after %q", end, err, shown.String())
	}
	if _, err := io.ReadAll(p.Stdout()); err != nil {
		t.Error(err)
	}
	interrupted := shell("sleep 1000")
	interrupted.Terminal = spec.Terminal
	p, err = s.Start(t.Context(), held, interrupted)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fmt.Fprint(p.Stdin(), "\x03")
	if end, err := p.Wait(); err != nil || end.Signal != "SIGINT" {
		t.Errorf("^C: %+v %v", end, err)
	}
}

// Processes start and end in turn, and none is left in the executor.
func TestEnterManyTimes(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	executorPID := executors(t)[0]
	var files int
	for i := range 300 {
		p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"/bin/true"}})
		if err != nil {
			t.Fatal(err)
		}
		if end, err := p.Wait(); err != nil || end.ExitCode != 0 {
			t.Fatalf("%+v %v", end, err)
		}
		p.Close()
		if i == 20 {
			files = openFilesOf(t, executorPID)
		}
	}
	for range 100 {
		if openFilesOf(t, executorPID) <= files {
			break
		}
		inside(t, s, held, shell("true"))
	}
	if now := openFilesOf(t, executorPID); now > files+2 {
		t.Errorf("the executor has %d files open, had %d", now, files)
	}
}

func openFilesOf(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Dial reaches a port inside, by its own address family, and no other port.
func TestDial(t *testing.T) {
	s := start(t)
	held, end := standingProgram(t, s, nil)
	for _, family := range []string{"AF_INET", "AF_INET6"} {
		p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"python3", "-c", `import socket, sys
l = socket.socket(socket.` + family + `); l.bind(("localhost" if l.family == socket.AF_INET else "::1", 0)); l.listen()
print(l.getsockname()[1], flush=True)
c = l.accept()[0]; c.sendall(c.recv(100).upper())`}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var port int
		if _, err := fmt.Fscan(p.Stdout(), &port); err != nil {
			t.Fatal(err)
		}
		conn, err := s.Dial(t.Context(), held, port)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "hello")
		if b, err := io.ReadAll(conn); string(b) != "HELLO" || err != nil {
			t.Errorf("%s: %q %v", family, b, err)
		}
		conn.Close()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for port, want := range map[int]engine.Kind{
		listener.Addr().(*net.TCPAddr).Port: engine.ErrConflict, // the host's port, which has no listener inside
		0:                                   engine.ErrInvalid, -1: engine.ErrInvalid, 65536: engine.ErrInvalid,
	} {
		if _, err := s.Dial(t.Context(), held, port); !errors.Is(err, want) {
			t.Errorf("port %d: %v, want %v", port, err, want)
		}
	}
	if _, err := s.Dial(t.Context(), engine.NewID(), 80); !errors.Is(err, engine.ErrNotFound) {
		t.Error(err)
	}
	end()
	if _, err := s.Dial(t.Context(), held, 80); !errors.Is(err, engine.ErrConflict) {
		t.Error(err)
	}
}

// A listener that accepts no connections does not block a caller for long.
func TestDialFullBacklog(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"python3", "-c", `import socket, time
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(0); print(l.getsockname()[1], flush=True); time.sleep(1000)`}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var port int
	if _, err := fmt.Fscan(p.Stdout(), &port); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := s.Dial(t.Context(), held, port)
		if err != nil {
			if !errors.Is(err, engine.ErrConflict) {
				t.Error(err)
			}
			return
		}
		defer conn.Close()
	}
	t.Error("ten connections were made that nobody accepted")
}

// Processes that enter count towards the session's limit.
func TestEnterLimit(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, func(l *engine.Limits) { l.Processes = 5 })
	for n := 1; ; n++ {
		p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"sleep", "1000"}})
		if n == 5 { // the program is the first
			if !errors.Is(err, engine.ErrBusy) {
				t.Errorf("one too many: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
	}
}

// A signal sent as a process ends does not lose its exit code.
func TestSignalAsItEnds(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	for round := range 300 {
		p, err := s.Start(t.Context(), held, shell("exit 7"))
		if err != nil {
			t.Fatal(err)
		}
		for range round { // some are still unread when it ends
			if p.Signal(syscall.SIGWINCH) != nil { // ignored by default
				break
			}
		}
		if end, err := p.Wait(); err != nil || end.ExitCode != 7 {
			t.Fatalf("after %d signals: %+v %v", round, end, err)
		}
		p.Close()
	}
}
