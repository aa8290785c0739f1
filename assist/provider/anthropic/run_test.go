package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func ask(text string) provider.RunRequest {
	return provider.RunRequest{Model: providertest.AnthropicModel,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: text}}}
}

// The server sends all uses before all results, the last result first.
func TestResultsAreJoinedByID(t *testing.T) {
	c, s := open(t)
	s.Script(providertest.Turn{Steps: []providertest.Step{
		{Code: "cat a", Stdout: "of a", Files: []providertest.Made{{Name: "a.txt", Data: []byte("a")}}},
		{Code: "boom", Stderr: "no", Exit: 3},
		{Language: "python", Code: "while True: pass", TimedOut: true},
		{Language: "python", Code: "print(1)", Stdout: "1\n", Files: []providertest.Made{{Name: "b.txt", Data: []byte("b")}}},
	}, Text: "done"})
	var code strings.Builder
	got, err := c.Run(t.Context(), ask("go"), func(e provider.Event) {
		if d, ok := e.(provider.CodeDelta); ok {
			code.WriteString(d.Code + "|")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		language, code, out, errs, detail string
		outcome                           provider.Outcome
	}
	var lines []line
	for _, step := range got.Steps {
		lines = append(lines, line{step.Language, step.Code, step.Stdout, step.Stderr, step.Detail, step.Outcome})
	}
	want := []line{
		{"bash", "cat a", "of a", "", "", provider.OutcomeOK},
		{"bash", "boom", "", "no", "", provider.OutcomeFailed},
		{"python", "while True: pass", "", "", "execution_time_exceeded", provider.OutcomeTimeout},
		{"python", "print(1)", "1\n", "", "", provider.OutcomeOK},
	}
	if diff := cmp.Diff(want, lines, cmp.AllowUnexported(line{})); diff != "" {
		t.Error(diff)
	}
	if got.Steps[1].ExitCode == nil || *got.Steps[1].ExitCode != 3 {
		t.Errorf("exit code %v", got.Steps[1].ExitCode)
	}
	for _, a := range got.Artifacts {
		if i := map[string]int{"a.txt": 0, "b.txt": 3}[a.Name]; a.StepID != got.Steps[i].ID || a.Size != 1 {
			t.Errorf("%+v is not of step %d", a, i)
		}
	}
	if whole := strings.ReplaceAll(code.String(), "|", ""); whole != "cat aboomwhile True: passprint(1)" {
		t.Errorf("streamed code %q", code.String())
	}
}

// body records what was sent to the model.
type body struct {
	next http.RoundTripper
	sent []map[string]any
}

func (b *body) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/messages") {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		b.sent = append(b.sent, m)
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	return b.next.RoundTrip(r)
}

// A paused turn continues with what came, unchanged, in the same container and
// without a word of ours.
func TestPause(t *testing.T) {
	s := providertest.NewAnthropicServer(t)
	wire := &body{next: http.DefaultTransport}
	c, err := anthropic.New(anthropic.Options{Key: "k", URL: s.URL, Clock: s.Clock, HTTP: &http.Client{Transport: wire}})
	if err != nil {
		t.Fatal(err)
	}
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "a"}}, Pause: true}, providertest.Turn{Text: "done"})
	s.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStatus, Status: 529, Skip: 1})
	got, err := c.Run(t.Context(), ask("go"), nil)
	if err != nil || got.Text != "done" || got.Calls != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	last := wire.sent[len(wire.sent)-1]
	if last["container"] != got.Sessions[0].ID {
		t.Errorf("went on in container %v, not in %v", last["container"], got.Sessions)
	}
	messages := last["messages"].([]any)
	said := messages[len(messages)-1].(map[string]any)
	if len(messages) != 2 || said["role"] != "assistant" || len(said["content"].([]any)) != 2 {
		t.Errorf("went on with %v", messages)
	}
	next := provider.RunRequest{Model: providertest.AnthropicModel, Session: got.Sessions[0].ID,
		Input: append(append(ask("go").Input, got.Next...), provider.Turn{Role: provider.RoleUser, Text: "more"})}
	if _, err := c.Run(t.Context(), next, nil); err != nil {
		t.Errorf("the conversation cannot go on: %v", err)
	}
}

