package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/assist/provider"
)

// turn collects the replies of a turn.
type turn struct {
	client *Client
	sink   provider.Sink
	result *provider.RunResult
	known  string // the container, once it is known
	before string // the text of the earlier calls of this turn
	told   map[string]bool
}

// once reports whether this is the first call with a key.
func (t *turn) once(key string) bool {
	if t.told == nil {
		t.told = map[string]bool{}
	}
	if t.told[key] {
		return false
	}
	t.told[key] = true
	return true
}

// read adds a complete reply.
func (t *turn) read(reply *responses.Response) {
	r := t.result
	r.Usage.Add(provider.Usage{Input: reply.Usage.InputTokens, Output: reply.Usage.OutputTokens,
		Cached: reply.Usage.InputTokensDetails.CachedTokens})
	if reply.Model != "" {
		r.Model = reply.Model
	}
	r.Stop = provider.StopDone
	switch r.StopDetail = reply.IncompleteDetails.Reason; {
	case reply.Status == responses.ResponseStatusFailed:
		r.Stop = provider.StopError
	case reply.Status != responses.ResponseStatusIncomplete:
	case r.StopDetail == "max_output_tokens", r.StopDetail == "max_messages":
		r.Stop = provider.StopLength
	case r.StopDetail == "content_filter":
		r.Stop = provider.StopRefused
	default:
		r.Stop = provider.StopError
	}
	r.Text = t.before
	for _, item := range reply.Output {
		t.item(item)
	}
}

// item adds a finished item, which may come more than once.
func (t *turn) item(item responses.ResponseOutputItemUnion) {
	switch it := item.AsAny().(type) {
	case responses.ResponseCodeInterpreterToolCall:
		t.session(it.ContainerID)
		t.step(interpreted(it))
		for n, out := range it.Outputs {
			if image, ok := out.AsAny().(responses.ResponseCodeInterpreterToolCallOutputImage); ok {
				t.picture(it, n, image.URL)
			}
		}
	case responses.ResponseFunctionShellToolCall:
		t.session(it.Environment.ContainerID)
		t.step(provider.Step{ID: it.CallID, Tool: "shell", Language: "bash", Code: strings.Join(it.Action.Commands, "\n"),
			Outcome: provider.OutcomeUnknown})
	case responses.ResponseFunctionShellToolCallOutput:
		t.shellOutput(it)
	case responses.ResponseOutputMessage:
		t.message(it)
	}
}

func (t *turn) session(id string) {
	if id == "" {
		return
	}
	t.known = id
	if !slices.ContainsFunc(t.result.Sessions, func(s provider.Session) bool { return s.ID == id }) {
		s := provider.Session{ID: id, Active: true}
		t.result.Sessions = append(t.result.Sessions, s)
		t.sink.Send(provider.SessionStarted{Session: s})
	}
}

// step adds or updates a step.
func (t *turn) step(s provider.Step) {
	steps := &t.result.Steps
	if i := slices.IndexFunc(*steps, func(k provider.Step) bool { return k.ID == s.ID }); i >= 0 {
		if s.Outcome == provider.OutcomeUnknown && (*steps)[i].Outcome != provider.OutcomeUnknown {
			return
		}
		(*steps)[i] = s
	} else {
		*steps = append(*steps, s)
	}
	if t.once("start " + s.ID) {
		t.sink.Send(provider.StepStarted{Step: s})
	}
	if s.Outcome != provider.OutcomeUnknown && t.once("done "+s.ID) {
		t.sink.Send(provider.StepDone{Step: s})
	}
}

// interpreted returns the step of a call of Code Interpreter. The call has no exit code and
// no stderr, and its status is "completed" also after an exception: only a traceback in the
// logs tells.
func interpreted(it responses.ResponseCodeInterpreterToolCall) provider.Step {
	s := provider.Step{ID: it.ID, Tool: "code_interpreter", Language: "python", Code: it.Code, Detail: string(it.Status),
		Outcome: provider.OutcomeOK}
	for _, out := range it.Outputs {
		if logs, ok := out.AsAny().(responses.ResponseCodeInterpreterToolCallOutputLogs); ok {
			s.Stdout += logs.Logs
		}
	}
	switch {
	case it.Status == responses.ResponseCodeInterpreterToolCallStatusFailed:
		s.Outcome = provider.OutcomeFailed
	case it.Status == responses.ResponseCodeInterpreterToolCallStatusIncomplete,
		it.Status == responses.ResponseCodeInterpreterToolCallStatusInProgress, !it.JSON.Outputs.Valid():
		s.Outcome = provider.OutcomeUnknown
	case strings.Contains(s.Stdout, "Traceback (most recent call last)"):
		s.Outcome = provider.OutcomeFailed
	}
	return s
}

// picture adds a picture that the code showed. If the container has a file with the same
// bytes, the collector merges them.
func (t *turn) picture(it responses.ResponseCodeInterpreterToolCall, n int, address string) {
	head, data, ok := strings.Cut(address, ",")
	kind, isData := strings.CutPrefix(head, "data:")
	kind, isBase64 := strings.CutSuffix(kind, ";base64")
	if !ok || !isData || !isBase64 || !t.once(fmt.Sprint("picture ", it.ID, n)) {
		return
	}
	bytes, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.sink.Send(provider.Notice{Text: "A picture that the code showed came damaged and was left out."})
		return
	}
	t.found(provider.Artifact{Ref: provider.FileRef{Provider: provider.OpenAI, Scope: provider.ScopeInline, Inline: bytes},
		MIME: kind, Size: int64(len(bytes)), FoundBy: []provider.Evidence{provider.ByInline}, StepID: it.ID})
}

