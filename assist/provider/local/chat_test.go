package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/pytool"
)

func ask(text string) provider.RunRequest {
	return provider.RunRequest{Model: providertest.LocalModel,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: text}}}
}

// Servers differ in how they stream calls of tools.
func TestShapesOfCalls(t *testing.T) {
	call := func(text string) string {
		return "data: {\"choices\":[{\"delta\":{\"tool_calls\":[" + text + "]}}]}\n\n"
	}
	end := "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
	for name, body := range map[string]string{
		"by the book": call(`{"index":0,"id":"a","function":{"name":"run_python","arguments":""}}`) +
			call(`{"index":0,"function":{"arguments":"{\"code\":"}}`) +
			call(`{"index":0,"function":{"arguments":"\"one\"}"}}`) +
			call(`{"index":1,"id":"b","function":{"name":"run_python","arguments":"{\"code\":\"two\"}"}}`) + end +
			"data: [DONE]\n\n",
		"pieces in turns": call(
			`{"index":0,"id":"a","function":{"name":"run_python","arguments":"{\"code\":"}},{"index":1,"id":"b","function":{"name":"run_python","arguments":"{\"code\":\"t"}}`) +
			call(`{"index":0,"function":{"arguments":"\"one\"}"}},{"index":1,"function":{"arguments":"wo\"}"}}`) + end,
		"all numbered 0": call(`{"index":0,"id":"a","function":{"name":"run_python","arguments":"{\"code\":\"one\"}"}}`) +
			call(`{"index":0,"id":"b","function":{"name":"run_python","arguments":"{\"code\":\"two\"}"}}`) + end,
		"no ids": call(`{"index":0,"function":{"name":"run_python","arguments":"{\"code\":\"one\"}"}}`) +
			call(`{"index":1,"function":{"name":"run_python","arguments":"{\"code\":\"two\"}"}}`) + end,
		"one id": call(`{"index":0,"id":"a","function":{"name":"run_python","arguments":{"code":"one"}}}`) + end +
			"data: [DONE]\n\n",
		"not streamed": `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"run_python","arguments":"{\"code\":\"one\"}"}},{"id":"b","function":{"name":"run_python","arguments":"{\"code\":\"two\"}"}}]},"finish_reason":"tool_calls"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if strings.HasPrefix(body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				if asked++; asked == 1 {
					_, _ = io.WriteString(w, body)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}`)
			}))
			defer s.Close()
			fake := providertest.NewLocalServer(t)
			c, err := local.New(local.Options{URL: s.URL, Runner: fake.Runner})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Run(t.Context(), ask("go"), func(provider.Event) {})
			if err != nil {
				t.Fatal(err)
			}
			var code []string
			for _, step := range got.Steps {
				code = append(code, step.Code)
			}
			want := []string{"one", "two"}
			if name == "one id" {
				want = want[:1]
			}
			if !slices.Equal(code, want) || got.Text != "done" || got.Calls != 2 {
				t.Errorf("ran %q, want %q; %+v", code, want, got)
			}
		})
	}
}

