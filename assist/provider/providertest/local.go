package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/pytool"
)

// LocalModel is the model of the test server.
const LocalModel = "qwen-test:7b"

// LocalServer is an endpoint for chat completions, with a model that calls run_python for the
// steps of the script. Its [LocalRunner] plays the steps.
type LocalServer struct {
	*Base
	Runner *LocalRunner

	mu      sync.Mutex
	pending *Turn // whose steps are running
}

// NewLocalServer starts a server that ends with the test.
func NewLocalServer(tb testing.TB) *LocalServer {
	s := &LocalServer{}
	NewBase(tb, s, &s.Base)
	s.Runner = &LocalRunner{clock: s.Clock}
	return s
}

// Op implements Dialect.
func (s *LocalServer) Op(r *http.Request) Op {
	switch {
	case strings.HasSuffix(r.URL.Path, "/models"):
		return OpCheck
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		return OpRun
	}
	return OpOther
}

// ExpireSessions implements Dialect. The sessions are the client's, which uses the clock.
func (s *LocalServer) ExpireSessions() { s.Clock.Advance(24 * time.Hour) }

// Objects names the files of the runner.
func (s *LocalServer) Objects() []string { return s.Runner.files.objects(s.Clock.Now()) }

// WriteError implements Dialect.
func (s *LocalServer) WriteError(w http.ResponseWriter, status int, _ time.Duration) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": "injected", "type": "server_error"}})
}

// ServeHTTP implements Dialect.
func (s *LocalServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch s.Op(r) {
	case OpCheck:
		writeJSON(w, 200, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": LocalModel, "object": "model"}}})
	case OpRun:
		s.complete(w, r)
	default:
		writeJSON(w, 404, map[string]any{"error": "not found"})
	}
}

// localMessage is a message of a request.
type localMessage struct {
	Role      string `json:"role"`
	ToolCalls []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

func (s *LocalServer) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model    string         `json:"model"`
		Messages []localMessage `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeJSON(w, 400, map[string]any{"error": err.Error()})
		return
	}
	if q.Model != LocalModel {
		writeJSON(w, 404, map[string]any{"error": map[string]any{"message": "model '" + q.Model + "' not found"}})
		return
	}
	waiting := map[string]bool{}
	for _, m := range q.Messages {
		for _, c := range m.ToolCalls {
			waiting[c.ID] = true
		}
		delete(waiting, m.ToolCallID)
	}
	if len(waiting) > 0 {
		writeJSON(w, 400, map[string]any{"error": "tool calls without replies"})
		return
	}
	s.say(w, q.Model, q.Messages[len(q.Messages)-1].Role == "tool")
}

// say sends the next answer: first the steps of a turn as calls, then its text.
func (s *LocalServer) say(w http.ResponseWriter, model string, replied bool) {
	s.mu.Lock()
	t := s.pending
	if t == nil || !replied {
		next := s.NextTurn()
		t = &next
	}
	s.pending = nil
	var calls []Call
	switch {
	case len(t.Steps) > 0:
		for _, step := range t.Steps {
			arguments, _ := json.Marshal(map[string]string{"code": step.Code})
			calls = append(calls, Call{pytool.Name, arguments})
		}
		s.Runner.expect(t.Steps)
		rest := *t
		rest.Steps = nil
		if !t.Pause {
			s.pending = &rest
		}
	default:
		calls = t.Calls
	}
	s.mu.Unlock()
	e := localEvents{w, model}
	w.Header().Set("Content-Type", "text/event-stream")
	if len(t.Steps) == 0 {
		for _, word := range strings.SplitAfter(t.Text, " ") {
			e.send(map[string]any{"content": word}, "")
		}
	}
	for i, c := range calls {
		id := NewID("call_")
		for n, piece := range slices.Collect(slices.Chunk([]byte(c.Arguments), len(c.Arguments)/2+1)) {
			f := map[string]any{"arguments": string(piece)}
			call := map[string]any{"index": i, "function": f}
			if n == 0 {
				call["id"], call["type"], f["name"] = id, "function", c.Name
			}
			e.send(map[string]any{"tool_calls": []any{call}}, "")
		}
	}
	finish := "stop"
	switch {
	case len(calls) > 0:
		finish = "tool_calls"
	case t.Refuse:
		finish = "content_filter"
	}
	e.send(map[string]any{}, finish)
	fmt.Fprintf(w, "data: %s\n\n", `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20}}`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

type localEvents struct {
	w     http.ResponseWriter
	model string
}

func (e localEvents) send(delta map[string]any, finish string) {
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	sendEvent(e.w, "", map[string]any{"object": "chat.completion.chunk", "model": e.model, "choices": []any{choice}})
}

// LocalRunner is a sandbox that plays the steps of the script instead of running code. It
// implements local.Runner.
type LocalRunner struct {
	clock *Clock
	files shelf

	mu    sync.Mutex
	steps []Step
	ran   []pytool.Request
}

func (l *LocalRunner) expect(steps []Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, steps...)
}

// Ran returns the requests so far.
func (l *LocalRunner) Ran() []pytool.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ran)
}

// Health implements pytool.Runner.
func (l *LocalRunner) Health(context.Context) pytool.Health { return pytool.Health{Connected: true} }

// Upload implements pytool.Runner.
func (l *LocalRunner) Upload(_ context.Context, name string, _ int64, content io.Reader) (string, error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	return l.files.put(&shelved{id: NewID("f"), name: name, mime: pytool.TypeOf(name), data: data,
		created: l.clock.Now()}).id, nil
}

// Files implements local.Runner.
func (l *LocalRunner) Files(context.Context) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		for _, f := range l.files.newest() {
			if !yield(provider.FileInfo{Ref: provider.FileRef{ID: f.id}, Name: f.name, MIME: f.mime, Size: int64(len(f.data)),
				Created: f.created, State: provider.StateReady}, nil) {
				return
			}
		}
	}
}

// Execute implements pytool.Runner. It plays the step with the code, if any.
func (l *LocalRunner) Execute(
	ctx context.Context, r pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	var step Step
	l.mu.Lock()
	l.ran = append(l.ran, r)
	if i := slices.IndexFunc(l.steps, func(s Step) bool { return s.Code == r.Code }); i >= 0 {
		step = l.steps[i]
		l.steps = slices.Delete(l.steps, i, i+1)
	}
	l.mu.Unlock()
	for _, f := range r.Files {
		if l.files.get(f.ID) == nil {
			return pytool.Outcome{}, pytool.ErrFileGone
		}
	}
	if err := ctx.Err(); err != nil {
		return pytool.Outcome{}, err
	}
	output(pytool.Stdout, step.Stdout)
	output(pytool.Stderr, step.Stderr)
	o := pytool.Outcome{ExitCode: &step.Exit, TimedOut: step.TimedOut}
	if o.TimedOut {
		o.ExitCode = nil
	}
	for _, m := range step.Files {
		f := l.files.put(&shelved{id: NewID("f"), name: m.Name, data: m.Data, created: l.clock.Now(), made: true})
		o.Files = append(o.Files, pytool.OutputFile{Path: m.Name, ID: f.id})
	}
	return o, nil
}

// Download implements pytool.Runner.
func (l *LocalRunner) Download(_ context.Context, id string) (io.ReadCloser, error) {
	f := l.files.get(id)
	if f == nil {
		return nil, pytool.ErrFileGone
	}
	return io.NopCloser(strings.NewReader(string(f.data))), nil
}

// Delete implements pytool.Runner.
func (l *LocalRunner) Delete(_ context.Context, id string) error {
	if !l.files.remove(id) {
		return pytool.ErrFileGone
	}
	return nil
}
