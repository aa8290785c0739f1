package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// where runs a test of a command with a live session twice: with a service that
// holds the data directory, and with one of the command's own.
func where(
	t *testing.T, who person, folderFor func(*testing.T, person) string, test func(t *testing.T, env []string),
) {
	t.Run("service", func(t *testing.T) {
		data := folderFor(t, who)
		serve(t, who, data)
		test(t, []string{"AIRLOCK_DATA=" + data})
	})
	t.Run("alone", func(t *testing.T) {
		test(t, []string{"AIRLOCK_DATA=" + folderFor(t, who), "TMPDIR=" + folder(t, who.credential)})
	})
}

// ready waits for the prompt of an input of a REPL.
func (term *terminal) ready(prompt string) {
	term.t.Helper()
	eventually(term.t, waitTime, "the prompt "+prompt, func() bool {
		return strings.Contains(term.screen.String(), prompt) && !term.lineMode()
	})
}

// A REPL keeps variables, completes names, takes code of several lines, saves
// pictures, and is interrupted.
func TestREPLTerminal(t *testing.T) {
	t.Parallel()
	needPackages(t)
	who := root(t)
	where(t, who, dataWithPackages, func(t *testing.T, env []string) {
		out, in := folder(t, who.credential), folder(t, who.credential)
		if err := os.WriteFile(filepath.Join(in, "given.txt"), []byte("given"), 0o644); err != nil {
			t.Fatal(err)
		}
		term := onTerminal(t, who.command(t, env, "repl", "-f", filepath.Join(in, "given.txt"), "-o", out))
		term.ready("In [1]: ")
		term.press("long_name = open('given.txt').read()\r")
		term.ready("In [2]: ")
		term.press("long_na\t.upper()\r")
		term.until("Out[2]: 'GIVEN'")
		term.ready("In [3]: ")
		term.press("for i in range(2):\r")
		term.until("   ...: ")
		term.press("print('row', i)\r\r")
		term.until("row 1")
		term.ready("In [4]: ")
		term.press("import itertools; print('be' + 'gun'); all(i >= 0 for i in itertools.count())\r")
		term.until("begun")
		term.press("\x03")
		term.until("KeyboardInterrupt")
		term.ready("In [5]: ")
		term.press("import matplotlib.pyplot as plt; plt.plot([1, 2]); open('made.txt', 'w').close()\r")
		term.until("saved " + filepath.Join(out, "figure-1.png"))
		term.until("saved " + filepath.Join(out, "made.txt"))
		term.ready("In [6]: ")
		term.press("name = input('Who? ')\r")
		term.until("Who? ")
		term.press("me\n")
		term.ready("In [7]: ")
		term.press(":vars\r")
		term.until("'me'")
		term.ready("In [7]: ")
		term.press("\x04")
		if code, screen := term.end(); code != 0 || !term.lineMode() {
			t.Errorf("exit code %d, in line mode %v:\n%s", code, term.lineMode(), screen)
		}
		if picture, err := os.ReadFile(filepath.Join(out, "figure-1.png")); err != nil ||
			!strings.HasPrefix(string(picture), "\x89PNG") {
			t.Errorf("%.20q %v", picture, err)
		}
	})
}

// A shell has the size of this terminal, gets every key, and ends with the exit code
// of what ran.
func TestShellTerminal(t *testing.T) {
	t.Parallel()
	who := root(t)
	where(t, who, dataFolder, func(t *testing.T, env []string) {
		term := onTerminal(t, who.command(t, env, "shell"))
		if err := unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 91, Row: 23}); err != nil {
			t.Fatal(err)
		}
		term.until("$ ")
		eventually(t, waitTime, "raw mode", func() bool { return !term.lineMode() })
		// What says it is up has the terminal: what a shell prints before its next command
		// does not, and a key pressed in between may interrupt nothing.
		term.press("sh -c 'echo up-$((1 + 1)); exec sleep 1000'\r")
		term.until("up-2")
		term.press("\x03")
		term.press("stty size; echo code-$?\r")
		term.until("code-0")
		if err := unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 77, Row: 19}); err != nil {
			t.Fatal(err)
		}
		term.press("until stty size | grep -q '19 77'; do :; done; echo resized-$?\r")
		term.until("resized-0")
		term.press("exit 7\r")
		if code, screen := term.end(); code != 7 || !term.lineMode() || !strings.Contains(screen, "23 91") {
			t.Errorf("exit code %d, in line mode %v:\n%s", code, term.lineMode(), screen)
		}
	})
}

// Without a terminal a shell reads commands, and a command its input.
func TestShellPipe(t *testing.T) {
	t.Parallel()
	who := root(t)
	where(t, who, dataFolder, func(t *testing.T, env []string) {
		for _, c := range []struct {
			args  []string
			stdin string
			want  ended
		}{
			{[]string{"shell"}, "echo out; echo err >&2; exit 3", ended{3, "out\n", "err\n"}},
			{[]string{"shell", "--", "cat"}, "text", ended{0, "text", ""}},
			{[]string{"shell", "--", "bash", "-c", "kill -9 $$"}, "", ended{137, "", ""}},
		} {
			cmd := who.command(t, env, c.args...)
			var stdout, stderr strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &stdout, &stderr
			_ = cmd.Run() // ProcessState says how
			if got := (ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}); got != c.want {
				t.Errorf("%v: %+v, want %+v", c.args, got, c.want)
			}
		}
	})
}

// A terminal that shows pictures gets them: one whose variables tell that it does, and one that says it.
func TestTerminalPictures(t *testing.T) {
	t.Parallel()
	needPackages(t)
	who := root(t)
	env := []string{"AIRLOCK_DATA=" + dataWithPackages(t, who), "TMPDIR=" + folder(t, who.credential)}
	const plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('a.png')"
	run := func(variable string) *terminal {
		cmd := who.command(t, append(env, variable), "run", "-o", folder(t, who.credential), program(t, who, plot))
		return onTerminal(t, cmd)
	}
	term := run("TERM=xterm-kitty")
	code, screen := term.end()
	if code != 0 || !strings.Contains(screen, "\x1b_G") || !strings.Contains(screen, "saved ") {
		t.Errorf("exit code %d: %.300q", code, screen)
	}
	term = run("TERM=xterm")
	term.until("\x1b[c")
	term.press("\x1b[?62;4;22c")
	if code, screen := term.end(); code != 0 || !strings.Contains(screen, "\x1bP") || !strings.Contains(screen, "saved ") {
		t.Errorf("exit code %d: %.300q", code, screen)
	}
	term = run("AIRLOCK_PICTURES=off")
	if code, screen := term.end(); code != 0 || strings.Contains(screen, "\x1b") || !strings.Contains(screen, "saved ") {
		t.Errorf("exit code %d: %.300q", code, screen)
	}
}
