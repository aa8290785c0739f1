package librechat

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/toolcall"
	"github.com/airlock-run/airlock/internal/wire"
)

// driven is the outcome of a program that a driver ran without a sandbox.
type driven struct {
	stdout, stderr string
	code           int
	hung           bool
}

// drive runs a program with the tool f, on a channel with the given program's ends. A
// program that runs for a minute hangs.
func drive(t *testing.T, driver, source string, ends ...*os.File) driven {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "main.py")
	if err := os.WriteFile(path, []byte(driverCode(driver, source)), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, "python3", path)
	var stdout, stderr strings.Builder
	command.Stdin = strings.NewReader(string(wire.Encode(program{
		Source: source, Tools: []tool{{Name: "f", Function: "f", Parameters: json.RawMessage(`{"properties":{"a":{}}}`)}},
		Args: []string{}})))
	command.Stdout, command.Stderr, command.ExtraFiles = &stdout, &stderr, ends
	command.Env = append(os.Environ(), "AIRLOCK_CALLS_FDS=3 4")
	command.WaitDelay = time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = command.Run()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // a sandbox would kill the remaining processes
	for _, end := range ends {
		end.Close()
	}
	return driven{stdout.String(), stderr.String(), command.ProcessState.ExitCode(), ctx.Err() != nil}
}

// pipes returns a channel: the program's ends, and the host's ends.
func pipes(t *testing.T) (theirs []*os.File, calls, answers *os.File) {
	t.Helper()
	answersRead, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	calls, callsWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { calls.Close(); answers.Close() })
	return []*os.File{answersRead, callsWrite}, calls, answers
}

// echo answers each call with its input.
func echo(calls io.Reader, answers io.Writer) {
	for {
		var size [4]byte
		if _, err := io.ReadFull(calls, size[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(calls, body); err != nil {
			return
		}
		var message struct {
			ID    int
			Input struct {
				Calls []struct{ Input json.RawMessage }
			}
		}
		if json.Unmarshal(body, &message) != nil {
			return
		}
		results := make([]toolcall.Answer, len(message.Input.Calls))
		for i, c := range message.Input.Calls {
			results[i].Result = c.Input
		}
		reply := wire.Encode(map[string]any{"id": message.ID, "result": results})
		if _, err := answers.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// If the channel fails, the program gets an error and continues. It does not wait for an
// answer that cannot come.
func TestDriversWithoutChannel(t *testing.T) {
	for _, test := range []struct{ name, driver, source, stdout string }{
		{"python", pythonDriver, "try:\n    await f()\nexcept ToolExecutionError as e:\n    print(e)\nprint('on')",
			"Execution failed or timed out\non\n"},
		{"python, together", pythonDriver, "print(await asyncio.gather(f(), f(), return_exceptions=True))",
			"[ToolExecutionError('Execution failed or timed out'), ToolExecutionError('Execution failed or timed out')]\n"},
		{"bash", shellDriver, "echo begun; x=$(f '{}'); echo on", "begun\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			theirs, calls, _ := pipes(t)
			calls.Close()
			if got := drive(t, test.driver, test.source, theirs...); got.hung || got.stdout != test.stdout {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("other files", func(t *testing.T) {
		t.Parallel()
		other := func() *os.File {
			f, err := os.Create(filepath.Join(t.TempDir(), "font"))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		got := drive(t, pythonDriver, "await f()", other(), other())
		if got.hung || got.code != 1 || !strings.Contains(got.stderr,
			"The channel for tool calls is not where it should be") {
			t.Errorf("%+v", got)
		}
	})
}

// A call is sent however the program's event loops run.
func TestDriverSendsCalls(t *testing.T) {
	for _, test := range []struct{ name, source, stdout string }{
		{"a loop that never waits",
			"task = asyncio.ensure_future(f())\nwhile not task.done():\n    await asyncio.sleep(0)\nprint(await task)", "{}\n"},
		{"loops in threads", `import sys, threading
sys.setswitchinterval(1e-6)
async def many():
    for _ in range(50):
        await asyncio.gather(f(), f())
threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print("on")`, "on\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			theirs, calls, answers := pipes(t)
			go echo(calls, answers)
			if got := drive(t, pythonDriver, test.source, theirs...); got.hung || got.stdout != test.stdout {
				t.Errorf("%+v", got)
			}
		})
	}
}

// hold answers calls like the host: it reads at most as many as it buffers, and answers
// when it has a whole batch.
func hold(calls io.Reader, answers io.Writer) {
	var held [][]byte
	for range 16 {
		var size [4]byte
		if _, err := io.ReadFull(calls, size[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(calls, body); err != nil {
			return
		}
		var message struct {
			ID    int
			Input struct {
				Calls []json.RawMessage
				More  bool
			}
		}
		if json.Unmarshal(body, &message) != nil {
			return
		}
		reply := wire.Encode(map[string]any{"id": message.ID, "result": make([]toolcall.Answer, len(message.Input.Calls))})
		held = append(held, append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...))
		if message.Input.More {
			continue
		}
		for _, reply := range held {
			if _, err := answers.Write(reply); err != nil {
				return
			}
		}
		held = nil
	}
}

// The number of concurrent calls is bounded: more messages than the host buffers would
// deadlock.
func TestDriverBoundsCalls(t *testing.T) {
	for calls, want := range map[int]string{
		16: "16\n", 17: "The inputs of the tools that are called at once have more than 64 MiB\n"} {
		t.Run(strconv.Itoa(calls), func(t *testing.T) {
			t.Parallel()
			theirs, fromProgram, answers := pipes(t)
			go hold(fromProgram, answers)
			source := fmt.Sprintf(`big = "x" * 4_000_000
try:
    print(len(await asyncio.gather(*[f(a=big) for _ in range(%d)])))
except ToolExecutionError as e:
    print(e)`, calls)
			if got := drive(t, pythonDriver, source, theirs...); got.hung || got.stdout != want {
				t.Errorf("%+v", got)
			}
		})
	}
}
