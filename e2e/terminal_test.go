package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a command on it.
type terminal struct {
	t      *testing.T
	keys   *os.File
	screen *lines
	read   chan struct{} // closed when the screen is complete
	cmd    *exec.Cmd
}

// onTerminal starts a command with a terminal as its input, output and
// controlling terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		skip(t, "this needs a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	term := &terminal{t: t, keys: keys, screen: &lines{}, read: make(chan struct{}), cmd: cmd}
	go func() {
		defer close(term.read)
		_, _ = io.Copy(term.screen, keys) // ends with an error when the command does
	}()
	return term
}

func (term *terminal) until(text string) {
	term.t.Helper()
	eventually(term.t, waitTime, fmt.Sprintf("%q on the screen", text), func() bool {
		return strings.Contains(term.screen.String(), text)
	})
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// end waits for the command and returns its exit code and the whole screen.
func (term *terminal) end() (int, string) {
	term.t.Helper()
	_ = term.cmd.Wait() // ProcessState says how
	<-term.read
	return term.cmd.ProcessState.ExitCode(), term.screen.String()
}

// program writes a Python program that somebody can read.
func program(t *testing.T, who person, code string) string {
	t.Helper()
	name := filepath.Join(folder(t, who.credential), "program.py")
	if err := os.WriteFile(name, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestQuestions(t *testing.T) {
	const code = `open("made.txt", "w").write("new")`
	tests := []struct {
		name, answer string
		want         map[string]string
	}{
		{"no", "n\n", map[string]string{"made.txt": "old"}},
		{"just enter", "\n", map[string]string{"made.txt": "old"}},
		{"yes", "y\n", map[string]string{"made.txt": "new"}},
		{"rename", "rename\n", map[string]string{"made.txt": "old", "made-1.txt": "new"}},
	}
	t.Parallel()
	who := anyPerson(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := folder(t, who.credential)
			if err := os.WriteFile(filepath.Join(out, "made.txt"), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			term := onTerminal(t, who.command(t, []string{"AIRLOCK_DATA=" + dataFolder(t, who)}, "run", "-o", out,
				program(t, who, code)))
			term.until("[y/N/rename]")
			term.press(test.answer)
			if code, screen := term.end(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, screen)
			}
			for name, want := range test.want {
				if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
			if entries, _ := os.ReadDir(out); len(entries) != len(test.want) {
				t.Errorf("got %v", entries)
			}
		})
	}
}

// Without -o a terminal is asked, and yes makes a folder of the run's own.
func TestOfferedFolder(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	for _, answer := range []string{"y\n", "\n"} {
		here := folder(t, who.credential)
		cmd := who.command(t, []string{"AIRLOCK_DATA=" + dataFolder(t, who)}, "run",
			program(t, who, `open("made.txt", "w").write("new")`))
		cmd.Dir = here
		term := onTerminal(t, cmd)
		term.until("Save made.txt into airlock-")
		term.press(answer)
		code, screen := term.end()
		saved, _ := filepath.Glob(filepath.Join(here, "airlock-*", "made.txt"))
		if want := strings.Count(answer, "y"); code != 0 || len(saved) != want {
			t.Errorf("%q: exit code %d, saved %v:\n%s", answer, code, saved, screen)
		}
	}
}

// What a program prints cannot drive the terminal.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	term := onTerminal(t, who.command(t, []string{"AIRLOCK_DATA=" + dataFolder(t, who)}, "run",
		program(t, who, `import sys; print("\x1b]0;title\x07 shown"); print("\x1b[2J\x9b2J also", file=sys.stderr)`)))
	code, screen := term.end()
	if code != 0 || strings.ContainsAny(screen, "\x1b\x07\u009b") || !strings.Contains(screen, "shown") ||
		!strings.Contains(screen, "also") {
		t.Errorf("exit code %d: %q", code, screen)
	}
}

func TestControlC(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		word := fmt.Sprintf("control-c-%s-%d", who.name, os.Getpid())
		temporary := folder(t, who.credential)
		cmd := who.command(t, []string{"AIRLOCK_DATA=" + dataFolder(t, who), "TMPDIR=" + temporary}, "run",
			program(t, who, "import time\nprint('up')\ntime.sleep(120)"), "--", word)
		term := onTerminal(t, cmd)
		term.until("up")
		began := time.Now()
		term.press("\x03")
		code, screen := term.end()
		if code != 130 || !strings.Contains(screen, "interrupted") || time.Since(began) > waitTime {
			t.Errorf("exit code %d after %v:\n%s", code, time.Since(began), screen)
		}
		if left := withWord(word); len(left) > 0 {
			// The command's own line holds the word too, but it has ended.
			t.Errorf("left: %v", left)
		}
		if entries, _ := os.ReadDir(temporary); len(entries) > 0 {
			t.Errorf("left behind: %v", entries)
		}
	})
}

// What Airlock says about a program that has not ended its line begins a line of its own on a terminal, whichever
// stream the program used.
func TestLinesOfItsOwn(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	env := []string{"AIRLOCK_DATA=" + dataFolder(t, who)}
	for code, want := range map[string]string{
		"print('left', end=''); raise SystemExit(3)":        "left\r\nairlock: failed with exit code 3",
		"import sys; sys.stderr.write('x'); sys.exit(3)":    "x\r\nairlock: failed with exit code 3",
		"print('left', end=''); open('a.txt', 'w').close()": "left\r\nSave a.txt into",
		"print('left', end='')":                             "left",
	} {
		term := onTerminal(t, who.command(t, env, "run", program(t, who, code)))
		term.press("\n")
		if _, screen := term.end(); !strings.Contains(screen, want) || want == "left" && !strings.HasSuffix(screen, want) {
			t.Errorf("%s: %q, want %q", code, screen, want)
		}
	}
	term := onTerminal(t, who.command(t, env, "run", program(t, who, "print('up', flush=True)\nwhile True: pass")))
	term.until("up")
	term.press("\x03")
	if code, screen := term.end(); code != 130 || !strings.Contains(screen, "^C\r\nerror: interrupted") {
		t.Errorf("exit code %d, %q", code, screen)
	}
	term = onTerminal(t, who.command(t, env, "shell", "--", "printf", "left"))
	if code, screen := term.end(); code != 0 || !strings.HasSuffix(screen, "left") {
		t.Errorf("exit code %d, %q", code, screen)
	}
}