func (t *turn) found(a provider.Artifact) {
	t.result.Artifacts = append(t.result.Artifacts, a)
	t.sink.Send(provider.FileFound{Artifact: a})
}

func (t *turn) shellOutput(it responses.ResponseFunctionShellToolCallOutput) {
	i := slices.IndexFunc(t.result.Steps, func(s provider.Step) bool { return s.ID == it.CallID })
	s := provider.Step{ID: it.CallID, Tool: "shell", Language: "bash"}
	if i >= 0 {
		s = t.result.Steps[i]
	}
	s.Stdout, s.Stderr, s.Outcome = "", "", provider.OutcomeOK
	for _, out := range it.Output {
		s.Stdout += out.Stdout
		s.Stderr += out.Stderr
		code := int(out.Outcome.ExitCode)
		switch {
		case out.Outcome.Type == "timeout":
			s.Outcome, s.Detail = provider.OutcomeTimeout, out.Outcome.Type
		case code != 0:
			s.Outcome = provider.OutcomeFailed
			s.ExitCode = &code
		case s.ExitCode == nil && s.Outcome == provider.OutcomeOK:
			s.ExitCode = &code
		}
	}
	t.step(s)
}

// message adds the text and its citations. The citation of a picture that was shown has a
// generated name ("cfile_….png") and no position in the text.
func (t *turn) message(it responses.ResponseOutputMessage) {
	for n, part := range it.Content {
		if part.Type == "refusal" {
			t.result.Stop, t.result.StopDetail = provider.StopRefused, "refusal"
			t.result.Text += part.Refusal
			continue
		}
		t.result.Text += part.Text
		for k, a := range part.Annotations {
			t.cited(it.ID, n, k, a.RawJSON())
		}
	}
}

// cited adds a citation of a container file, or of the older type file_path, which the SDK
// still has.
func (t *turn) cited(message string, part, n int, raw string) {
	var a struct {
		Type        string `json:"type"`
		ContainerID string `json:"container_id"`
		FileID      string `json:"file_id"`
		Filename    string `json:"filename"`
	}
	if json.Unmarshal([]byte(raw), &a) != nil || a.FileID == "" ||
		!t.once(fmt.Sprint("cited ", message, " ", part, " ", n)) {
		return
	}
	ref := provider.FileRef{Provider: provider.OpenAI, Scope: provider.ScopeSession, ID: a.FileID, Session: a.ContainerID}
	switch a.Type {
	case "container_file_citation":
		// The container of a citation may be another turn's: it is listed, but neither
		// used nor deleted, unless no other container of the turn is known.
		if t.known == "" {
			t.session(a.ContainerID)
		}
	case "file_path":
		ref.Scope = provider.ScopeFile
	default:
		return
	}
	t.found(provider.Artifact{Ref: ref, Name: a.Filename, MIME: mime.TypeByExtension(path.Ext(a.Filename)), Size: -1,
		FoundBy: []provider.Evidence{provider.ByAnnotation}})
}

// stream makes one request and sends its events. The result has the items that were finished
// before a stream broke off; their files exist.
func (t *turn) stream(ctx context.Context, p responses.ResponseNewParams) (*responses.Response, error) {
	events := t.client.sdk.Responses.NewStreaming(ctx, p)
	defer events.Close()
	for events.Next() {
		switch ev := events.Current(); ev.Type {
		case "response.output_text.delta":
			t.result.Text += ev.Delta
			t.sink.Send(provider.TextDelta{Text: ev.Delta})
		case "response.code_interpreter_call_code.delta":
			t.sink.Send(provider.CodeDelta{StepID: ev.ItemID, Language: "python", Code: ev.Delta})
		case "response.shell_call_command.delta":
			t.sink.Send(provider.CodeDelta{StepID: ev.ItemID, Language: "bash", Code: ev.Delta})
		case "response.output_item.added":
			if call, ok := ev.Item.AsAny().(responses.ResponseCodeInterpreterToolCall); ok {
				t.session(call.ContainerID)
			}
		case "response.output_item.done":
			if ev.Item.Type != "message" { // its text came as deltas
				t.item(ev.Item)
			}
		case "response.output_text.annotation.added":
			t.cited(ev.ItemID, int(ev.ContentIndex), int(ev.AnnotationIndex), ev.Annotation.RawJSON())
		case "response.completed", "response.incomplete", "response.failed":
			reply := ev.Response
			return &reply, t.outcome(&reply)
		case "error":
			return nil, t.client.ended("run", problem{Message: ev.Message, Code: ev.Code})
		}
	}
	if err := events.Err(); err != nil {
		return nil, t.client.failed("run", err)
	}
	return nil, &provider.Error{Kind: provider.Transient, Provider: provider.OpenAI, Op: "run",
		Message: "the answer broke off before its end", Ambiguous: true}
}
