package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/airlock-run/airlock/internal/completions"
	"github.com/airlock-run/airlock/internal/engine"
)

// turn is a request to the model, with all that it takes until it has answered.
type turn struct {
	q        *request
	to       sink
	tools    *toolset
	box      *box
	params   map[string]any // of chat completions, but for messages and tools
	messages []json.RawMessage
	forced   bool // params have a tool_choice that is for the first answer alone
	most     int  // calls of code; negative: as many as there are answers
	usage    completions.Usage
	speaking bool // a message is open
}

// sink tells the client of a turn.
type sink interface {
	text(delta string) error
	// called has more of the arguments of a call.
	called(c *call, more string) error
	// begin comes when the model has begun to answer: errors before it have a status.
	begin() error
	// saying is the text of the open message.
	saying() string
	// said ends a message.
	said(citations []map[string]any) error
	// running says that the code of a call is whole, and ran ends the call.
	running(c *call, code string) error
	ran(c *call, code string, r *ran) error
	// returned ends a call of a function of the client's.
	returned(c *call, status string) error
}

// reasons why a turn ended before the model had answered.
const (
	tooManyTokens   = "max_output_tokens"
	tooManyMessages = "max_messages"
	filtered        = "content_filter"
)

// run asks the model, runs the code that it calls, and asks again, until it answers. The
// reason says why the answer is not whole; empty: it is.
func (t *turn) run(ctx context.Context) (reason string, err error) {
	for round := range t.q.Rounds {
		a, err := t.ask(ctx, round)
		if err != nil {
			return "", err
		}
		code := slices.ContainsFunc(a.Calls, func(c *call) bool {
			return c.State.kind == runsCode || c.State.kind == unknownTool
		})
		functions := slices.ContainsFunc(a.Calls, func(c *call) bool { return c.State.kind == ofClient })
		cut := map[string]string{"length": tooManyTokens, "content_filter": filtered}[a.Finish]
		if err := t.endMessage(a, cut != "" || functions || !code); err != nil {
			return "", err
		}
		if cut != "" {
			return cut, t.cut(a)
		}
		replies, err := t.answer(ctx, a)
		if err != nil || functions || !code {
			return "", err
		}
		t.messages = append(append(t.messages, repeated(a)), replies...)
	}
	return tooManyMessages, nil
}

// repeated is an answer as the next request repeats it.
func repeated(a *answer) json.RawMessage {
	calls := []any{}
	for _, c := range a.Calls {
		calls = append(calls, toolCall(c.ID, c.Name, c.Arguments.String()))
	}
	return encode(map[string]any{"role": "assistant", "content": orNull(a.Text.String()), "tool_calls": calls})
}

// ask makes one request to the model and passes on what comes.
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
		if err := t.to.begin(); err != nil {
			return nil, err
		}
	}
	a, err := read(resp, &hearing{ctx, t})
	t.usage.Add(a.Usage)
	if err != nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return a, err
}

// list are the tools of a request: that which runs code is left out when it has been
// called as often as it may.
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

// hearing passes an answer on.
type hearing struct {
	ctx context.Context //nolint:containedctx // of one answer
	*turn
}

func (h *hearing) text(delta string) error {
	h.speaking = true
	return h.to.text(delta)
}

func (h *hearing) called(c *call, more string) error {
	if c.State.kind == unresolved {
		switch {
		case h.tools.functions[c.Name]:
			c.State.kind = ofClient
		case h.tools.python != "" && c.Name == h.tools.python && h.most != 0:
			c.State.kind = runsCode
			if err := h.box.open(h.ctx); err != nil {
				return err
			}
		default:
			c.State.kind = unknownTool
		}
		if c.State.kind != unknownTool {
			if err := h.endMessage(nil, false); err != nil {
				return err
			}
		}
	}
	if c.State.kind == unknownTool {
		return nil
	}
	return h.to.called(c, more)
}

// endMessage ends the message that is open. The last of a response has the files that
// are not yet cited, even if it says nothing.
func (t *turn) endMessage(a *answer, last bool) error {
	if !t.speaking && (!last || len(t.box.made) == 0 && len(a.Calls) > 0) {
		return nil
	}
	t.speaking = false
	return t.to.said(t.box.cite(t.to.saying(), last))
}

// cut ends the calls of an answer that is not whole. They are not run.
func (t *turn) cut(a *answer) error {
	for _, c := range a.Calls {
		var err error
		switch c.State.kind {
		case runsCode:
			code, _ := codeOf(c)
			err = t.to.ran(c, code, &ran{status: "incomplete", outputs: []output{}})
		case ofClient:
			err = t.to.returned(c, "incomplete")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer runs what the model has called, in its order, and returns the messages that
// tell it what came of it.
func (t *turn) answer(ctx context.Context, a *answer) (replies []json.RawMessage, err error) {
	for _, c := range a.Calls {
		switch c.State.kind {
		case ofClient:
			err = t.to.returned(c, "completed")
		case runsCode:
			var reply string
			if reply, err = t.runCode(ctx, c); err == nil {
				replies = append(replies, toolReply(c.ID, reply))
			}
		default:
			replies = append(replies, toolReply(c.ID,
				fmt.Sprintf("There is no tool %.80q. Call one of those that there are, or answer.", c.Name)))
		}
		if err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func (t *turn) runCode(ctx context.Context, c *call) (reply string, err error) {
	code, ok := codeOf(c)
	failed := func(why string) *ran {
		return &ran{status: "failed", outputs: []output{{Type: "logs", Logs: why + "\n"}}, reply: why}
	}
	if err := t.to.running(c, code); err != nil {
		return "", err
	}
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
	return r.reply, t.to.ran(c, code, r)
}

// failure is the error of a turn that had begun.
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

var errTurn = errors.New("the request took too long")
