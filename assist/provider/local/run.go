package local

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/pytool"
)

// Bounds of a turn.
const (
	maxCalls    = 25       // requests
	maxParallel = 4        // scripts at once, of one answer of the model
	maxPicture  = 20 << 20 // bytes of a picture for the model
)

// turn is a turn under way.
type turn struct {
	c        *Client
	r        provider.RunRequest
	sink     provider.Sink
	result   *provider.RunResult
	session  string
	messages []json.RawMessage // added to the conversation by this turn
	ids      map[string]bool   // of calls, also of earlier turns
}

// Run implements provider.Provider.
func (c *Client) Run(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	t := &turn{c: c, r: r, sink: sink, session: r.Session, result: &provider.RunResult{Model: r.Model},
		ids: map[string]bool{}}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	before, err := t.conversation(ctx)
	if err != nil {
		return nil, err
	}
	err = t.loop(ctx, before)
	result, err := exchange.Finish(provider.Local, t.result, t.messages, err)
	if result == nil && r.Session == "" {
		_ = c.sessions.Delete(ctx, t.session) // a set of files in memory
	}
	return result, err
}

// open creates the session if needed and adds the files of the turn.
func (t *turn) open(ctx context.Context) error {
	if t.r.Tool == provider.ToolNone {
		return nil
	}
	if t.session == "" {
		var spec provider.SessionSpec
		for _, turn := range t.r.Input {
			for _, a := range turn.Files {
				spec.Files = append(spec.Files, a.File)
			}
		}
		s, err := t.c.sessions.Create(ctx, spec)
		if err != nil {
			return err
		}
		t.session = s.ID
		t.result.Sessions = []provider.Session{s}
	} else {
		s, err := t.c.sessions.Get(ctx, t.session)
		if err != nil {
			return err
		}
		t.result.Sessions = []provider.Session{s}
	}
	for _, a := range t.r.Files {
		if _, err := t.c.sessions.Add(ctx, t.session, a.File); err != nil {
			return err
		}
	}
	return nil
}

// conversation returns the input as messages.
func (t *turn) conversation(ctx context.Context) (all []json.RawMessage, err error) {
	add := func(m message) {
		b, _ := json.Marshal(m) // of strings
		all = append(all, b)
	}
	if t.r.Instructions != "" {
		add(message{Role: "system", Content: t.r.Instructions})
	}
	for i, turn := range t.r.Input {
		if len(turn.Raw) > 0 && turn.Provider == provider.Local {
			raw, err := exchange.Earlier[json.RawMessage](provider.Local, turn)
			if err != nil {
				return nil, err
			}
			all = append(all, raw...)
			t.know(raw)
			continue
		}
		m := message{Role: string(turn.Role), Content: turn.Text}
		if i == len(t.r.Input)-1 {
			if m.Content, err = t.question(ctx, turn); err != nil {
				return nil, err
			}
		}
		add(m)
	}
	return all, nil
}

// know records the ids of the calls of an earlier turn.
func (t *turn) know(raw []json.RawMessage) {
	for _, text := range raw {
		var m message
		if json.Unmarshal(text, &m) != nil {
			continue // not a message with calls
		}
		for _, call := range m.ToolCalls {
			t.ids[call.ID] = true
		}
	}
}

// question returns the content of the last turn: its text, the names of the files, and the
// pictures for the model.
func (t *turn) question(ctx context.Context, turn provider.Turn) (any, error) {
	text := turn.Text
	if t.session != "" {
		files, err := t.c.sessions.files(t.session)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, f := range files {
			names = append(names, f.Ref.Path)
		}
		if len(names) > 0 {
			text += "\n\n(Files in the working directory: " + strings.Join(names, ", ") + ")"
		}
	}
	parts := []any{map[string]any{"type": "text", "text": text}}
	for _, a := range t.r.Files {
		if !a.See || !strings.HasPrefix(a.File.MIME, "image/") {
			continue
		}
		body, _, err := t.c.Files().Open(ctx, a.File.Ref, 0)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(body, maxPicture+1))
		body.Close()
		if err != nil || len(data) > maxPicture {
			return nil, &provider.Error{Kind: provider.TooLarge, Provider: provider.Local, Op: "show " + a.File.Name,
				Message: fmt.Sprintf("it cannot be read, or is over %d bytes", maxPicture), Err: err}
		}
		parts = append(parts, map[string]any{"type": "image_url",
			"image_url": map[string]any{"url": "data:" + a.File.MIME + ";base64," + base64.StdEncoding.EncodeToString(data)}})
	}
	if len(parts) == 1 {
		return text, nil
	}
	return parts, nil
}

func (t *turn) loop(ctx context.Context, before []json.RawMessage) error {
	q := request{Model: t.r.Model, Stream: true, StreamOptions: map[string]bool{"include_usage": true},
		MaxTokens: t.r.MaxTokens}
	var err error
	if q.Tools, err = tools(t.r); err != nil {
		return err
	}
	if len(t.r.Schema) > 0 {
		q.ResponseFormat = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": cmp.Or(t.r.SchemaName, "answer"), "schema": t.r.Schema, "strict": true}}
	}
	most := cmp.Or(max(t.r.MaxCalls, 0), maxCalls)
	for {
		q.Messages = slices.Concat(before, t.messages)
		a, err := t.ask(ctx, q)
		if err != nil {
			return err
		}
		if t.result.Calls++; t.result.Calls == 1 && t.r.Session == "" && t.session != "" {
			t.sink.Send(provider.SessionStarted{Session: t.result.Sessions[0]})
		}
		t.result.Model = cmp.Or(a.Model, t.r.Model)
		t.result.Usage.Add(provider.Usage{Input: a.Usage.Prompt, Output: a.Usage.Completion, Cached: a.Usage.Prompted.Cached})
		calls := t.tell(a)
		if len(calls) == 0 {
			t.result.Stop = stopOf(a.Finish)
			return nil
		}
		if t.result.Calls >= most {
			t.messages = t.messages[:len(t.messages)-1] // calls without replies cannot stand in a conversation
			t.result.Stop = provider.StopCalls
			return nil
		}
		if err := t.answer(ctx, calls); err != nil {
			return err
		}
	}
}

