package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/airlock-run/airlock/assist/assignment/demo"
)

// projectAPI is a project's API that a script can switch off and on.
type projectAPI struct {
	project *demo.Project
	server  *httptest.Server // nil: it is off
	address string           // host and port, which stay
}

func (d *projectAPI) on() error {
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		return err
	}
	d.address = listener.Addr().String()
	d.server = httptest.NewUnstartedServer(d.project)
	d.server.Listener.Close()
	d.server.Listener = listener
	d.server.Start()
	return nil
}

func (d *projectAPI) off() {
	if d.server != nil {
		d.server.Close()
		d.server = nil
	}
}

type demoKey struct{}

// TestApplyScripts runs the scripts in testdata/apply: replies, folders and a
// project's API, which is at $API.
func TestApplyScripts(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		bin := folder(t, nil)
		wrapper := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", binary)
		if who.credential != nil {
			wrapper = fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups %s \"$@\"\n", who.credential.Uid,
				who.credential.Gid, binary)
		}
		for name, script := range map[string]string{"airlock": wrapper, "code": "#!/bin/sh\n\"$@\"\necho $?\n"} {
			writeProgram(t, filepath.Join(bin, name), script)
		}
		testscript.Run(t, testscript.Params{
			Dir:                 "testdata/apply",
			WorkdirRoot:         folder(t, who.credential),
			RequireExplicitExec: true,
			Setup: func(env *testscript.Env) error {
				d := &projectAPI{project: &demo.Project{}, address: "127.0.0.1:0"}
				if err := d.on(); err != nil {
					return err
				}
				env.Defer(d.off)
				env.Values[demoKey{}] = d
				env.Setenv("API", "http://"+d.address)
				env.Setenv("PATH", bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
				env.Setenv("HOME", env.WorkDir)
				env.Setenv("TMPDIR", "/tmp")
				env.Setenv("AIRLOCK_DATA", dataFolder(t, who))
				env.Setenv("AIRLOCK_CONFIG", "none")
				if err := os.Chmod(env.WorkDir, 0o711); err != nil {
					return err
				}
				give(t, env.WorkDir, who.credential)
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"project": projectCommand, "txn": transactionCommand},
		})
	})
}

// projectCommand is the script's hand on the project: "project off", "project
// on", "project fail 500", "project lose", "project delivered LINE...".
func projectCommand(ts *testscript.TestScript, negated bool, args []string) {
	d := ts.Value(demoKey{}).(*projectAPI)
	if negated || len(args) == 0 {
		ts.Fatalf("usage: project off|on|fail|lose|delivered")
	}
	switch args[0] {
	case "off":
		d.off()
	case "on":
		ts.Check(d.on())
	case "fail":
		d.project.Inject(demo.Fault{Status: http.StatusInternalServerError})
	case "refuse":
		d.project.Inject(demo.Fault{Status: http.StatusUnprocessableEntity})
	case "lose":
		d.project.Inject(demo.Fault{LoseAnswer: true})
	case "delivered":
		var got []string
		for _, delivery := range d.project.Deliveries() {
			got = append(got, strings.TrimPrefix(delivery.Path, "/api/v1/projects/"))
		}
		if strings.Join(got, " ") != strings.Join(args[1:], " ") {
			ts.Fatalf("delivered: %s", strings.Join(got, " "))
		}
	default:
		ts.Fatalf("project: %q is no command", args[0])
	}
}

// transactionCommand puts the newest transaction id on standard output's last
// --approve line into $TXN: "txn FILE".
func transactionCommand(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	for _, mark := range []string{"--approve ", `"txnId": "`, "airlock undo "} {
		if _, after, found := strings.Cut(text, mark); found {
			ts.Setenv("TXN", after[:24])
			return
		}
	}
	ts.Fatalf("%s names no transaction", args[0])
}

// TestReviewOnTerminal goes through a proposal by keys.
func TestReviewOnTerminal(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who.credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	reply := "```txt:one.txt\nONE\n```\n\n```txt:two.txt\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12!\n```\n\n" +
		"```txt:three.txt\nthree\n```\n"
	numbers := "1!\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"
	for _, c := range []struct {
		name, keys string
		code       int
		one, two   string
		three      bool
	}{
		{"all", "Ay", 0, "ONE\n", strings.NewReplacer("1!", "1", "12\n", "12!\n").Replace(numbers), true},
		{"skip", "asay", 0, "ONE\n", numbers, true},
		{"a hunk", "shsasy", 0, "one\n", strings.Replace(numbers, "12\n", "12!\n", 1), false},
		{"a hunk by yes and no", "nhnyny", 0, "one\n", strings.Replace(numbers, "12\n", "12!\n", 1), false},
		{"leave", "aq", 3, "one\n", numbers, false},
		{"no", "aaan", 3, "one\n", numbers, false},
		{"ctrl-c", "a\x03", 1, "one\n", numbers, false},
		{"edit", "eassy", 0, "edited\n", numbers, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := folder(t, nil)
			for name, text := range map[string]string{"one.txt": "one\n", "two.txt": numbers, "reply.md": reply,
				"editor": "#!/bin/sh\necho edited > \"$1\"\n"} {
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(root, "editor"), 0o755); err != nil {
				t.Fatal(err)
			}
			give(t, root, who.credential)
			cmd := who.command(t, []string{"AIRLOCK_DATA=" + dataFolder(t, who), "AIRLOCK_CONFIG=none",
				"EDITOR=" + filepath.Join(root, "editor"), "TERM=xterm"},
				"apply", "--root", root, filepath.Join(root, "reply.md"))
			term := onTerminal(t, cmd)
			for i, key := range c.keys {
				eventually(t, waitTime, "the next question", func() bool {
					return strings.Count(term.screen.String(), "[q]uit")+strings.Count(term.screen.String(), "[y/n]") > i
				})
				term.press(string(key))
			}
			eventually(t, waitTime, "the end", func() bool {
				screen := term.screen.String()
				return strings.Contains(screen, "Done:") || strings.Contains(screen, "Nothing was changed") ||
					strings.Contains(screen, "interrupted")
			})
			code, screen := term.end()
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, screen)
			}
			one, _ := os.ReadFile(filepath.Join(root, "one.txt"))
			two, _ := os.ReadFile(filepath.Join(root, "two.txt"))
			_, err := os.Stat(filepath.Join(root, "three.txt"))
			if string(one) != c.one || string(two) != c.two || (err == nil) != c.three {
				t.Errorf("one.txt %q, two.txt %q, three.txt %v\n%s", one, two, err, screen)
			}
			if !strings.Contains(screen, "\x1b[31") || !strings.Contains(screen, "\x1b[32") {
				t.Error("the diff has no colours")
			}
		})
	}
}
