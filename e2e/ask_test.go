package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// modelServer is a provider's test server, as scripts want it.
type modelServer interface {
	providertest.Server
	Rescript(turns ...providertest.Turn)
}

// modelAccess is a provider for a command: its server, and what the command's
// environment says.
type modelAccess struct {
	name   string
	server modelServer
	env    []string
}

// accesses start a test server for each provider.
func accesses() map[string]func(testing.TB) modelAccess {
	return map[string]func(testing.TB) modelAccess{
		provider.OpenAI: func(tb testing.TB) modelAccess {
			s := providertest.NewOpenAI(tb)
			now(s.Clock)
			return modelAccess{provider.OpenAI, s, []string{"AIRLOCK_MODEL=gpt-5", "OPENAI_API_KEY=" + providertest.OpenAIKey,
				"OPENAI_BASE_URL=" + s.URL + "/v1"}}
		},
		provider.Anthropic: func(tb testing.TB) modelAccess {
			s := providertest.NewAnthropicServer(tb)
			now(s.Clock)
			return modelAccess{provider.Anthropic, s, []string{"AIRLOCK_MODEL=" + providertest.AnthropicModel,
				"ANTHROPIC_API_KEY=test-secret", "ANTHROPIC_BASE_URL=" + s.URL}}
		},
		provider.Gemini: func(tb testing.TB) modelAccess {
			s := providertest.NewGeminiServer(tb)
			now(s.Clock)
			return modelAccess{provider.Gemini, s, []string{"AIRLOCK_MODEL=" + providertest.GeminiModel,
				"GEMINI_API_KEY=test-secret", "GOOGLE_GEMINI_BASE_URL=" + s.URL}}
		},
		provider.XAI: func(tb testing.TB) modelAccess {
			s := providertest.NewXAIServer(tb)
			now(s.Clock)
			return modelAccess{provider.XAI, s, []string{"AIRLOCK_MODEL=" + providertest.XAIModel, "XAI_API_KEY=test-secret",
				"XAI_BASE_URL=" + s.URL + "/v1"}}
		},
		provider.Local: func(tb testing.TB) modelAccess {
			s := providertest.NewLocalServer(tb)
			now(s.Clock)
			return modelAccess{provider.Local, s, []string{"AIRLOCK_MODEL=" + providertest.LocalModel,
				"AIRLOCK_MODEL_URL=" + s.URL + "/v1"}}
		},
	}
}

// now sets a test server's clock: what it says of times is compared with ours.
func now(c *providertest.Clock) { c.Advance(time.Since(c.Now())) }

// asks are who asks: root's ways are those of any user here.
func asks() person {
	if os.Geteuid() == 0 {
		return person{name: "user", credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return person{name: "user"}
}

// TestAskScripts runs the scripts in testdata/ask with each provider: the
// scripted model's code runs at the provider's test server, and for local in
// the real sandbox. What an ordinary user can do root can do too.
func TestAskScripts(t *testing.T) {
	t.Parallel()
	people := []person{asks()}
	if os.Geteuid() == 0 {
		people = append(people, person{name: "root"})
	}
	for _, who := range people {
		for name, open := range accesses() {
			t.Run(who.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				runAskScripts(t, who, "testdata/ask", open)
			})
		}
	}
}

// TestAskCases runs what is the same with every provider, with one.
func TestAskCases(t *testing.T) {
	t.Parallel()
	runAskScripts(t, asks(), "testdata/askcases", accesses()[provider.OpenAI])
}

// TestAskOwnWays runs what only one provider has, or has in its own way.
func TestAskOwnWays(t *testing.T) {
	t.Parallel()
	for name, open := range accesses() {
		dir := "testdata/askown/" + name
		if _, err := os.Stat(dir); err != nil {
			continue // it has nothing of its own
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runAskScripts(t, asks(), dir, open)
		})
	}
}

// TestAskScenarios has the local provider, the real sandbox and a scripted
// model: whole tasks.
func TestAskScenarios(t *testing.T) {
	t.Parallel()
	needPackages(t)
	runAskScripts(t, asks(), "testdata/askscenarios", accesses()[provider.Local])
}

type accessKey struct{}

