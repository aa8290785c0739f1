package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/pytool"
)

// chat is an application that has the tool, with a store of its own.
type chat struct {
	t     *testing.T
	store *pytool.Folder
	tool  *pytool.Tool
	files []pytool.ChatFile
}

func newChat(t *testing.T, cfg pytool.Config) *chat {
	t.Helper()
	store, err := pytool.OpenFolder(t.TempDir(), "https://chat.example/api/chat/file")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	tool, err := pytool.New(pytool.Options{Config: cfg, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return &chat{t: t, store: store, tool: tool}
}

func (c *chat) add(name, content string) {
	c.t.Helper()
	id, err := c.store.Save(c.t.Context(), name, "", strings.NewReader(content))
	if err != nil {
		c.t.Fatal(err)
	}
	c.files = append(c.files, pytool.ChatFile{ID: id, Name: name})
}

// run calls the tool and returns what went over the wire and to the model,
// with the names that a store makes up replaced.
func (c *chat) run(code string) (packets string, result pytool.Result) {
	c.t.Helper()
	arguments, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		c.t.Fatal(err)
	}
	var wire strings.Builder
	result = c.tool.Run(c.t.Context(), pytool.Call{Arguments: arguments, Files: c.files},
		func(p pytool.Packet) { wire.Write(p.Line()) })
	packets = wire.String()
	for i, id := range result.FileIDs {
		packets = strings.ReplaceAll(packets, id, fmt.Sprintf("FILE-%d", i+1))
	}
	return packets, result
}

func (c *chat) content(id string) []byte {
	c.t.Helper()
	content, err := c.store.Open(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// A whole turn: two files of the chat go in, code makes a table and a chart of
// them, the page gets its packets and the model its result, the files are
// fetched and then deleted where they were made.
func TestToolTurn(t *testing.T) {
	needPackages(t)
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithPackages(t, who))
	c := newChat(t, pytool.Config{BaseURL: s.url + "/onyx"})
	if at := c.tool.Available(t.Context()); !at.Available || at.Version != "0.4.7" {
		t.Fatalf("%+v", at)
	}
	c.add("Sales/2026.csv", "month,sum\n1,10\n2,30\n")
	c.add("names.txt", "Ada\nGrace\n")
	packets, result := c.run(`import sys, pandas as pd
import matplotlib.pyplot as plt
table = pd.read_csv("Sales_2026.csv")
sys.stdout.write(open("names.txt").read())
table["twice"] = table["sum"] * 2
table.to_csv("twice.csv", index=False)
table.plot(x="month", y="sum")
plt.savefig("chart.png")
int(table["sum"].sum())`)
	const at = `{"placement":{"turn_index":0,"tab_index":0,"sub_turn_index":null,"model_index":0},"obj":`
	want := at + `{"type":"python_tool_start","code":"import sys, pandas as pd\nimport matplotlib.pyplot as plt\ntable = pd.read_csv(\"Sales_2026.csv\")\nsys.stdout.write(open(\"names.txt\").read())\ntable[\"twice\"] = table[\"sum\"] * 2\ntable.to_csv(\"twice.csv\", index=False)\ntable.plot(x=\"month\", y=\"sum\")\nplt.savefig(\"chart.png\")\nint(table[\"sum\"].sum())"}}` + "\n" +
		at + `{"type":"python_tool_delta","stdout":"Ada\nGrace\n40\n","stderr":"","file_ids":[]}}` + "\n" +
		at + `{"type":"python_tool_delta","stdout":"","stderr":"","file_ids":["FILE-1","FILE-2"]}}` + "\n" +
		at + `{"type":"section_end"}}` + "\n"
	if diff := cmp.Diff(want, joinOutput(packets)); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
	if len(result.FileIDs) != 2 {
		t.Fatalf("%s", result.JSON())
	}
	wantResult := fmt.Sprintf(
		`{"type":"python_execution","stdout":"Ada\nGrace\n40\n","stderr":"","exit_code":0,"timed_out":false,"generated_files":[{"filename":"chart.png","file_link":"https://chat.example/api/chat/file/%s"},{"filename":"twice.csv","file_link":"https://chat.example/api/chat/file/%s"}],"error":null,"staging_notice":null}`,
		result.FileIDs[0], result.FileIDs[1])
	if diff := cmp.Diff(wantResult, result.JSON()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got := string(c.content(result.FileIDs[1])); got != "month,sum,twice\n1,10,20\n2,30,60\n" {
		t.Errorf("twice.csv: %q", got)
	}
	if image, err := png.Decode(bytes.NewReader(c.content(result.FileIDs[0]))); err != nil || image.Bounds().Dx() < 200 {
		t.Errorf("chart.png: %v", err)
	}
	// What was fetched is deleted; what was staged stays for the next call.
	var kept struct {
		Files []struct{ Filename string }
	}
	s.onyx("GET", "/v1/files", 200, nil, &kept)
	if len(kept.Files) != 2 || kept.Files[0].Filename == "chart.png" {
		t.Errorf("kept: %+v", kept)
	}
}

// outputDelta is a packet that has output of one stream and no files.
var outputDelta = regexp.MustCompile(
	`^(.*"type":"python_tool_delta","stdout":")(.*)(","stderr":")(.*)(","file_ids":\[\]}})$`)

// joinOutput makes one packet of neighbours with output of the same stream:
// how a program's text is cut into pieces is a matter of the moment.
func joinOutput(packets string) string {
	var joined []string
	var last []string // of the packet before, if it had output
	for line := range strings.Lines(packets) {
		line = strings.TrimSuffix(line, "\n")
		found := outputDelta.FindStringSubmatch(line)
		if found != nil && last != nil && (found[2] == "") == (last[2] == "") {
			last[2], last[4] = last[2]+found[2], last[4]+found[4]
			joined[len(joined)-1] = strings.Join(last[1:], "")
			continue
		}
		joined, last = append(joined, line), found
	}
	return strings.Join(joined, "\n") + "\n"
}

// The tool against the real service, for everything that a model does to it.
func TestToolAgainstTheService(t *testing.T) {
	needPackages(t)
	t.Parallel()
	who := anyPerson(t)
	if who.name == "root" || os.Geteuid() != 0 { // once is enough
		toolAgainstTheService(t, who)
	}
}

func toolAgainstTheService(t *testing.T, who person) {
	s := serve(t, who, dataWithPackages(t, who))
	c := newChat(t, pytool.Config{BaseURL: s.url + "/onyx", Timeout: time.Minute})
	brief := newChat(t, pytool.Config{BaseURL: s.url + "/onyx", Timeout: 3 * time.Second})
	var all strings.Builder
	for _, turn := range []struct{ name, code string }{
		{"hello", "print('hello')"},
		{"syntax error", "print('hello'"},
		// which stream comes first is not left to chance
		{"runtime error", "print('before')\nimport time\ntime.sleep(0.5)\n1/0"},
		{"exit code", "import sys\nsys.exit(7)"},
		{"timeout", "import time\nprint('begun', flush=True)\ntime.sleep(60)"},
		{"csv", "open('out.csv', 'w').write('a,b\\n')\nNone"},
		{"line separators", "print('a\\x85b\\u2028c\\u2029d\\x00e')"},
		{"nothing", ""},
	} {
		ask := c
		if turn.name == "timeout" {
			ask = brief
		}
		packets, result := ask.run(turn.code)
		text := result.JSON()
		for i, id := range result.FileIDs {
			text = strings.ReplaceAll(text, id, fmt.Sprintf("FILE-%d", i+1))
		}
		fmt.Fprintf(&all, "== %s\n%s%s\n", turn.name, joinOutput(packets), text)
	}
	const name = "testdata/tool.txt"
	if os.Getenv("AIRLOCK_UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("recorded turns (-want +got):\n%s", diff)
	}

	// Only the recorded program is to run out of time.
	c = newChat(t, pytool.Config{BaseURL: s.url + "/onyx", Timeout: time.Minute})
	_, result := c.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.savefig('日本.png')\nNone")
	if len(result.FileIDs) != 1 {
		t.Fatalf("%s", result.JSON())
	}
	if _, err := png.Decode(bytes.NewReader(c.content(result.FileIDs[0]))); err != nil ||
		result.GeneratedFiles[0].Filename != "日本.png" {
		t.Errorf("%v, %+v", err, result.GeneratedFiles)
	}

	// A file that the service has lost since is staged again.
	c.add("again.txt", "again")
	c.run("open('again.txt').read()")
	var kept struct {
		Files []struct {
			ID string `json:"file_id"`
		}
	}
	s.onyx("GET", "/v1/files", 200, nil, &kept)
	for _, f := range kept.Files {
		s.onyx("DELETE", "/v1/files/"+f.ID, 204, nil, nil)
	}
	if _, result := c.run("open('again.txt').read()"); result.Stdout != "'again'\n" {
		t.Errorf("%s", result.JSON())
	}

	// And whoever leaves takes the program along.
	ctx, cancel := context.WithCancel(t.Context())
	printed := make(chan struct{}, 100)
	done := make(chan pytool.Result)
	go func() {
		done <- c.tool.Run(ctx, pytool.Call{
			Arguments: []byte(`{"code":"import subprocess\nprint(1, flush=True)\nsubprocess.run(['sleep', '86414'])"}`)},
			func(pytool.Packet) { printed <- struct{}{} })
	}()
	<-printed
	eventually(t, waitTime, "it runs", func() bool { return len(withWord("86414")) > 0 })
	cancel()
	if result := <-done; *result.ExitCode != -1 {
		t.Errorf("%s", result.JSON())
	}
	eventually(t, waitTime/2, "it is gone", func() bool { return len(withWord("86414")) == 0 })
}

// Whether the tool is offered, with the address set, unset and empty.
func TestToolAvailability(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	available := func(env map[string]string) pytool.Availability {
		t.Helper()
		cfg, err := pytool.ReadConfig(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		return newChat(t, cfg).tool.Available(t.Context())
	}
	if at := available(map[string]string{"CODE_INTERPRETER_BASE_URL": s.url + "/onyx/"}); !at.Available {
		t.Errorf("set: %+v", at)
	}
	if at := available(map[string]string{"CODE_INTERPRETER_BASE_URL": ""}); at.Available ||
		!strings.Contains(at.Reason, "is empty") || at.Cure == "" {
		t.Errorf("empty: %+v", at)
	}
	// Unset means localhost:8000, where in a test there may be anybody.
	if at := available(nil); !at.Available && !strings.Contains(at.Cure, "http://localhost:8000") {
		t.Errorf("unset: %+v", at)
	}
	if at := available(map[string]string{"CODE_INTERPRETER_BASE_URL": "http://127.0.0.1:1"}); at.Available ||
		at.Reason != "Unable to reach the Code Interpreter service." {
		t.Errorf("nobody there: %+v", at)
	}
}