func TestPausesEnd(t *testing.T) {
	c, s := open(t)
	for range 30 {
		s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "a"}}, Pause: true})
	}
	got, err := c.Run(t.Context(), ask("go"), nil)
	if err != nil || got.Stop != provider.StopCalls || got.Calls != 6 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A dead container can answer with a bare 500. A living one can, too.
func TestBareExpiry(t *testing.T) {
	c, s := open(t)
	s.BareExpiry = true
	first, err := c.Run(t.Context(), ask("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	again := ask("more")
	again.Session = first.Sessions[0].ID
	s.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStatus, Status: 500})
	if _, err := c.Run(t.Context(), again, nil); !errors.Is(err, provider.Transient) {
		t.Errorf("one fault with a living container: %v", err)
	}
	if _, err := c.Run(t.Context(), again, nil); err != nil {
		t.Errorf("after the fault: %v", err)
	}
	s.Clock.Advance(2 * time.Hour)
	if _, err := c.Run(t.Context(), again, nil); !errors.Is(err, provider.ContainerExpired) {
		t.Errorf("its time is over: %v", err)
	}
	again.Session = "container_of_another_day"
	if _, err := c.Run(t.Context(), again, nil); !errors.Is(err, provider.ContainerExpired) {
		t.Errorf("one that nobody knows: %v", err)
	}
}

func TestUploads(t *testing.T) {
	c, s := open(t)
	info, err := c.Files().Upload(t.Context(), provider.Upload{
		Name: "a b.csv", Size: 3, Body: strings.NewReader("a,b"), TTL: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "a b.csv" || info.Size != 3 || info.Readable || !info.Expires.Equal(info.Created.Add(2*time.Hour)) {
		t.Errorf("%+v", info)
	}
	if _, _, err := c.Files().Open(t.Context(), info.Ref, 0); !errors.Is(err, provider.NotDownloadable) {
		t.Errorf("an upload is handed out: %v", err)
	}
	for range 8 {
		if _, err := c.Files().Upload(t.Context(), provider.Upload{
			Name: "x", Size: -1, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for f, err := range c.Files().List(t.Context(), provider.Filter{Name: "x"}) {
		if err != nil || f.Name != "x" {
			t.Fatalf("%+v, %v", f, err)
		}
		n++
	}
	if n != 8 {
		t.Errorf("%d files listed, want 8 of three pages", n)
	}
	s.Clock.Advance(3 * time.Hour)
	if _, err := c.Files().Stat(t.Context(), info.Ref); !errors.Is(err, provider.FileExpired) {
		t.Errorf("an expired file: %v", err)
	}
}

// Functions of ours can bring files, which are put into the container.
func TestFunctionBringsFiles(t *testing.T) {
	c, s := open(t)
	info, err := c.Files().Upload(t.Context(), provider.Upload{Name: "more.csv", Size: 1, Body: strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	s.Script(providertest.Turn{Calls: []providertest.Call{{Name: "more", Arguments: []byte(`{}`)},
		{Name: "nobody", Arguments: []byte(`{}`)}}})
	r := ask("go")
	r.Functions = []provider.Function{{Name: "more", Call: func(context.Context, json.RawMessage) (
		provider.FunctionReply, error) {
		return provider.FunctionReply{Text: "here", Files: []provider.Attachment{{File: info}}}, nil
	}}}
	got, err := c.Run(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if raw := string(got.Raw); !strings.Contains(raw, `"container_upload"`) ||
		!strings.Contains(raw, "There is no function of this name.") {
		t.Errorf("went on with %s", raw)
	}
}

// What a turn left that broke off before its result is not known: that is said.
func TestBrokenOffWhileCodeRan(t *testing.T) {
	c, s := open(t)
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "a", Stdout: strings.Repeat("x", 10_000)}}})
	s.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultCut})
	told := false
	got, err := c.Run(t.Context(), ask("go"), func(e provider.Event) {
		_, ok := e.(provider.Notice)
		told = told || ok
	})
	if !errors.Is(err, provider.Transient) || got == nil || !told {
		t.Errorf("%+v, %v, told %v", got, err, told)
	}
}

func TestRefusalAndSchema(t *testing.T) {
	c, s := open(t)
	s.Script(providertest.Turn{Refuse: true})
	if got, err := c.Run(t.Context(), ask("go"), nil); err != nil || got.Stop != provider.StopRefused {
		t.Errorf("%+v, %v", got, err)
	}
	s.Script(providertest.Turn{Text: "I begin.", Steps: []providertest.Step{{Code: "a"}}, Pause: true},
		providertest.Turn{Steps: []providertest.Step{{Code: "b"}}, Text: `{"a":1}`})
	r := ask("go")
	r.Schema = json.RawMessage(`{"type":"object"}`)
	if got, err := c.Run(t.Context(), r, nil); err != nil || got.Text != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoKey(t *testing.T) {
	if _, err := anthropic.New(anthropic.Options{}); !errors.Is(err, provider.Auth) || provider.HintOf(err) == "" {
		t.Error(err)
	}
}

// slow lets the rest of an answer take its time once it is told to.
type slow struct{ from chan struct{} }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/messages") {
		resp.Body = &slowBody{ReadCloser: resp.Body, r: r, from: s.from}
	}
	return resp, err
}

type slowBody struct {
	io.ReadCloser
	r      *http.Request
	from   chan struct{}
	waited bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-b.from:
		if b.waited {
			break
		}
		b.waited = true
		select {
		case <-b.r.Context().Done():
			return 0, b.r.Context().Err()
		case <-time.After(100 * time.Millisecond):
		}
	default:
	}
	return b.ReadCloser.Read(p[:min(len(p), 16)])
}

