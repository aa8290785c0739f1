package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// makesOne is a turn whose code writes one file, for a provider that lists or
// names it.
func makesOne() providertest.Turn {
	return providertest.Turn{Steps: []providertest.Step{{Code: "write()", Stdout: "written\n",
		Files: []providertest.Made{{Name: "made.txt", Data: []byte("made\n")}}}}, Text: "Done."}
}

// askEnv is the environment of a command that asks.
func askEnv(t *testing.T, who person, access modelAccess) []string {
	return append([]string{"AIRLOCK_DATA=" + dataFolder(t, who), "AIRLOCK_CONFIG=none", "AIRLOCK_PROVIDER=" + access.name,
		"TERM=xterm"}, access.env...)
}

func inputFile(t *testing.T, who person) string {
	t.Helper()
	name := filepath.Join(folder(t, who.credential), "in.csv")
	if err := os.WriteFile(name, []byte("a,b\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// Ctrl-C at every stage: the command ends with its exit code, and what it made
// at the provider is deleted.
func TestAskInterrupted(t *testing.T) {
	t.Parallel()
	for name, open := range accesses() {
		for _, op := range []providertest.Op{providertest.OpUpload, providertest.OpSessionCreate, providertest.OpRun,
			providertest.OpDownload} {
			inReply := name == provider.Gemini || name == provider.XAI // files come in it
			if op == providertest.OpSessionCreate && name != provider.OpenAI || op == providertest.OpDownload && inReply ||
				op != providertest.OpRun && name == provider.Local {
				continue // it has no such call
			}
			t.Run(name+"/"+string(op), func(t *testing.T) {
				t.Parallel()
				who, access := asks(), open(t)
				access.server.Rescript(makesOne())
				access.server.Inject(providertest.Fault{On: op, Kind: providertest.FaultStall})
				cmd := who.command(t, askEnv(t, who, access), "ask", "--yes", "-f", inputFile(t, who), "-o",
					folder(t, who.credential), "hello")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, waitTime, "the call that stalls", func() bool {
					return access.server.Count(op) > 0 && len(access.server.Pending()) == 0
				})
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // ProcessState says how
				if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "error: interrupted") {
					t.Errorf("exit code %d: %s", code, stderr.String())
				}
				left := access.server.Objects()
				if name == provider.Anthropic && op == providertest.OpRun && strings.Contains(stderr.String(), "may be left at") {
					// Its code goes on, and what it makes then nobody is told of.
					left = slices.DeleteFunc(left, func(o string) bool { return strings.HasSuffix(o, " made.txt") })
				}
				if len(left) > 0 {
					t.Errorf("left at the provider: %v\n%s", left, stderr.String())
				}
			})
		}
	}
}

// Ctrl-C ends a chat at its prompt, and in the middle of a turn the turn: the chat
// goes on. What was made is deleted in the end.
func TestChatInterrupted(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"prompt", "turn"} {
		t.Run(when, func(t *testing.T) {
			who, access := asks(), accesses()[provider.OpenAI](t)
			access.server.Rescript(makesOne())
			if when == "turn" {
				access.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStall})
			}
			cmd := who.command(t, askEnv(t, who, access), "chat", "--yes", "-f", inputFile(t, who), "-o",
				folder(t, who.credential))
			term := onTerminal(t, cmd)
			term.until("> ")
			term.press("hello\n")
			if when == "turn" {
				eventually(t, waitTime, "the call that stalls", func() bool { return len(access.server.Pending()) == 0 })
			} else {
				term.until("made.txt\r\n> ")
			}
			term.press("\x03")
			want, wantCode := "error: interrupted", 1
			if when == "turn" {
				want, wantCode = "error: the turn was interrupted", 0
				term.until("Ctrl-C at its prompt ends it\r\n> ")
				access.server.Rescript(makesOne())
				term.press("again\n")
				term.until("made.txt\r\n> ")
				term.press("/exit\n")
			}
			code, screen := term.end()
			if code != wantCode || !strings.Contains(screen, want) || !strings.Contains(screen, "--resume") {
				t.Errorf("exit code %d: %s", code, screen)
			}
			if left := access.server.Objects(); len(left) > 0 {
				t.Errorf("left at the provider: %v\n%s", left, screen)
			}
		})
	}
}

