package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is the official SDK of Go as a client.
type agent struct {
	t *testing.T
	*mcp.ClientSession
}

func newAgent(t *testing.T, transport mcp.Transport, o *mcp.ClientOptions) *agent {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may be gone
	return &agent{t, c}
}

// overStdio is the transport to airlock mcp with flags.
func overStdio(t *testing.T, who person, flags ...string) mcp.Transport {
	t.Helper()
	return &mcp.CommandTransport{Command: who.command(t, nil, append([]string{"mcp"}, flags...)...)}
}

// call calls a tool, and returns the text of its answer.
func (a *agent) call(name string, arguments map[string]any) (string, *mcp.CallToolResult) {
	a.t.Helper()
	r, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		a.t.Fatalf("%s: %v", name, r.Content)
	}
	return text.Text, r
}

var sessionHandle = regexp.MustCompile(`s_[A-Za-z0-9_-]{21}`)

// What agents do, through the official SDK of Go, over HTTP and over standard input
// and output. Programs of all languages share a session's files, and a program that
// ignores being interrupted is ended with its children.
func TestMCPGo(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data, alone := dataFolder(t, who), dataFolder(t, who)
	s := serve(t, who, data)
	for way, transport := range map[string]func() mcp.Transport{
		"HTTP":              func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"} },
		"SSE":               func() mcp.Transport { return &mcp.SSEClientTransport{Endpoint: s.url + "/mcp/sse"} },
		"stdio, running":    func() mcp.Transport { return overStdio(t, who, "--data", data) },
		"stdio, of its own": func() mcp.Transport { return overStdio(t, who, "--data", alone) },
	} {
		t.Run(way, func(t *testing.T) {
			a := newAgent(t, transport(), nil)
			first, _ := a.call("run_code", map[string]any{"code": "x = 6\nopen('n.txt', 'w').write('7')"})
			session := sessionHandle.FindString(first)
			for _, program := range []struct {
				language, code, stdin string
				args                  []string
				want                  string
			}{
				{"bash", `echo $(($(cat n.txt) * $1))`, "", []string{"6"}, "42\n"},
				{"ts", "import * as fs from 'node:fs'\n" +
					"const n: number = Number(fs.readFileSync('n.txt', 'utf8')); console.log(n * 6)", "", nil, "42\n"},
				{"python", "import sys; print(sys.stdin.read() * int(sys.argv[1]))", "ab", []string{"2"}, "abab\n"},
				{"python", "print(x * 7)", "", nil, "42\n"},
			} {
				arguments := map[string]any{"code": program.code, "language": program.language, "session": session}
				if program.args != nil {
					arguments["args"] = program.args
				}
				if program.stdin != "" {
					arguments["stdin"] = program.stdin
				}
				if got, _ := a.call("run_code", arguments); !strings.HasPrefix(got, "OK, exit 0") ||
					!strings.HasSuffix(got, program.want) {
					t.Errorf("%s: %q, want %q", program.language, got, program.want)
				}
			}
			typed, _ := a.call("run_code", map[string]any{"code": "const n: number = 41", "language": "ts"})
			if got, _ := a.call("run_code", map[string]any{"code": "n + 1 as number", "language": "ts",
				"session": sessionHandle.FindString(typed)}); !strings.HasSuffix(got, "\n42\n") {
				t.Errorf("variables of TypeScript: %q, then %q", typed, got)
			}
			exits := map[string]any{"code": "import sys; sys.exit(3)"}
			if got, _ := a.call("run_code", exits); !strings.Contains(got, "exit 3") {
				t.Errorf("sys.exit(3): %q", got)
			}
			mark := fmt.Sprintf("98765.%d", time.Now().UnixNano()%1e9)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := a.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"session": session, "code": `
import signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(['sleep', '` + mark + `'])
while True: time.sleep(1)`}})
				ended <- err
			}()
			eventually(t, waitTime, "the program runs", func() bool { return len(withWord(mark)) > 0 })
			cancel()
			began := time.Now()
			if err := <-ended; err == nil {
				t.Error("the cancelled call has a result")
			}
			eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(mark)) == 0 })
			t.Logf("gone %.2f s after the cancel", time.Since(began).Seconds())
			if after, _ := a.call("run_code", map[string]any{"code": "print(open('n.txt').read())",
				"session": session}); !strings.HasSuffix(after, "\n7\n") ||
				!strings.Contains(after, "variables of earlier calls are lost") {
				t.Errorf("after the cancel: %q", after)
			}
		})
	}
}