func runAskScripts(t *testing.T, who person, dir string, open func(testing.TB) modelAccess) {
	bin := folder(t, nil)
	run := binary
	if who.credential != nil {
		run = fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups %s", who.credential.Uid, who.credential.Gid, binary)
	}
	for name, script := range map[string]string{
		"airlock": "#!/bin/sh\nexec " + run + " \"$@\"\n",
		"code":    "#!/bin/sh\n\"$@\"\necho $?\n",
		"onterm":  "#!/bin/sh\nexec \"$@\" 2>/dev/tty\n", // standard error is the terminal too
	} {
		writeProgram(t, filepath.Join(bin, name), script)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		WorkdirRoot:         folder(t, who.credential),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			access := open(env.T().(testing.TB))
			env.Values[accessKey{}] = access
			for _, pair := range access.env {
				key, value, _ := strings.Cut(pair, "=")
				env.Setenv(key, value)
			}
			env.Setenv("AIRLOCK_PROVIDER", access.name)
			consent := "y\n" // to the question whether files may leave
			if access.name == provider.Local {
				consent = ""
			}
			for _, name := range []string{"select.txt", "approve.txt"} {
				at := filepath.Join(env.WorkDir, name)
				if answers, err := os.ReadFile(at); err == nil {
					if err := os.WriteFile(at, append([]byte(consent), answers...), 0o644); err != nil {
						return err
					}
				}
			}
			env.Setenv("PROVIDER", access.name)
			env.Setenv("PATH", bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TMPDIR", "/tmp")
			env.Setenv("TERM", "xterm")
			env.Setenv("AIRLOCK_DATA", dataWithPackages(t, who))
			env.Setenv("AIRLOCK_CONFIG", "none")
			if err := os.Chmod(env.WorkDir, 0o711); err != nil {
				return err
			}
			give(t, env.WorkDir, who.credential)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"model": modelCommand, "fault": faultCommand, "remote": remoteCommand,
			"own": func(ts *testscript.TestScript, _ bool, args []string) {
				give(
					t, ts.MkAbs(args[0]), who.credential)
			},
			"conversation": conversationCommand, "replace": replaceCommand,
		},
	})
}

// modelCommand tells the model what to do next: "model FILE" with a JSON list
// of turns. Where a provider brings files in the output only, the code prints
// them; local's code is real.
func modelCommand(ts *testscript.TestScript, _ bool, args []string) {
	access := ts.Value(accessKey{}).(modelAccess)
	var turns []providertest.Turn
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &turns))
	for i := range turns {
		for j := range turns[i].Steps {
			step := &turns[i].Steps[j]
			if access.name == provider.Gemini || access.name == provider.XAI {
				for _, f := range step.Files {
					step.Stdout += provider.Frame(f.Name, f.Data)
				}
				step.Files = nil
			}
		}
	}
	access.server.Rescript(turns...)
}

// faultCommand makes something go wrong: "fault '{"On": "run", "Kind": "status", "Status": 401}'".
func faultCommand(ts *testscript.TestScript, _ bool, args []string) {
	access := ts.Value(accessKey{}).(modelAccess)
	if args[0] == "heal" {
		access.server.Heal()
		return
	}
	for _, text := range args {
		var f providertest.Fault
		ts.Check(json.Unmarshal([]byte(text), &f))
		access.server.Inject(f)
	}
}

// remoteCommand looks at what is at the provider: "remote none", "remote has
// PART", "remote calls run 1".
func remoteCommand(ts *testscript.TestScript, negated bool, args []string) {
	access := ts.Value(accessKey{}).(modelAccess)
	objects := access.server.Objects()
	switch args[0] {
	case "none":
		if len(objects) > 0 {
			ts.Fatalf("left at the provider: %v", objects)
		}
	case "has":
		if has := slices.ContainsFunc(objects, func(o string) bool { return strings.Contains(o, args[1]) }); has == negated {
			ts.Fatalf("at the provider: %v", objects)
		}
	case "calls":
		if n := fmt.Sprint(access.server.Count(providertest.Op(args[1]))); n != args[2] {
			ts.Fatalf("%s calls of %s", n, args[1])
		}
	default:
		ts.Fatalf("remote: %q is no command", args[0])
	}
}

// conversationCommand puts the id of the conversation that a file names into
// $ID.
func conversationCommand(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	for _, mark := range []string{`"conversation": "`, "conversation "} {
		if _, after, found := strings.Cut(text, mark); found {
			ts.Setenv("ID", strings.FieldsFunc(after, func(r rune) bool { return r == '"' || r == ' ' })[0])
			return
		}
	}
	ts.Fatalf("%s names no conversation", args[0])
}

// replaceCommand puts the value of a variable in the place of its name in a
// file: "replace ID file".
func replaceCommand(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[1])
	text, err := os.ReadFile(name)
	ts.Check(err)
	ts.Check(os.WriteFile(name, []byte(strings.ReplaceAll(string(text), "$"+args[0], ts.Getenv(args[0]))), 0o644))
}
