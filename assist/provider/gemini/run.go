package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// maxCalls bounds the requests of a turn. Each after the first replies to function calls.
const maxCalls = 20

// turn is a turn under way.
type turn struct {
	c        *Client
	r        provider.RunRequest
	sink     provider.Sink
	result   *provider.RunResult
	open     int // the running step; -1: none
	messages []*genai.Content
}

// Run implements provider.Provider. It always streams.
func (c *Client) Run(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	before, err := conversation(r)
	if err != nil {
		return nil, err
	}
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	t := &turn{c: c, r: r, sink: sink, open: -1, result: &provider.RunResult{Model: r.Model}}
	err = t.loop(ctx, before, config)
	return exchange.Finish(provider.Gemini, t.result, t.messages, err)
}

// configure returns the parts of a request besides the conversation.
func configure(r provider.RunRequest) (*genai.GenerateContentConfig, error) {
	config := &genai.GenerateContentConfig{MaxOutputTokens: int32(min(r.MaxTokens, 1<<30))} //nolint:gosec // bounded
	if r.Instructions != "" {
		config.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: r.Instructions}}}
	}
	if r.Tool != provider.ToolNone {
		config.Tools = append(config.Tools, &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
	}
	var ours []*genai.FunctionDeclaration
	for _, f := range r.Functions {
		d := &genai.FunctionDeclaration{Name: f.Name, Description: f.Description}
		if len(f.Parameters) > 0 {
			if err := json.Unmarshal(f.Parameters, &d.ParametersJsonSchema); err != nil {
				return nil, invalid("the parameters of "+f.Name+" are not JSON", err)
			}
		}
		ours = append(ours, d)
	}
	if len(ours) > 0 {
		config.Tools = append(config.Tools, &genai.Tool{FunctionDeclarations: ours})
	}
	if len(r.Schema) > 0 {
		config.ResponseMIMEType = "application/json"
		if err := json.Unmarshal(r.Schema, &config.ResponseJsonSchema); err != nil {
			return nil, invalid("the schema of the answer is not JSON", err)
		}
	}
	return config, nil
}

func invalid(what string, err error) error {
	return &provider.Error{Kind: provider.Invalid, Provider: provider.Gemini, Op: "run", Message: what, Err: err}
}

// conversation returns the input as contents. Every turn sends its files again: the service
// keeps none.
func conversation(r provider.RunRequest) (all []*genai.Content, err error) {
	given := map[string]bool{}
	for i, t := range r.Input {
		if len(t.Raw) > 0 && t.Provider == provider.Gemini {
			raw, err := exchange.Earlier[*genai.Content](provider.Gemini, t)
			if err != nil {
				return nil, err
			}
			// Turns of the service's other API have no parts: their text is sent.
			if !slices.ContainsFunc(raw, func(c *genai.Content) bool { return c == nil || len(c.Parts) == 0 }) {
				all = append(all, raw...)
				continue
			}
		}
		c := &genai.Content{Role: genai.RoleUser}
		if t.Role == provider.RoleAssistant {
			c.Role = genai.RoleModel
		}
		if i == len(r.Input)-1 {
			c.Parts = attach(c.Parts, r.Files, given)
		}
		c.Parts = attach(c.Parts, t.Files, given)
		if t.Text != "" {
			c.Parts = append(c.Parts, &genai.Part{Text: t.Text})
		}
		if len(c.Parts) > 0 {
			all = append(all, c)
		}
	}
	return all, nil
}

// attach adds files, each after its name, which the service does not pass to the model.
func attach(parts []*genai.Part, attached []provider.Attachment, given map[string]bool) []*genai.Part {
	for _, a := range attached {
		f := a.File
		key := f.Ref.ID
		if f.Ref.Scope == provider.ScopeInline {
			key = "inline " + f.Name
		}
		if given[key] {
			continue
		}
		given[key] = true
		parts = append(parts, &genai.Part{Text: "File " + f.Name + ":"})
		if f.Ref.Scope == provider.ScopeInline {
			parts = append(parts, &genai.Part{InlineData: &genai.Blob{MIMEType: f.MIME, Data: f.Ref.Inline}})
			continue
		}
		parts = append(parts, &genai.Part{FileData: &genai.FileData{FileURI: f.Ref.URI, MIMEType: f.MIME}})
	}
	return parts
}

func (t *turn) loop(ctx context.Context, before []*genai.Content, config *genai.GenerateContentConfig) error {
	most := cmp.Or(max(t.r.MaxCalls, 0), maxCalls)
	for {
		contents := slices.Concat(before, t.messages)
		got, err := exchange.Ask(ctx, t.result.Calls, t.c.options.Retry, func(ctx context.Context) (*genai.Content, error) {
			return t.ask(ctx, contents, config)
		})
		if err != nil {
			return err
		}
		t.messages = append(t.messages, got)
		t.result.Calls++
		var calls []*genai.FunctionCall
		for _, p := range got.Parts {
			if p.FunctionCall != nil {
				calls = append(calls, p.FunctionCall)
			}
		}
		if len(calls) == 0 {
			return nil
		}
		if t.result.Calls >= most {
			t.messages = t.messages[:len(t.messages)-1] // calls without replies cannot stand in a conversation
			t.result.Stop = provider.StopCalls
			return nil
		}
		reply, err := t.call(ctx, calls)
		if err != nil {
			return err
		}
		t.messages = append(t.messages, reply)
	}
}

