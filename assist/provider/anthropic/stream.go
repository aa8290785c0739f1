package anthropic

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/partial"
)

// event handles an event of the stream; m includes it.
func (t *turn) event(ctx context.Context, e sdk.MessageStreamEventUnion, m *sdk.Message) {
	t.container(m.Container)
	switch e.Type {
	case "content_block_start":
		t.begin(ctx, []byte(e.ContentBlock.RawJSON()))
	case "content_block_delta":
		t.delta(e.Delta, &m.Content[e.Index])
	case "content_block_stop":
		if b := m.Content[e.Index]; b.Type == "server_tool_use" {
			var whole block
			if json.Unmarshal([]byte(b.RawJSON()), &whole) == nil {
				s := t.step(use(whole))
				t.sink.Send(provider.StepStarted{Step: *s})
			}
		}
	}
}

// container records the container of the turn.
func (t *turn) container(c sdk.Container) {
	if c.ID == "" {
		return
	}
	s := provider.Session{ID: c.ID, Expires: c.ExpiresAt, LastUsed: t.p.clock.Now(), Active: true}
	n := len(t.result.Sessions)
	switch {
	case n == 0 || t.result.Sessions[n-1].ID != c.ID:
		t.result.Sessions = append(t.result.Sessions, s)
		t.sink.Send(provider.SessionStarted{Session: s})
	case t.result.Sessions[n-1].Expires.Equal(c.ExpiresAt):
		return
	default:
		t.result.Sessions[n-1] = s
	}
	t.session = c.ID
	t.p.containers.seen(c.ID, c.ExpiresAt, s.LastUsed)
}

// begin handles the start of a block, which for results is the complete block.
func (t *turn) begin(ctx context.Context, raw []byte) {
	var b block
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	switch {
	case b.Type == "text":
		t.paragraph()
		t.say(b.Text)
	case b.Type == "server_tool_use":
		t.pending[b.ID] = true
		t.code = partial.NewReader(codeField(b.Name))
	case strings.HasSuffix(b.Type, "code_execution_tool_result"):
		delete(t.pending, b.ToolUseID)
		t.done(ctx, b)
	}
	t.text = b.Type == "text"
}

// paragraph separates texts with other blocks between them. An answer with a schema is only
// the last text.
func (t *turn) paragraph() {
	switch {
	case t.text || t.result.Text == "":
	case len(t.r.Schema) > 0:
		t.result.Text = ""
	default:
		t.say("\n\n")
	}
}

func (t *turn) say(text string) {
	if text == "" {
		return
	}
	t.result.Text += text
	t.sink.Send(provider.TextDelta{Text: text})
}

func (t *turn) delta(d sdk.MessageStreamEventUnionDelta, b *sdk.ContentBlockUnion) {
	switch d.Type {
	case "text_delta":
		t.say(d.Text)
	case "input_json_delta":
		if t.sink == nil || b.Type != "server_tool_use" {
			return
		}
		if code := t.code.Read(d.PartialJSON); code != "" {
			t.sink.Send(provider.CodeDelta{StepID: b.ID, Language: languageOf(b.Name), Code: code})
		}
	}
}

// step returns the step of an id, which it adds if needed.
func (t *turn) step(s provider.Step) *provider.Step {
	i, ok := t.steps[s.ID]
	if !ok {
		i = len(t.result.Steps)
		t.steps[s.ID] = i
		s.Started = t.p.clock.Now()
		t.result.Steps = append(t.result.Steps, s)
	}
	return &t.result.Steps[i]
}

// done handles a result. Only its id names its use: several uses can come before several
// results.
func (t *turn) done(ctx context.Context, b block) {
	s := t.step(provider.Step{ID: b.ToolUseID, Tool: strings.TrimSuffix(b.Type, "_tool_result")})
	s.Ended = t.p.clock.Now()
	for _, id := range finish(s, b.Content) {
		if t.files[id] {
			continue
		}
		t.files[id] = true
		t.result.Artifacts = append(t.result.Artifacts, provider.Artifact{
			Ref:  provider.FileRef{Provider: provider.Anthropic, Scope: provider.ScopeFile, ID: id},
			Size: -1, FoundBy: []provider.Evidence{provider.ByResultBlock}, StepID: s.ID,
		})
	}
	t.describe(ctx)
	t.sink.Send(provider.StepDone{Step: *s})
}