// Lines for airlock do not go to the model.
func TestChatCommands(t *testing.T) {
	t.Parallel()
	who, access := asks(), accesses()[provider.OpenAI](t)
	access.server.Rescript(makesOne())
	term := onTerminal(t, who.command(t, askEnv(t, who, access), "chat", "--yes", "-o", folder(t, who.credential)))
	term.until("> ")
	term.press("/help\n")
	term.until("All others are for the model.")
	term.press("/nonsense\n")
	term.until("there is no /nonsense")
	if n := access.server.Count(providertest.OpRun); n != 0 {
		t.Errorf("%d lines for airlock went to the model", n)
	}
	term.press("hello\n")
	term.until("made.txt\r\n> ")
	term.press("\x04")
	code, screen := term.end()
	if n := access.server.Count(providertest.OpRun); code != 0 || n != 1 {
		t.Errorf("exit code %d, %d calls: %s", code, n, screen)
	}
}

// Ctrl-C while a question waits.
func TestAskInterruptedAtQuestions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ until, answer, last string }{
		{"[y/N]", "", "nothing was sent yet"},
		{"[y/N]", "y\n", "Save 1 file into"},
	} {
		t.Run(c.last, func(t *testing.T) {
			who, access := asks(), accesses()[provider.OpenAI](t)
			access.server.Rescript(makesOne())
			cmd := who.command(t, askEnv(t, who, access), "ask", "-f", inputFile(t, who), "hello")
			cmd.Dir = folder(t, who.credential)
			term := onTerminal(t, cmd)
			term.until(c.until)
			if c.answer != "" {
				term.press(c.answer)
				term.until(c.last)
			}
			term.press("\x03")
			code, screen := term.end()
			if code != 1 || !strings.Contains(screen, "interrupted") {
				t.Errorf("exit code %d: %s", code, screen)
			}
			if left := access.server.Objects(); len(left) > 0 {
				t.Errorf("left at the provider: %v\n%s", left, screen)
			}
			if entries, _ := os.ReadDir(cmd.Dir); len(entries) > 0 {
				t.Errorf("left in the folder: %v", entries)
			}
		})
	}
}

// A killed command leaves what it made; the next one, or gc, takes it away.
func TestAskKilled(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{{"provider", "gc"}, {"ask", "hello"}} {
		t.Run(strings.Join(way, " "), func(t *testing.T) {
			who, access := asks(), accesses()[provider.OpenAI](t)
			access.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStall})
			env := askEnv(t, who, access)
			cmd := who.command(t, env, "ask", "--yes", "-f", inputFile(t, who), "hello")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, waitTime, "the call that stalls", func() bool { return len(access.server.Pending()) == 0 })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if len(access.server.Objects()) != 2 {
				t.Fatalf("at the provider: %v", access.server.Objects())
			}
			got := who.run(t, env, append([]string{"--verbose"}, way...)...)
			if left := access.server.Objects(); got.code != 0 || len(left) > 0 {
				t.Errorf("exit code %d, left at the provider: %v\nstdout:\n%s\nstderr:\n%s", got.code, left, got.stdout, got.stderr)
			}
		})
	}
}

// A full disk in the middle of a download, and of a save, is said as such, and
// leaves nothing behind.
func TestAskDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	for _, place := range []string{"outputs", "folder"} {
		t.Run(place, func(t *testing.T) {
			who, access := asks(), accesses()[provider.OpenAI](t)
			turn := makesOne()
			turn.Steps[0].Files[0].Data = bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
			access.server.Rescript(turn)
			env := askEnv(t, who, access)
			out := folder(t, who.credential)
			disk := out
			if place == "outputs" {
				disk = filepath.Join(strings.TrimPrefix(env[0], "AIRLOCK_DATA="), "outputs")
				if err := os.Mkdir(disk, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k,mode=777"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
			got := who.run(t, env, "ask", "--json", "--yes", "-o", out, "hello")
			code, word := 1, `"code": "disk_full"`
			if place == "folder" { // it is measured before anything is written
				code, word = 5, "are free; twice the size is needed"
			}
			if got.code != code || !strings.Contains(got.stdout, word) {
				t.Errorf("%+v", got)
			}
			if entries, _ := os.ReadDir(disk); len(entries) > 0 {
				t.Errorf("left on the disk: %v", entries)
			}
			if place == "outputs" { // it could not be fetched: it stays until gc
				if got := who.run(t, env, "provider", "gc"); got.code != 0 {
					t.Errorf("%+v", got)
				}
			}
			if left := access.server.Objects(); len(left) > 0 {
				t.Errorf("left at the provider: %v", left)
			}
		})
	}
}