// ask makes one request.
func (t *turn) ask(
	ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig,
) (*genai.Content, error) {
	whole := &genai.Content{Role: genai.RoleModel}
	begun, finish := false, genai.FinishReason("")
	var usage *genai.GenerateContentResponseUsageMetadata
	ctx, ended := withEnding(ctx)
	// An error is the end: the SDK would continue with a nil response.
	for resp, err := range t.c.sdk.Models.GenerateContentStream(ctx, t.r.Model, contents, config) {
		if err != nil {
			return nil, exchange.Broken(provider.Gemini, t.c.failed("run", err), begun)
		}
		begun = true
		if resp.UsageMetadata != nil {
			usage = resp.UsageMetadata
		}
		if resp.ModelVersion != "" {
			t.result.Model = resp.ModelVersion
		}
		t.result.RequestID = resp.ResponseID
		if f := resp.PromptFeedback; f != nil && f.BlockReason != "" {
			finish = genai.FinishReasonSafety
			t.result.StopDetail = string(f.BlockReason)
		}
		for _, c := range resp.Candidates[:min(len(resp.Candidates), 1)] {
			if c.Content != nil {
				for _, p := range c.Content.Parts {
					whole.Parts = append(whole.Parts, p)
					t.part(p)
				}
			}
			if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
				finish = c.FinishReason
			}
		}
	}
	if finish == "" {
		return nil, exchange.Broken(provider.Gemini,
			errors.Join(ctx.Err(), ended.err, errors.New("the answer broke off")), begun)
	}
	t.result.Stop = stopOf(finish)
	if t.result.Stop != provider.StopDone && t.result.StopDetail == "" || finish == genai.FinishReasonUnexpectedToolCall ||
		finish == genai.FinishReasonMalformedFunctionCall {
		t.result.StopDetail = string(finish)
	}
	if usage != nil {
		t.result.Usage.Add(provider.Usage{Input: int64(usage.PromptTokenCount + usage.ToolUsePromptTokenCount),
			Output: int64(usage.CandidatesTokenCount + usage.ThoughtsTokenCount), Cached: int64(usage.CachedContentTokenCount)})
	}
	return whole, nil
}

func stopOf(f genai.FinishReason) provider.Stop {
	switch f {
	case genai.FinishReasonMaxTokens:
		return provider.StopLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonImageSafety, genai.FinishReasonImageProhibitedContent:
		return provider.StopRefused
	}
	return provider.StopDone
}

// part handles a part of the reply; parts come in order.
func (t *turn) part(p *genai.Part) {
	switch {
	case p.ExecutableCode != nil:
		id := p.ExecutableCode.ID
		if id == "" { // models before Gemini 3
			id = fmt.Sprintf("code-%d", len(t.result.Steps)+1)
		}
		s := provider.Step{ID: id, Tool: "code_execution", Language: strings.ToLower(string(p.ExecutableCode.Language)),
			Code: p.ExecutableCode.Code, Outcome: provider.OutcomeUnknown, Started: t.c.options.Clock.Now()}
		t.open = len(t.result.Steps)
		t.result.Steps = append(t.result.Steps, s)
		t.sink.Send(provider.CodeDelta{StepID: id, Language: s.Language, Code: s.Code})
		t.sink.Send(provider.StepStarted{Step: s})
	case p.CodeExecutionResult != nil:
		t.ran(p.CodeExecutionResult)
	case p.InlineData != nil:
		a := provider.Artifact{Ref: provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeInline,
			Inline: p.InlineData.Data},
			MIME: p.InlineData.MIMEType, Size: int64(len(p.InlineData.Data)), FoundBy: []provider.Evidence{provider.ByInline}}
		if n := len(t.result.Steps); n > 0 {
			a.StepID = t.result.Steps[n-1].ID
		}
		t.result.Artifacts = append(t.result.Artifacts, a)
		t.sink.Send(provider.FileFound{Artifact: a})
	case p.Text != "" && !p.Thought:
		t.result.Text += p.Text
		t.sink.Send(provider.TextDelta{Text: p.Text})
	}
}

// ran handles the result of the code with its id, or of the last code.
func (t *turn) ran(r *genai.CodeExecutionResult) {
	at := t.open
	for i, s := range t.result.Steps {
		if r.ID != "" && s.ID == r.ID {
			at = i
		}
	}
	if at < 0 {
		return
	}
	s := &t.result.Steps[at]
	s.Detail, s.Ended = string(r.Outcome), t.c.options.Clock.Now()
	switch r.Outcome {
	case genai.OutcomeOK:
		s.Outcome, s.Stdout = provider.OutcomeOK, r.Output
	case genai.OutcomeFailed:
		s.Outcome, s.Stderr = provider.OutcomeFailed, r.Output
	case genai.OutcomeDeadlineExceeded:
		s.Outcome, s.Stdout = provider.OutcomeTimeout, r.Output
	default:
		s.Outcome, s.Stdout = provider.OutcomeUnknown, r.Output
	}
	t.open = -1
	t.sink.Send(provider.StepDone{Step: *s})
}

// call calls functions of the caller for the model.
func (t *turn) call(ctx context.Context, calls []*genai.FunctionCall) (*genai.Content, error) {
	reply := &genai.Content{Role: genai.RoleUser}
	var brought []provider.Attachment
	for _, c := range calls {
		args, err := json.Marshal(c.Args)
		if err != nil {
			return nil, invalid("the arguments of a call are not JSON", err)
		}
		if c.Args == nil {
			args = []byte("{}")
		}
		result, failed, err := exchange.Call(ctx, t.r.Functions, t.sink, c.Name, args)
		if err != nil {
			return nil, err
		}
		answer := map[string]any{"output": result.Text}
		if failed {
			answer = map[string]any{"error": result.Text}
		}
		brought = append(brought, result.Files...)
		reply.Parts = append(reply.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: c.ID, Name: c.Name, Response: answer}})
	}
	reply.Parts = attach(reply.Parts, brought, map[string]bool{})
	return reply, nil
}