// A CSV becomes a plot, and what was found is saved in a folder once the person has
// agreed: the conversation of docs/mcp.md.
func TestMCPConversation(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	needPackages(t)
	files, out, site := folder(t, who.credential), folder(t, who.credential), folder(t, who.credential)
	if err := os.WriteFile(filepath.Join(files, "sales.csv"), []byte("region,units\nEast,5\nWest,7\nEast,9\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	var asked []string
	agree := "decline"
	options := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (
		*mcp.ElicitResult, error) {
		asked = append(asked, r.Params.Message)
		return &mcp.ElicitResult{Action: agree}, nil
	}}
	data := dataWithPackages(t, who)
	relative := func(folder string) string {
		path, err := filepath.Rel(site, folder)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	started := who.command(t, nil, "mcp", "--data", data, "--files", relative(files), "-o", relative(out),
		"--workspace", ".")
	started.Dir = site
	a := newAgent(t, &mcp.CommandTransport{Command: started}, options)
	if got, _ := a.call("run_code", map[string]any{"code": "1", "files": []string{"none.csv"}}); got !=
		`files: there is no file "none.csv" below `+files {
		t.Errorf("a file that is not there: %q", got)
	}
	if got, _ := a.call("propose_changes", map[string]any{"response": "x", "root": "."}); got !=
		"root: changes may be proposed in "+site {
		t.Errorf("another folder: %q", got)
	}
	got, _ := a.call("run_code", map[string]any{
		"code": "import pandas as pd\ndf = pd.read_csv('sales.csv')\nprint(df.shape)", "files": []string{"sales.csv"}})
	if !strings.HasSuffix(got, "\n(3, 2)\n") {
		t.Fatalf("the CSV: %q", got)
	}
	session := sessionHandle.FindString(got)
	got, result := a.call("run_code", map[string]any{"session": session, "code": "import matplotlib.pyplot as plt\n" +
		"df.groupby('region')['units'].sum().plot.bar()\nplt.savefig('sales.png'); plt.show()"})
	var kinds []string
	for _, c := range result.Content {
		kinds = append(kinds, fmt.Sprintf("%T", c))
	}
	if !slices.Contains(kinds, "*mcp.ImageContent") || !slices.Contains(kinds, "*mcp.ResourceLink") ||
		!strings.HasPrefix(got, "Saved in "+out+": sales.png.") {
		t.Errorf("the plot: %v, %q", kinds, got)
	}
	if png, err := os.ReadFile(filepath.Join(out, "sales.png")); err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
		t.Errorf("the saved plot: %v", err)
	}
	got, _ = a.call("propose_changes", map[string]any{
		"response": "```markdown path=report.md\n# Sales\n\nThe chart is in sales.png.\n```\n"})
	plan := regexp.MustCompile(`^Plan ([a-z0-9]+)\. 1 file: \+3 -0 in `).FindStringSubmatch(got)
	if plan == nil {
		t.Fatalf("the plan: %q", got)
	}
	report := filepath.Join(site, "report.md")
	if got, _ = a.call("apply_changes", map[string]any{
		"plan_id": plan[1]}); got != "The person did not agree. Nothing was changed." {
		t.Errorf("declined: %q", got)
	}
	if _, err := os.Stat(report); !os.IsNotExist(err) {
		t.Errorf("after the decline: %v", err)
	}
	agree = "accept"
	if got, _ = a.call("apply_changes", map[string]any{"plan_id": plan[1]}); !strings.HasPrefix(
		got, "Applied in "+site+": 1 created") {
		t.Errorf("accepted: %q", got)
	}
	if text, err := os.ReadFile(report); err != nil || string(text) != "# Sales\n\nThe chart is in sales.png.\n" {
		t.Errorf("the report: %q, %v", text, err)
	}
	if len(asked) != 2 || asked[1] != "Change 1 file: +3 -0 in "+site+"?" {
		t.Errorf("asked %q", asked)
	}
	if got, result = a.call("apply_changes", map[string]any{"plan_id": plan[1]}); !result.IsError ||
		!strings.Contains(got, "this plan is used") {
		t.Errorf("again: %q", got)
	}
	if got, _ = a.call("propose_changes", map[string]any{
		"response": "```markdown path=report.md\n# Sales\n\nThe chart is in sales.png.\n```\n",
	}); got != "Nothing to do: the folder already has all of it." {
		t.Errorf("the same proposed again: %q", got)
	}
}