// What code leaves is there for the code after it, in the same turn and the next,
// also under the name of an input, which itself is kept.
func TestFilesOfASession(t *testing.T) {
	c, s := open(t)
	in, err := c.Files().Upload(t.Context(), provider.Upload{Name: "data.csv", Size: -1, Body: strings.NewReader("old")})
	if err != nil {
		t.Fatal(err)
	}
	if in.Size != 3 || in.MIME != "text/csv" {
		t.Errorf("%+v", in)
	}
	s.Script(
		providertest.Turn{Steps: []providertest.Step{{Code: "first",
			Files: []providertest.Made{{Name: "data.csv", Data: []byte("new")}, {Name: "out/b.txt", Data: []byte("b")}}}},
			Pause: true},
		providertest.Turn{Steps: []providertest.Step{{Code: "second",
			Files: []providertest.Made{{Name: "data.csv", Data: []byte("newer")}}}}, Text: "done"},
	)
	r := ask("go")
	r.Files = []provider.Attachment{{File: in}}
	got, err := c.Run(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for f, err := range c.Sessions().Files(t.Context(), got.Sessions[0].ID) {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := c.Files().Open(t.Context(), f.Ref, 1)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(body)
		body.Close()
		content[f.Ref.Path] = string(data)
	}
	if diff := cmp.Diff(map[string]string{"data.csv": "ewer", "out/b.txt": ""}, content); diff != "" {
		t.Error(diff)
	}
	ran := s.Runner.Ran()
	if n := len(ran[1].Files); n != 2 || len(ran[0].Files) != 1 || ran[0].Files[0].ID != in.Ref.ID {
		t.Errorf("ran with %+v", ran)
	}
	if err := c.Sessions().Delete(t.Context(), got.Sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	if left := s.Objects(); len(left) != 1 || !strings.Contains(left[0], in.Ref.ID) {
		t.Errorf("left %v, want the input alone", left)
	}
}

func TestSameNames(t *testing.T) {
	c, _ := open(t)
	session, err := c.Sessions().Create(t.Context(), provider.SessionSpec{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, name := range []string{"a.csv", "a.csv", "../a.csv"} {
		f, err := c.Sessions().Add(t.Context(), session.ID, provider.FileInfo{
			Name: name, Ref: provider.FileRef{ID: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Ref.Path)
	}
	if names[0] == names[1] || names[1] == names[2] || strings.Contains(names[2], "/") {
		t.Errorf("names %q", names)
	}
}

func TestSessionEnds(t *testing.T) {
	c, s := open(t)
	session, err := c.Sessions().Create(t.Context(), provider.SessionSpec{})
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(50 * time.Minute)
	if err := c.Sessions().Touch(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(50 * time.Minute)
	if _, err := c.Sessions().Get(t.Context(), session.ID); err != nil {
		t.Errorf("it was touched: %v", err)
	}
	s.Clock.Advance(11 * time.Minute)
	r := ask("go")
	r.Session = session.ID
	if _, err := c.Run(t.Context(), r, nil); !errors.Is(err, provider.ContainerExpired) {
		t.Errorf("got %v", err)
	}
}

// A picture is shown as one; the names of files are told.
func TestWhatTheModelIsTold(t *testing.T) {
	var sent struct{ Messages []json.RawMessage }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&sent)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)
	}))
	defer s.Close()
	fake := providertest.NewLocalServer(t)
	c, err := local.New(local.Options{URL: s.URL, Runner: fake.Runner})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Files().Upload(t.Context(), provider.Upload{Name: "a.png", Size: 3, Body: strings.NewReader("png")})
	if err != nil {
		t.Fatal(err)
	}
	r := ask("look")
	r.Files = []provider.Attachment{{File: info, See: true}}
	if _, err := c.Run(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(sent.Messages[0]); !strings.Contains(got, "(Files in the working directory: a.png)") ||
		!strings.Contains(got, "data:image/png;base64,cG5n") {
		t.Errorf("sent %s", got)
	}
}

func TestAddress(t *testing.T) {
	fake := providertest.NewLocalServer(t)
	for _, address := range []string{"", "localhost:11434", "ftp://x/v1"} {
		if _, err := local.New(local.Options{URL: address, Runner: fake.Runner}); !errors.Is(err, provider.Invalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	c, err := local.New(local.Options{URL: "http://127.0.0.1:1/v1", Runner: fake.Runner})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context(), "m"); !errors.Is(err, provider.Transient) || provider.HintOf(err) == "" {
		t.Errorf("nobody there: %v", err)
	}
}

// stopper is a runner whose caller leaves while code runs.
type stopper struct {
	local.Runner
	stop context.CancelFunc
}

func (s *stopper) Execute(
	ctx context.Context, _ pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	output(pytool.Stdout, "so far")
	s.stop()
	return pytool.Outcome{}, context.Cause(ctx)
}

// Code that the user stops was stopped: it did not fail, and it was not impossible to run.
func TestStoppedCode(t *testing.T) {
	fake := providertest.NewLocalServer(t)
	fake.Script(providertest.Turn{Steps: []providertest.Step{{Code: "first"}}, Text: "done"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, err := local.New(local.Options{URL: fake.URL + "/v1", Runner: &stopper{fake.Runner, stop}, Clock: fake.Clock})
	if err != nil {
		t.Fatal(err)
	}
	var steps []provider.Step
	_, err = c.Run(ctx, ask("go"), func(e provider.Event) {
		if done, ok := e.(provider.StepDone); ok {
			steps = append(steps, done.Step)
		}
	})
	if !errors.Is(err, context.Canceled) || len(steps) != 1 {
		t.Fatalf("%v, %+v", err, steps)
	}
	if s := steps[0]; s.Outcome != provider.OutcomeCancelled || s.ExitCode != nil || s.Stdout != "so far" ||
		strings.Contains(s.Stdout+s.Stderr+s.Detail, "context") {
		t.Errorf("%+v", s)
	}
}
