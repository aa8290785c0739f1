package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/completions"
	"github.com/airlock-run/airlock/internal/engine"
)

// turn is a request to the model, with all the rounds until the model has answered.
type turn struct {
	q        *request
	to       sink
	tools    *toolset
	box      *box
	params   map[string]any // of chat completions, without messages and tools
	messages []json.RawMessage
	forced   bool // params have a tool_choice that is for the first round only
	most     int  // remaining calls of code; negative: no limit
	usage    completions.Usage
	speaking bool // a message is open
}

// sink tells the client about a turn.
type sink interface {
	// begin is called when the model begins to answer. Errors before it have a status.
	sendStart()
	// begun reports whether a part of the answer has been sent.
	begun() bool
	textDelta(delta string)
	refusalDelta(delta string)
	// callDelta adds to the arguments of a call.
	callDelta(c *call, more string)
	// openText returns the text of the open message.
	openText() string
	// endText ends a message.
	endText(citations []map[string]any)
	// codeReady marks the code of a call as complete, and codeDone ends the call.
	codeReady(c *call, code string)
	codeDone(c *call, code string, r *ran)
	// functionDone ends a call of one of the client's functions.
	functionDone(c *call, status string)
	// finish ends the answer. The fields say why it is not complete.
	finish(status string, fields map[string]any)
}

// The reasons why a turn ended early.
const (
	tooManyTokens   = "max_output_tokens"
	tooManyMessages = "max_messages"
	filtered        = "content_filter"
)

// errTurn is the cause of a turn that took longer than Options.Turn.
var errTurn = errors.New("the request took too long")

// carry runs a turn in one of its owner's slots and finishes its answer. It returns an
// error that came before the answer began.
func (q *request) carry(t *turn) error {
	end, err := q.reserveSlot(q.caller.Owner)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeoutCause(q.Context(), q.Turn, errTurn)
	defer cancel()
	reason, err := t.run(ctx)
	switch {
	case err != nil && !t.to.begun():
		if ctx.Err() != nil && q.Context().Err() == nil {
			return &refusal{http.StatusGatewayTimeout, t.failure(ctx, err)}
		}
		return err
	case err != nil:
		p := t.failure(ctx, err)
		t.to.finish("failed", map[string]any{"error": map[string]any{"code": serverError, "message": p.Message}})
	case reason != "":
		t.to.finish("incomplete", map[string]any{"incomplete_details": map[string]string{"reason": reason}})
	default:
		t.to.finish("completed", nil)
	}
	return nil
}

// run asks the model, runs the code that it calls, and asks again, until it answers. The
// reason is empty if the answer is complete.
func (t *turn) run(ctx context.Context) (reason string, err error) {
	for round := range t.q.Rounds {
		a, err := t.ask(ctx, round)
		if err != nil {
			return "", err
		}
		has := func(kinds ...callKind) bool {
			return slices.ContainsFunc(a.Calls, func(c *call) bool { return slices.Contains(kinds, c.State.kind) })
		}
		again := has(runsCode, unknownTool) && !has(ofClient)
		cut := map[string]string{"length": tooManyTokens, "content_filter": filtered}[a.Finish]
		t.endMessage(len(a.Calls) > 0, cut != "" || !again)
		if cut != "" {
			t.cut(a)
			return cut, nil
		}
		replies, err := t.answer(ctx, a)
		if err != nil || !again {
			return "", err
		}
		t.messages = append(append(t.messages, repeated(a)), replies...)
	}
	return tooManyMessages, nil
}

// repeated returns an answer as a message of the next request.
func repeated(a *answer) json.RawMessage {
	calls := []any{}
	for _, c := range a.Calls {
		calls = append(calls, toolCall(c.ID, c.Name, c.Arguments.String()))
	}
	return encode(map[string]any{"role": "assistant", "content": orNull(a.Text.String() + a.Refusal.String()),
		"tool_calls": calls})
}

// ask makes one request to the model and passes its answer on as it comes.
func (t *turn) ask(ctx context.Context, round int) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := maps.Clone(t.params)
	body["messages"], body["stream"], body["stream_options"] = t.messages, true, map[string]bool{"include_usage": true}
	if list := t.list(); len(list) > 0 {
		body["tools"] = list
		if round > 0 && t.forced {
			body["tool_choice"] = "auto"
		}
	} else {
		delete(body, "tool_choice")
	}
	resp, err := t.q.upstream(ctx, http.MethodPost, "/chat/completions", bytes.NewReader(encode(body)))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if round == 0 {
		t.to.sendStart()
	}
	reader := completions.Reader[callState]{
		Most:    mostAnswer,
		Refusal: func(delta string) { t.speaking = true; t.to.refusalDelta(delta) },
		// Some servers have none.
		ID:     func(given string) string { return cmp.Or(given, "call_"+engine.NewID().String()) },
		Text:   func(delta string) { t.speaking = true; t.to.textDelta(delta) },
		Called: func(c *call, more string) error { return t.called(ctx, c, more) },
	}
	a, err := reader.Read(resp)
	t.usage.Add(a.Usage)
	if err != nil && ctx.Err() != nil {
		return a, ended(ctx)
	}
	if e, ok := errors.AsType[*completions.Error](err); ok {
		if e.Message != "" {
			return a, upstreamFailed("%s", e.Message)
		}
		return a, upstreamFailed("%s%s.", strings.ToUpper(e.Text[:1]), e.Text[1:])
	}
	return a, err
}

