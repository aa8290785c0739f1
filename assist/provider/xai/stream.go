package xai

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/partial"
)

// event is an event of the stream.
type event struct {
	Type     string    `json:"type"`
	Delta    string    `json:"delta"`
	ItemID   string    `json:"item_id"`
	Item     *item     `json:"item"`
	Response *response `json:"response"`
}

type response struct {
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage `json:"error"`
	Usage struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// item is an item of the output. Recorded runs of code have arguments, no "code" and no
// outputs; OpenAI's fields are decoded too.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Code      string          `json:"code"`
	Status    string          `json:"status"`
	Outputs   json.RawMessage `json:"outputs"`
	Output    json.RawMessage `json:"output"`
}

func (i item) code() string {
	var a struct{ Code string }
	if i.Code == "" && json.Unmarshal([]byte(i.Arguments), &a) == nil {
		return a.Code
	}
	return cmp.Or(i.Code, partial.String(i.Arguments, "code"))
}

// isCode reports whether an item is a run of code: the tool has two names.
func (i item) isCode() bool {
	return i.Type == "code_interpreter_call" || i.Type == "code_execution_call"
}

// event handles an event. It returns the response when it is complete.
func (t *turn) event(e event) (*response, error) {
	switch e.Type {
	case "response.output_text.delta":
		t.result.Text += e.Delta
		t.sink.Send(provider.TextDelta{Text: e.Delta})
	case "response.code_interpreter_call_code.delta":
		t.sink.Send(provider.CodeDelta{StepID: e.ItemID, Language: "python", Code: e.Delta})
	case "response.output_item.added":
		if e.Item != nil && e.Item.isCode() {
			t.step(*e.Item)
		}
	case "response.output_item.done":
		if e.Item != nil && e.Item.isCode() {
			t.ran(*e.Item)
		}
	case "response.failed":
		status := http.StatusBadGateway
		if e.Response != nil {
			b, _ := json.Marshal(map[string]json.RawMessage{"error": e.Response.Error})
			return nil, t.c.refused("run", status, nil, b)
		}
		return nil, t.c.refused("run", status, nil, nil)
	case "response.completed", "response.incomplete":
		if e.Response != nil {
			t.finish(e.Response)
		}
		return e.Response, nil
	}
	return nil, nil
}

func (t *turn) step(i item) *provider.Step {
	at, ok := t.open[i.ID]
	if !ok {
		at = len(t.result.Steps)
		t.open[i.ID] = at
		t.result.Steps = append(t.result.Steps, provider.Step{ID: i.ID, Tool: "code_interpreter", Language: "python",
			Outcome: provider.OutcomeUnknown, Started: t.c.options.Clock.Now()})
	}
	return &t.result.Steps[at]
}

// outcome is the envelope of a run, as recorded over gRPC. Its map of files was always empty.
type outcome struct {
	Stdout string                     `json:"stdout"`
	Stderr string                     `json:"stderr"`
	Error  string                     `json:"error"`
	Files  map[string]json.RawMessage `json:"output_files"`
}

// ran handles a run that has ended.
func (t *turn) ran(i item) {
	s := t.step(i)
	s.Code, s.Ended = i.code(), t.c.options.Clock.Now()
	t.sink.Send(provider.StepStarted{Step: *s})
	known := t.outputs(s, i.Outputs) || t.outputs(s, i.Output)
	switch {
	case i.Status == "failed":
		s.Outcome = provider.OutcomeFailed
	case !known: // recorded REST items have no outcome
		s.Outcome = provider.OutcomeUnknown
	case s.Detail != "" || s.Stdout == "" && s.Stderr != "",
		strings.Contains(s.Stdout+s.Stderr, "Traceback (most recent call last)"):
		s.Outcome = provider.OutcomeFailed
	default:
		s.Outcome = provider.OutcomeOK
	}
	t.sink.Send(provider.StepDone{Step: *s})
}

// outputs decodes the output of code in all known formats: the envelope, as an object or as
// text, and OpenAI's list of logs.
func (t *turn) outputs(s *provider.Step, raw json.RawMessage) bool {
	if len(raw) == 0 || string(raw) == "null" {
		return false
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if !t.envelope(s, []byte(text)) {
			s.Stdout += text
		}
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return t.envelope(s, raw)
	}
	for _, raw := range list {
		var logs struct{ Type, Logs string }
		if json.Unmarshal(raw, &logs) == nil && logs.Type == "logs" {
			if !t.envelope(s, []byte(logs.Logs)) {
				s.Stdout += logs.Logs
			}
			continue
		}
		t.envelope(s, raw)
	}
	return true
}

func (t *turn) envelope(s *provider.Step, raw []byte) bool {
	var o outcome
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || json.Unmarshal(raw, &fields) != nil ||
		fields["stdout"] == nil && fields["stderr"] == nil {
		return false
	}
	s.Stdout, s.Stderr, s.Detail = s.Stdout+o.Stdout, s.Stderr+o.Stderr, o.Error
	if len(o.Files) > 0 { // not seen so far
		b, _ := json.Marshal(o.Files)
		t.sink.Send(provider.Notice{Text: "xAI reports output files in a form that is not documented: " +
			string(b[:min(len(b), 500)])})
	}
	return true
}

func (t *turn) finish(r *response) {
	t.result.Model = cmp.Or(r.Model, t.result.Model)
	t.result.Usage.Add(provider.Usage{Input: r.Usage.Input, Output: r.Usage.Output, Cached: r.Usage.Details.Cached})
	t.result.Stop = provider.StopDone
	if r.Incomplete != nil {
		t.result.StopDetail = r.Incomplete.Reason
		switch r.Incomplete.Reason {
		case "max_output_tokens", "max_prompt_tokens":
			t.result.Stop = provider.StopLength
		case "max_time_limit":
			t.result.Stop = provider.StopTime
		case "content_filter":
			t.result.Stop = provider.StopRefused
		}
	}
}
