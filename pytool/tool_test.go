package pytool_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/pytool"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with the one that is kept in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = "testdata/" + name
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestWhatAModelIsTold(t *testing.T) {
	var pretty strings.Builder
	enc := json.NewEncoder(&pretty)
	enc.SetIndent("", "  ")
	if err := enc.Encode(pytool.Definition()); err != nil {
		t.Fatal(err)
	}
	golden(t, "definition.json", pretty.String())
	golden(t, "guidance.txt", pytool.DefaultConfig().Guidance()+"\n")
	golden(t, "reminder.txt", pytool.Reminder([]pytool.GeneratedFile{
		{Filename: "plot.png", FileLink: "https://chat.example/api/chat/file/1"},
		{Filename: "日本.csv", FileLink: "https://chat.example/api/chat/file/2"},
	}))
	if got := pytool.Reminder(nil); got != "" {
		t.Errorf("without files: %q", got)
	}
	if got := (pytool.Config{Timeout: 1500 * time.Millisecond}).Guidance(); !strings.Contains(got, "run for 1.5s and") {
		t.Error(got)
	}
}

// call runs a script's code and returns the packets as they go over the wire.
func call(t *testing.T, tool *pytool.Tool, code string, files ...pytool.ChatFile) (string, pytool.Result) {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	return callWith(t.Context(), tool, pytool.Call{Arguments: arguments, Files: files})
}

func callWith(ctx context.Context, tool *pytool.Tool, c pytool.Call) (string, pytool.Result) {
	var wire strings.Builder
	result := tool.Run(ctx, c, func(p pytool.Packet) { wire.Write(p.Line()) })
	return wire.String(), result
}

func newTool(t *testing.T, r pytool.Runner, s pytool.FileStore, cfg pytool.Config) *pytool.Tool {
	t.Helper()
	tool, err := pytool.New(pytool.Options{Config: cfg, Runner: r, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestPacketsAndResults(t *testing.T) {
	sub := 3
	cases := []struct {
		name   string
		call   pytool.Call
		script func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error)
		store  func(*store)
		broken string // upload that fails
	}{
		{name: "output and files", call: pytool.Call{
			Arguments: json.RawMessage(`{"code":"print('<é>')"}`),
			Placement: pytool.Placement{TurnIndex: 1, TabIndex: 2, SubTurnIndex: &sub, ModelIndex: 4},
			Files:     []pytool.ChatFile{{ID: "a", Name: "sales.csv"}},
		}, script: func(_ pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error) {
			output(pytool.Stdout, "<é>\n")
			output(pytool.Stderr, "a warning\n")
			return exit(0, pytool.OutputFile{Path: "out/plot.PNG", ID: "f1"}, pytool.OutputFile{Path: "x.bin", ID: "f2"}), nil
		}},
		{name: "an exit code", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`)},
			script: func(_ pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error) {
				output(pytool.Stderr, "Traceback\n")
				return exit(1), nil
			}},
		{name: "out of time", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`)},
			script: func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error) {
				return pytool.Outcome{TimedOut: true}, nil
			}},
		{name: "the service says no", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`),
			Files: []pytool.ChatFile{{ID: "a", Name: "bad.csv"}}},
			script: func(_ pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error) {
				output(pytool.Stdout, "begun\n")
				return pytool.Outcome{}, &pytool.StatusError{Status: 429, Detail: "saturated"}
			}, broken: "bad.csv"},
		{name: "no code", call: pytool.Call{Arguments: json.RawMessage(`{}`)}},
		{name: "code of another type", call: pytool.Call{Arguments: json.RawMessage(`{"code":7}`)}},
		{name: "arguments that are no JSON", call: pytool.Call{Arguments: json.RawMessage(`{"code":`)}},
		{name: "a panic", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`)},
			script: func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error) { panic("secret") }},
		{name: "one file is lost", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`)},
			script: func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error) {
				return exit(0, pytool.OutputFile{Path: "lost.csv", ID: "lost"}, pytool.OutputFile{Path: "kept.csv", ID: "f1"}), nil
			}},
		{name: "the store is full", call: pytool.Call{Arguments: json.RawMessage(`{"code":"x"}`)},
			script: func(pytool.Request, func(pytool.Stream, string)) (pytool.Outcome, error) {
				return exit(0, pytool.OutputFile{Path: "a.csv", ID: "f1"}), nil
			}, store: func(s *store) { s.fault = errors.New("full") }},
	}
	var all strings.Builder
	for _, test := range cases {
		r, s := newRunner(test.script), newStore(map[string]string{"a": "1,2"})
		if test.store != nil {
			test.store(s)
		}
		r.refuse[test.broken] = errors.New("refused")
		wire, result := callWith(t.Context(), newTool(t, r, s, pytool.Config{}), test.call)
		all.WriteString("== " + test.name + "\n" + wire + result.JSON() + "\n")
		if test.name == "output and files" {
			if diff := cmp.Diff([]string{"f1", "f2"}, r.deleted); diff != "" {
				t.Errorf("deleted after fetching: %s", diff)
			}
			if s.types["plot.PNG"] != "image/png" || s.types["x.bin"] != "application/octet-stream" {
				t.Errorf("types: %v", s.types)
			}
		}
		if test.name == "the store is full" && len(r.deleted) > 0 {
			t.Error("a file that was not saved is deleted")
		}
	}
	golden(t, "runs.txt", all.String())
}

func TestArgumentDeltaAndReload(t *testing.T) {
	got := string(pytool.NewArgumentDelta(pytool.Placement{}, "1 < 2").Line())
	packets, err := pytool.Reload(pytool.Placement{TurnIndex: 1}, "code",
		`{"type":"python_execution","stdout":"o","stderr":"e","exit_code":0,"timed_out":false,"generated_files":[{"filename":"a","file_link":"https://x/api/chat/file/77"}],"error":null,"staging_notice":null}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		got += string(p.Line())
	}
	golden(t, "reload.txt", got)
	if _, err := pytool.Reload(pytool.Placement{}, "", "not JSON"); err == nil {
		t.Error("no error for a result that cannot be read")
	}
}