// A turn that is abandoned while code runs waits for the result, so that what it
// made is known; one that is abandoned otherwise does not.
func TestLeavingWhileCodeRuns(t *testing.T) {
	s := providertest.NewAnthropicServer(t)
	left := make(chan struct{})
	c, err := anthropic.New(anthropic.Options{Key: "k", URL: s.URL, Clock: s.Clock,
		HTTP: &http.Client{Transport: slow{left}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Script(providertest.Turn{Steps: []providertest.Step{{Code: "a",
		Files: []providertest.Made{{Name: "x", Data: []byte("x")}}}}, Text: "done"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := c.Run(ctx, ask("go"), func(e provider.Event) {
		if _, ok := e.(provider.StepStarted); ok {
			cancel()
			close(left)
		}
	})
	if !errors.Is(err, context.Canceled) || got == nil || len(got.Artifacts) != 1 || got.Text != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Run(ctx, ask("go"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Some gateways pass an error on under status 200.
func TestErrorUnderSuccess(t *testing.T) {
	c, s := open(t)
	s.Inject(providertest.Fault{On: providertest.OpStat, Kind: providertest.FaultErrorAs200},
		providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultErrorAs200},
		providertest.Fault{On: providertest.OpUpload, Kind: providertest.FaultErrorAs200})
	if info, err := c.Files().Stat(t.Context(), provider.FileRef{ID: "file_1"}); !errors.Is(err, provider.Transient) {
		t.Errorf("stat: %+v, %v", info, err)
	}
	if got, err := c.Run(t.Context(), ask("go"), nil); err == nil {
		t.Errorf("run: %+v", got)
	}
	if info, err := c.Files().Upload(t.Context(), provider.Upload{
		Name: "x", Size: 1, Body: strings.NewReader("x")}); err == nil {
		t.Errorf("upload: %+v", info)
	}
}
