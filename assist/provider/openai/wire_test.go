package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func user(text string) []provider.Turn {
	return []provider.Turn{{Role: provider.RoleUser, Text: text}}
}

// TestRequest has the exact body: nothing is stored, outputs are asked for.
func TestRequest(t *testing.T) {
	server, client := open(t)
	file := provider.FileInfo{Ref: provider.FileRef{ID: "file-none"}}
	_, _ = client.Run(t.Context(), provider.RunRequest{Model: "gpt-4.1", Instructions: "rules", Input: user("hi"),
		Files: []provider.Attachment{{File: file}}, Schema: json.RawMessage(`{"type":"object"}`)}, nil)
	want := `{"include":["code_interpreter_call.outputs"],"input":[{"content":"hi","role":"user"}],"instructions":"rules","model":"gpt-4.1","store":false,` +
		`"text":{"format":{"name":"answer","schema":{"type":"object"},"strict":true,"type":"json_schema"}},"tools":[{"container":{"file_ids":["file-none"],"type":"auto"},"type":"code_interpreter"}]}`
	var got any
	if err := json.Unmarshal(server.RunBodies()[0], &got); err != nil {
		t.Fatal(err)
	}
	sorted, _ := json.Marshal(got)
	if diff := cmp.Diff(want, string(sorted)); diff != "" {
		t.Error(diff)
	}
}

// TestSecondTurnReplays sends the items of the first turn again as they came.
func TestSecondTurnReplays(t *testing.T) {
	server, client := open(t)
	server.Script(providertest.Turn{Steps: []providertest.Step{{Code: "1+1", Stdout: "2"}}, Text: "two"})
	first, err := client.Run(t.Context(), provider.RunRequest{Model: "gpt-5.1", Input: user("1+1?")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	input := append(append(user("1+1?"), first.Next...), user("and twice that?")...)
	if _, err := client.Run(t.Context(), provider.RunRequest{
		Model: "gpt-5.1", Input: input, Session: first.Sessions[0].ID}, nil); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Include []string
		Input   []struct{ Type string }
		Tools   []struct{ Container string }
	}
	if err := json.Unmarshal(server.RunBodies()[1], &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Input) != 4 || body.Input[1].Type != "code_interpreter_call" || body.Input[2].Type != "message" ||
		body.Tools[0].Container != first.Sessions[0].ID || !slices.Contains(body.Include, "reasoning.encrypted_content") {
		t.Errorf("the second request was %s", server.RunBodies()[1])
	}
}

// TestShell has exit codes and two streams.
func TestShell(t *testing.T) {
	server, client := open(t)
	for _, sink := range []provider.Sink{nil, func(provider.Event) {}} {
		server.Script(providertest.Turn{Steps: []providertest.Step{
			{Code: "false", Stderr: "no\n", Exit: 3}, {Code: "sleep 99", TimedOut: true}, {Code: "true", Stdout: "yes\n"}},
			Text: "done"})
		r, err := client.Run(t.Context(), provider.RunRequest{Model: "gpt-5.1", Input: user("go"), Tool: provider.ToolShell},
			sink)
		if err != nil || len(r.Steps) != 3 {
			t.Fatalf("%v, %+v", err, r)
		}
		if s := r.Steps[0]; s.Outcome != provider.OutcomeFailed || s.ExitCode == nil || *s.ExitCode != 3 ||
			s.Stderr != "no\n" {
			t.Errorf("%+v", s)
		}
		if r.Steps[1].Outcome != provider.OutcomeTimeout || r.Steps[2].Outcome != provider.OutcomeOK ||
			r.Steps[2].Stdout != "yes\n" {
			t.Errorf("%+v", r.Steps[1:])
		}
	}
}

// TestParts sends a file in pieces; one that fails is sent again, and only that.
func TestParts(t *testing.T) {
	server := providertest.NewOpenAI(t)
	web := provider.HTTPClient(provider.HTTPOptions{})
	t.Cleanup(web.CloseIdleConnections)
	client, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: server.URL + "/v1", HTTP: web,
		Clock: server.Clock, PartsOver: 10, PartSize: 4, Retry: provider.Retry{Clock: server.Clock}})
	if err != nil {
		t.Fatal(err)
	}
	server.Inject(providertest.Fault{On: providertest.OpUploadPart, Kind: providertest.FaultLost, Skip: 1},
		providertest.Fault{On: providertest.OpUploadPart, Kind: providertest.FaultStatus, Status: 500, Skip: 1})
	content, last := "abcdefghijklmn", int64(0)
	info, err := client.Files().Upload(t.Context(), provider.Upload{
		Name: "x.txt", Purpose: "evals", Size: int64(len(content)), Body: strings.NewReader(
			content), Progress: func(n int64) { last = n }})
	if err != nil || info.Size != int64(len(content)) || last != info.Size {
		t.Fatalf("%v %+v, told of %d bytes", err, info, last)
	}
	if n := server.Count(providertest.OpUploadPart); n != 6 {
		t.Errorf("%d parts were sent, want 4 and 2 again", n)
	}
	q, err := provider.OpenQuarantine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	found, err := (&provider.Collector{Quarantine: q}).Collect(
		t.Context(), client, nil, &provider.RunResult{Artifacts: []provider.Artifact{
			{Ref: info.Ref, Name: "x.txt", Size: info.Size}}})
	if err != nil || len(found.Files) != 1 {
		t.Fatalf("%v %+v", err, found)
	}
	f, err := q.Open(found.Files[0].SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, 20)
	if n, _ := f.Read(got); string(got[:n]) != content {
		t.Errorf("the file is %q", got[:n])
	}
}

// TestOwnTime is what a turn with a small file costs besides the provider.
func TestOwnTime(t *testing.T) {
	server, client := open(t)
	q, err := provider.OpenQuarantine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	best := time.Hour
	for range 10 {
		server.Script(providertest.Turn{Text: "ok", Steps: []providertest.Step{
			{Code: "x", Files: []providertest.Made{{Name: "a", Data: []byte("a")}}}}})
		begun := time.Now()
		in, err := client.Files().Upload(t.Context(), provider.Upload{Name: "in", Size: 1, Body: strings.NewReader("x")})
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Run(t.Context(), provider.RunRequest{Model: "gpt-5.1", Input: user("go"),
			Files: []provider.Attachment{{File: in}}}, func(provider.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := (&provider.Collector{Quarantine: q}).Collect(t.Context(), client, nil, r); err != nil ||
			len(found.Files) != 1 {
			t.Fatal(err, found)
		}
		best = min(best, time.Since(begun))
	}
	t.Logf("upload, run, list and fetch: %v, the test server's time in it", best)
}

func TestBadInput(t *testing.T) {
	if _, err := openai.New(openai.Options{}); provider.KindOf(err) != provider.Auth ||
		!strings.Contains(provider.HintOf(err), "OPENAI_API_KEY") {
		t.Errorf("no key: %v", err)
	}
	server, _ := open(t)
	for name, c := range map[string]struct {
		o    openai.Options
		kind provider.Kind
	}{
		"wrong key":    {openai.Options{Key: "sk-wrong", URL: server.URL + "/v1"}, provider.Auth},
		"network gone": {openai.Options{Key: "k", URL: "http://127.0.0.1:1/v1"}, provider.Transient},
	} {
		c.o.HTTP = provider.HTTPClient(provider.HTTPOptions{})
		t.Cleanup(c.o.HTTP.CloseIdleConnections)
		client, err := openai.New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Check(t.Context(), ""); provider.KindOf(err) != c.kind || provider.HintOf(err) == "" ||
			strings.Contains(err.Error(), "sk-wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