// list returns the tools of a request. The tool that runs code is left out once the limit
// on its calls is reached.
func (t *turn) list() []json.RawMessage {
	if t.tools.python == "" || t.most == 0 {
		return t.tools.list
	}
	return append([]json.RawMessage{encode(map[string]any{"type": "function", "function": map[string]any{
		"name": t.tools.python, "description": description + listing(t.box.files),
		"parameters": json.RawMessage(`{"type":"object","properties":{"code":{"type":"string","description":"Python source code"}},"required":["code"],"additionalProperties":false}`),
	}})}, t.tools.list...)
}

const description = `Runs Python in a stateful sandbox: variables, imports and files stay from call to call. Returns what is printed and the value of the last expression. Figures are shown to the user. There is no internet access. Files are in ` + workspace + `. Save results there and link each in the answer as [name](sandbox:` + workspace + `/name).`

// called takes more of the arguments of a call.
func (t *turn) called(ctx context.Context, c *call, more string) error {
	if c.State.kind == unresolved {
		switch {
		case t.tools.functions[c.Name]:
			c.State.kind = ofClient
		case t.tools.python != "" && c.Name == t.tools.python && t.most != 0:
			c.State.kind = runsCode
			if err := t.box.open(ctx); err != nil {
				return err
			}
		default:
			c.State.kind = unknownTool
		}
		if c.State.kind != unknownTool {
			t.endMessage(true, false)
		}
	}
	if c.State.kind != unknownTool {
		t.to.callDelta(c, more)
	}
	return nil
}

// endMessage ends the open message. The last message of a response has the files that are
// not cited yet, even if it has no text.
func (t *turn) endMessage(calls, last bool) {
	if t.speaking || last && (len(t.box.made) > 0 || !calls) {
		t.speaking = false
		t.to.endText(t.box.cite(t.to.openText(), last))
	}
}

// cut ends the calls of an incomplete answer without running them.
func (t *turn) cut(a *answer) {
	for _, c := range a.Calls {
		switch c.State.kind {
		case runsCode:
			code, _ := codeOf(c)
			t.to.codeDone(c, code, &ran{status: "incomplete", outputs: []output{}})
		case ofClient:
			t.to.functionDone(c, "incomplete")
		}
	}
}

// answer carries out the model's calls in order and returns the messages that reply to them.
func (t *turn) answer(ctx context.Context, a *answer) (replies []json.RawMessage, err error) {
	for _, c := range a.Calls {
		switch c.State.kind {
		case ofClient:
			t.to.functionDone(c, "completed")
		case runsCode:
			reply, err := t.runCode(ctx, c)
			if err != nil {
				return nil, err
			}
			replies = append(replies, toolReply(c.ID, reply))
		default:
			replies = append(replies, toolReply(c.ID,
				fmt.Sprintf("There is no tool %.80q. Call one of those that there are, or answer.", c.Name)))
		}
	}
	return replies, nil
}

func (t *turn) runCode(ctx context.Context, c *call) (reply string, err error) {
	code, ok := codeOf(c)
	failed := func(why string) *ran {
		return &ran{status: "failed", outputs: []output{{Type: "logs", Logs: why + "\n"}}, reply: why}
	}
	t.to.codeReady(c, code)
	var r *ran
	switch {
	case !ok:
		r = failed(`The arguments are not {"code": "…"}: nothing was run.`)
	case t.most == 0:
		r = failed("No more code may run for this request: answer with what you have.")
	default:
		t.most--
		if r, err = t.box.run(ctx, code); err != nil {
			if ctx.Err() != nil {
				return "", ended(ctx)
			}
			if kind := engine.KindOf(err); kind != engine.ErrBusy && kind != engine.ErrTooLarge && kind != engine.ErrFull {
				return "", err
			}
			_, p := describe(err)
			r = failed(p.Message)
		}
	}
	t.to.codeDone(c, code, r)
	return r.reply, nil
}

// failure returns the error object of a turn that failed after it had begun.
func (t *turn) failure(ctx context.Context, err error) problem {
	if errors.Is(context.Cause(ctx), errTurn) {
		return problem{Message: fmt.Sprintf("The request took longer than %v.", t.q.Turn), Type: serverError,
			Code: serverError}
	}
	status, p := describe(err)
	if status == http.StatusInternalServerError {
		t.q.Log.Error("openai", "route", t.q.Pattern, "error", err)
	}
	return p
}
