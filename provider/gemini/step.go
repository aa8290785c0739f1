package gemini

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/provider"
)

// event takes one event and reports whether it was the last.
func (t *interaction) event(e interactionEvent) (done bool, err error) {
	switch e.Type {
	case "step.start":
		for len(t.steps) <= e.Index && e.Index < 10_000 {
			t.steps = append(t.steps, json.RawMessage("null"))
		}
		if e.Index < 0 || e.Index >= len(t.steps) {
			return false, invalid("the answer has a step of a number that cannot be", nil)
		}
		t.steps[e.Index] = e.Step
		t.begin(e.Step)
	case "step.delta":
		if e.Index >= 0 && e.Index < len(t.steps) {
			t.steps[e.Index] = t.delta(t.steps[e.Index], e.Delta)
		}
	case "step.stop":
		if e.Index >= 0 && e.Index < len(t.steps) {
			t.end(t.steps[e.Index])
		}
	case "error":
		failed := &provider.Error{Kind: provider.Transient, Provider: provider.Gemini, Op: "run", Message: "the service failed", Unsure: true}
		if e.Error != nil {
			failed.Code, failed.Message = e.Error.Code, e.Error.Message
		}
		if isExpired(failed.Message) {
			failed.Kind = provider.ContainerExpired
		}
		return false, failed
	case "interaction.completed":
		return true, t.completed(e)
	}
	return false, nil
}

func (t *interaction) completed(e interactionEvent) error {
	i := e.Interaction
	if len(i.Steps) > 0 { // whole, with their signatures
		t.steps = i.Steps
	}
	if i.Model != "" {
		t.result.Model = strings.TrimPrefix(i.Model, "models/")
	}
	t.result.RequestID = i.ID
	t.result.Usage.Add(provider.Usage{Input: i.Usage.Input + i.Usage.Tool, Output: i.Usage.Output + i.Usage.Thought, Cached: i.Usage.Cached})
	t.result.Stop, t.result.StopDetail = provider.StopDone, ""
	switch i.Status {
	case "completed", "requires_action":
	case "incomplete", "budget_exceeded", "requires_continuation":
		t.result.Stop, t.result.StopDetail = provider.StopLength, i.Status
	default:
		t.result.Stop, t.result.StopDetail = provider.StopError, i.Status
		return &provider.Error{Kind: provider.Transient, Provider: provider.Gemini, Op: "run", Code: i.Status, Message: "the interaction ended as " + i.Status, Unsure: true}
	}
	return nil
}

// begin takes the start of a step, which may be all of it.
func (t *interaction) begin(raw json.RawMessage) {
	var s step
	if json.Unmarshal(raw, &s) != nil {
		return
	}
	switch s.Type {
	case "code_execution_call":
		t.code(s, "")
	case "model_output":
		for _, c := range s.Content {
			t.say(c.Text)
		}
	}
}

func (t *interaction) say(text string) {
	if text != "" {
		t.result.Text += text
		t.sink.Send(provider.TextDelta{Text: text})
	}
}

// code takes what is known of a run by now.
func (t *interaction) code(s step, before string) {
	var a struct{ Code, Language string }
	_ = json.Unmarshal(s.Arguments, &a) // not there yet
	at := slices.IndexFunc(t.result.Steps, func(k provider.Step) bool { return k.ID == s.ID })
	if at < 0 {
		at = len(t.result.Steps)
		t.result.Steps = append(t.result.Steps, provider.Step{ID: s.ID, Tool: "code_execution", Outcome: provider.OutcomeUnknown, Started: t.c.options.Clock.Now()})
	}
	k := &t.result.Steps[at]
	k.Code, k.Language = a.Code, strings.ToLower(a.Language)
	if more, ok := strings.CutPrefix(a.Code, before); ok && more != "" {
		t.sink.Send(provider.CodeDelta{StepID: s.ID, Language: k.Language, Code: more})
	}
}

// delta adds to a step and returns it.
func (t *interaction) delta(raw, more json.RawMessage) json.RawMessage {
	var s step
	var whole map[string]json.RawMessage
	var d struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Arguments json.RawMessage `json:"arguments"`
		Result    string          `json:"result"`
		IsError   *bool           `json:"is_error"`
		Signature json.RawMessage `json:"signature"`
		Data      string          `json:"data"`
		MIME      string          `json:"mime_type"`
	}
	if json.Unmarshal(raw, &s) != nil || json.Unmarshal(raw, &whole) != nil || json.Unmarshal(more, &d) != nil || whole == nil {
		return raw
	}
	set := func(field string, v any) {
		b, _ := json.Marshal(v) // of strings and JSON
		whole[field] = b
	}
	if len(d.Signature) > 0 {
		whole["signature"] = d.Signature
	}
	switch d.Type {
	case "text":
		t.say(d.Text)
		text := ""
		if n := len(s.Content); n > 0 {
			text = s.Content[n-1].Text
		}
		set("content", []any{map[string]string{"type": "text", "text": text + d.Text}})
	case "image":
		var content []json.RawMessage
		_ = json.Unmarshal(whole["content"], &content) // there may be none yet
		set("content", append(content, more))
	case "code_execution_call":
		var was struct{ Code string }
		_ = json.Unmarshal(s.Arguments, &was) // there may be none yet
		whole["arguments"], s.Arguments = d.Arguments, d.Arguments
		t.code(s, was.Code)
	case "code_execution_result":
		set("result", s.Result+d.Result)
		if d.IsError != nil {
			set("is_error", *d.IsError)
		}
	case "arguments_delta":
		// A string, piece by piece; the object that it stands for at the end.
		var piece, text string
		_ = json.Unmarshal(d.Arguments, &piece)
		if json.Unmarshal(s.Arguments, &text) == nil {
			piece = text + piece
		}
		if json.Valid([]byte(piece)) {
			whole["arguments"] = json.RawMessage(piece)
		} else {
			set("arguments", piece)
		}
	}
	b, err := json.Marshal(whole)
	if err != nil {
		return raw
	}
	return b
}

// end takes a whole step.
func (t *interaction) end(raw json.RawMessage) {
	var s step
	if json.Unmarshal(raw, &s) != nil {
		return
	}
	switch s.Type {
	case "code_execution_call":
		t.code(s, "\x00") // all of its code has been told
		at := slices.IndexFunc(t.result.Steps, func(k provider.Step) bool { return k.ID == s.ID })
		t.sink.Send(provider.StepStarted{Step: t.result.Steps[at]})
	case "code_execution_result":
		at := slices.IndexFunc(t.result.Steps, func(k provider.Step) bool { return k.ID == s.CallID })
		if at < 0 {
			return
		}
		k := &t.result.Steps[at]
		k.Outcome, k.Stdout, k.Ended = provider.OutcomeOK, s.Result, t.c.options.Clock.Now()
		if s.IsError {
			k.Outcome, k.Stdout, k.Stderr = provider.OutcomeFailed, "", s.Result
		}
		t.sink.Send(provider.StepDone{Step: *k})
	case "model_output":
		for _, c := range s.Content {
			data, err := base64.StdEncoding.DecodeString(c.Data)
			if c.Type != "image" || err != nil || len(data) == 0 {
				continue
			}
			a := provider.Artifact{Ref: provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeInline, Inline: data}, MIME: c.MIME, Size: int64(len(data)), FoundBy: []provider.Evidence{provider.ByInline}}
			t.result.Artifacts = append(t.result.Artifacts, a)
			t.sink.Send(provider.FileFound{Artifact: a})
		}
	}
}
