package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/command"
)

// All that a program prints is passed on, whatever its bytes are, or as much as --max-output says.
func TestRunAllOutput(t *testing.T) {
	needSandbox(t)
	long := strings.Repeat("0123456789abcde\n", 5<<16)
	for _, row := range []struct {
		name, code string
		args       []string
		want       string // beginning
		size, exit int
	}{
		{"more than a run keeps", "yes 0123456789abcde 2>&- | head -c 5242880", nil, long, 5 << 20, 0},
		{"no text", `printf 'a\377\376b\303'; sleep 0.1; printf '\251'`, nil, "a\xff\xfeb\xc3\xa9", 6, 0},
		{"bounded", "yes 0123456789abcde 2>&- | head -c 5242880", []string{"--max-output", "100KB"}, long[:40_000], 100_000,
			command.ExitLost},
		{"within bounds", "echo 1", []string{"--max-output", "100KB"}, "1\n", 2, 0},
		{"no size", "echo 1", []string{"--max-output", "much"}, "", 0, command.ExitUsage},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			exit, stderr := execute(t.Context(), t, row.code, &out, append([]string{"run", "-l", "bash"}, row.args...)...)
			if exit != row.exit || !strings.HasPrefix(out.String(), row.want) || out.Len() > row.size ||
				out.Len() < row.size-200 {
				t.Errorf("exit code %d, %d bytes, want %d, %d; %.300s", exit, out.Len(), row.exit, row.size, stderr)
			}
		})
	}
}

// slow is a reader that has to be let go on.
type slow struct {
	bytes.Buffer
	gate chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.gate
	return s.Buffer.Write(p)
}

// A slow reader gets all of it, in order, while a bounded part waits.
func TestOutputQueue(t *testing.T) {
	reader := &slow{gate: make(chan struct{})}
	queue := newOutputQueue(func() {})
	to := queue.to(reader)
	full := make(chan struct{})
	go func() {
		defer close(full)
		for n := range 64 {
			_, _ = to.Write(bytes.Repeat([]byte{byte(n)}, 1<<17))
		}
	}()
	for range 4 {
		reader.gate <- struct{}{}
	}
	queue.mu.Lock()
	if queue.size > queuedOutput+1<<17 {
		t.Errorf("%d bytes wait", queue.size)
	}
	queue.mu.Unlock()
	close(reader.gate)
	<-full
	if err := queue.close(t.Context()); err != nil || reader.Len() != 8<<20 {
		t.Errorf("%d bytes, %v", reader.Len(), err)
	}
	for n := range 64 {
		if got := reader.Bytes()[n<<17]; int(got) != n {
			t.Fatalf("piece %d has %d", n, got)
		}
	}
}

// Once nothing can be written, or the person has left, nobody waits.
func TestOutputQueueFails(t *testing.T) {
	queue := newOutputQueue(func() {})
	to := queue.to(broken{})
	for {
		if _, err := to.Write([]byte("x")); errors.Is(err, io.ErrClosedPipe) {
			break
		}
	}
	if err := queue.close(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	queue = newOutputQueue(func() {})
	reader := &slow{gate: make(chan struct{})}
	_, _ = queue.to(reader).Write([]byte("x"))
	left, leave := context.WithCancel(t.Context())
	leave()
	queue.fail(left.Err())
	if err := queue.close(left); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(reader.gate)
	<-queue.done
}