func stopOf(finish string) provider.Stop {
	switch finish {
	case "length":
		return provider.StopLength
	case "content_filter":
		return provider.StopRefused
	}
	return provider.StopDone
}

// ask makes one request of the turn.
func (t *turn) ask(ctx context.Context, q request) (*answer, error) {
	sink := t.sink
	if t.result.Text != "" { // a blank line separates the texts of answers
		sink = func(e provider.Event) {
			if _, ok := e.(provider.TextDelta); ok && !strings.HasSuffix(t.result.Text, "\n\n") && len(t.r.Schema) == 0 {
				t.result.Text += "\n\n"
				t.sink.Send(provider.TextDelta{Text: "\n\n"})
			}
			t.sink.Send(e)
		}
	}
	return exchange.Ask(ctx, t.result.Calls, t.c.options.Retry, func(ctx context.Context) (*answer, error) {
		return t.complete(ctx, q, sink)
	})
}

// tell adds an answer to the conversation and returns its calls.
func (t *turn) tell(a *answer) []toolCall {
	m := message{Role: "assistant", Content: a.Text.String()}
	for _, c := range a.Calls {
		m.ToolCalls = append(m.ToolCalls, toolCall{c.ID, "function", function{c.Name, c.Arguments.String()}})
	}
	if len(t.r.Schema) > 0 {
		t.result.Text = ""
	}
	t.result.Text += a.Text.String()
	b, _ := json.Marshal(m) // of strings
	t.messages = append(t.messages, b)
	return m.ToolCalls
}

func (t *turn) reply(id, text string) {
	b, _ := json.Marshal(message{Role: "tool", Content: text, ToolCallID: id}) // of strings
	t.messages = append(t.messages, b)
}

// answer carries out calls, first scripts in parallel, then functions of the caller one by
// one, and adds the replies in the order of the calls.
func (t *turn) answer(ctx context.Context, calls []toolCall) error {
	var scripts []toolCall
	for _, call := range calls {
		if call.Function.Name == pytool.Name && t.r.Tool != provider.ToolNone {
			scripts = append(scripts, call)
		}
	}
	replies, err := t.scripts(ctx, scripts)
	if err != nil {
		return err
	}
	for _, call := range calls {
		if text, ok := replies[call.ID]; ok {
			t.reply(call.ID, text)
			continue
		}
		text, err := t.call(ctx, call)
		if err != nil {
			return err
		}
		t.reply(call.ID, text)
	}
	return nil
}

// scripts runs scripts in parallel. All see the same files.
func (t *turn) scripts(ctx context.Context, calls []toolCall) (map[string]string, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	files, err := t.c.sessions.files(t.session)
	if err != nil {
		return nil, err
	}
	results, failures := make([]ran, len(calls)), make([]error, len(calls))
	events := make(chan provider.Event)
	go func() {
		defer close(events)
		var running errgroup.Group
		running.SetLimit(maxParallel)
		for i, call := range calls {
			running.Go(func() error {
				results[i], failures[i] = t.c.run(ctx, t.session, files, call, func(e provider.Event) { events <- e })
				return nil
			})
		}
		_ = running.Wait()
	}()
	for e := range events { // until all are done: only this goroutine calls the sink
		t.sink.Send(e)
	}
	replies := map[string]string{}
	for i, r := range results {
		t.keep(ctx, r)
		if failures[i] != nil {
			err = provider.Failed(provider.Local, "run code", failures[i])
			continue
		}
		replies[calls[i].ID] = r.reply
	}
	return replies, err
}

// keep records the results of a script.
func (t *turn) keep(ctx context.Context, r ran) {
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	for _, id := range t.c.sessions.made(t.session, r.made) {
		_ = t.c.Files().Delete(cleaning, provider.FileRef{ID: id}) // else it expires
	}
	for _, f := range r.made {
		a := provider.Artifact{Ref: f.Ref, Name: f.Name, MIME: f.MIME, Size: -1,
			FoundBy: []provider.Evidence{provider.ByResultBlock}, StepID: r.step.ID, Created: f.Created}
		t.result.Artifacts = append(t.result.Artifacts, a)
		t.sink.Send(provider.FileFound{Artifact: a})
	}
	t.result.Steps = append(t.result.Steps, r.step)
	t.sink.Send(provider.StepDone{Step: r.step})
}

// call calls a function of the caller.
func (t *turn) call(ctx context.Context, call toolCall) (string, error) {
	reply, _, err := exchange.Call(ctx, t.r.Functions, t.sink, call.Function.Name,
		json.RawMessage(call.Function.Arguments))
	if err != nil {
		return "", err
	}
	var names []string
	for _, a := range reply.Files {
		in, err := t.c.sessions.Add(ctx, t.session, a.File)
		if err != nil {
			return "", err
		}
		names = append(names, in.Ref.Path)
	}
	if len(names) > 0 {
		reply.Text += "\n(Now in the working directory: " + strings.Join(names, ", ") + ")"
	}
	return reply.Text, nil
}