func TestTruncation(t *testing.T) {
	r := newRunner(func(_ pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error) {
		for range 3 {
			output(pytool.Stdout, "éééé")
		}
		output(pytool.Stderr, "0123456789")
		return exit(1), nil
	})
	wire, result := call(t, newTool(t, r, newStore(nil), pytool.Config{MaxOutput: 10}), "x")
	if want := "éééééééééé\n... [output truncated, 2 characters omitted]"; result.Stdout != want {
		t.Errorf("stdout %q", result.Stdout)
	}
	if result.Stderr != "0123456789" || *result.Error != result.Stderr {
		t.Errorf("stderr %q, error %q", result.Stderr, *result.Error)
	}
	if strings.Count(wire, "éééé") != 3 {
		t.Errorf("the page does not get all of it: %s", wire)
	}
}

func TestConfig(t *testing.T) {
	env := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	got, err := pytool.ReadConfig(lookup)
	if err != nil || got != pytool.DefaultConfig() {
		t.Errorf("nothing set: %+v, %v", got, err)
	}
	env = map[string]string{
		pytool.EnvBaseURL: "", pytool.EnvTimeout: "1500", pytool.EnvMaxOutput: "7", pytool.EnvMaxStagedFiles: "2",
		pytool.EnvMaxStagedBytes: "99", pytool.EnvStagingConcurrency: "",
	}
	got, err = pytool.ReadConfig(lookup)
	want := pytool.Config{Timeout: 1500 * time.Millisecond, MaxOutput: 7, MaxStagedFiles: 2, MaxStagedBytes: 99,
		StagingConcurrency: 8}
	if err != nil || got != want {
		t.Errorf("all set: %+v, %v", got, err)
	}
	for _, bad := range []string{"0", "-1", "x", "99999999999"} {
		env[pytool.EnvTimeout] = bad
		if _, err := pytool.ReadConfig(lookup); err == nil || !strings.Contains(err.Error(), pytool.EnvTimeout) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAvailability(t *testing.T) {
	now := time.Unix(0, 0)
	r, on := newRunner(nil), true
	o := pytool.Options{
		Config: pytool.Config{BaseURL: "http://sandbox:8000"}, Store: newStore(nil), Runner: r,
		Enabled: func(context.Context) bool { return on }, Now: func() time.Time { return now },
	}
	tool, err := pytool.New(o)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, available bool, asked int, words ...string) {
		t.Helper()
		got := tool.Available(t.Context())
		if got.Available != available || r.asked != asked {
			t.Errorf("%s: %+v after asking %d times", what, got, r.asked)
		}
		if !available && (got.Reason == "" || got.Cure == "") {
			t.Errorf("%s: reason %q, cure %q", what, got.Reason, got.Cure)
		}
		for _, word := range words {
			if !strings.Contains(got.Reason+got.Cure, word) {
				t.Errorf("%s: %q is not in %+v", what, word, got)
			}
		}
	}
	check("well", true, 1)
	r.health = pytool.Health{Connected: true, Error: "Executor image missing"}
	check("well, as of a moment ago", true, 1)
	now = now.Add(31 * time.Second)
	check("not well", false, 2, "Executor image missing", "http://sandbox:8000")
	r.health = pytool.Health{Connected: true}
	check("not well, as of a moment ago", false, 2)
	on = false
	check("off", false, 2, "switched off", "Switch it on")
	on, now = true, now.Add(31*time.Second)
	check("well again", true, 3)

	o.Runner, o.Config.BaseURL = nil, ""
	if tool, err = pytool.New(o); err != nil {
		t.Fatal(err)
	}
	check("no service", false, 3, pytool.EnvBaseURL+" is empty")
	wire, result := call(t, tool, "x")
	if *result.ExitCode != -1 || !strings.HasSuffix(wire, `"obj":{"type":"section_end"}}`+"\n") {
		t.Errorf("a call without a service: %s\n%s", result.JSON(), wire)
	}
	o.Config.BaseURL = "sandbox:8000"
	if _, err := pytool.New(o); err == nil {
		t.Error("no error for an address that is none")
	}
}

func TestRunWithoutPage(t *testing.T) {
	r := newRunner(func(_ pytool.Request, output func(pytool.Stream, string)) (pytool.Outcome, error) {
		output(pytool.Stdout, "42")
		return exit(0), nil
	})
	tool := newTool(t, r, newStore(nil), pytool.Config{})
	if got := tool.Run(t.Context(), pytool.Call{Arguments: json.RawMessage(`{"code":"42"}`)}, nil); got.Stdout != "42" {
		t.Errorf("%+v", got)
	}
}
