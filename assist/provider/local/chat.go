package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/internal/completions"
	"github.com/airlock-run/airlock/internal/partial"
	"github.com/airlock-run/airlock/pytool"
)

// maxList bounds a list of models.
const maxList = 32 << 20

// maxAnswer bounds an answer.
const maxAnswer = 64 << 20

func (c *Client) refused(op string, status int, header http.Header, body []byte) *provider.Error {
	e := &provider.Error{Kind: provider.KindOfStatus(status), Provider: c.Name(), Op: op, Status: status,
		RequestID: header.Get("X-Request-Id"), RetryAfter: provider.RetryAfter(header, c.options.Clock.Now())}
	e.Message, _, e.Code = completions.ErrorText(body)
	e.Message = cmp.Or(e.Message, strings.ToLower(http.StatusText(status)))
	if op == "run" && e.Kind == provider.FileNotFound {
		e.Kind = provider.Invalid
		e.Hint = "Check the address (most end in /v1) and the model's name; Ollama wants the model pulled first."
	}
	if e.Kind == provider.Transient {
		e.Hint = "The model's server failed. Look at its log: it may be loading the model, or be out of memory."
	}
	return e
}

// models returns the names of the models.
func (c *Client) models(ctx context.Context) ([]string, error) {
	resp, err := c.rest.Send(ctx, "check the model", http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(&list); err != nil {
		return nil, nil // an unknown format: the first turn will tell
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// An answer of the model, and a call in it, whose code is decoded as it comes.
type (
	answer = completions.Answer[*partial.Reader]
	call   = completions.Call[*partial.Reader]
)

// complete makes one request.
func (t *turn) complete(ctx context.Context, q request, sink provider.Sink) (*answer, error) {
	resp, err := t.c.rest.Send(ctx, "run", http.MethodPost, "/chat/completions", q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reader := completions.Reader[*partial.Reader]{
		Most: maxAnswer,
		ID:   t.callID,
		Text: func(delta string) { sink.Send(provider.TextDelta{Text: delta}) },
		Called: func(c *call, more string) error {
			if c.Name != pytool.Name {
				return nil
			}
			c.State = cmp.Or(c.State, partial.NewReader("code"))
			if code := c.State.Read(more); code != "" {
				sink.Send(provider.CodeDelta{StepID: c.ID, Language: "python", Code: code})
			}
			return nil
		},
	}
	a, err := reader.Read(resp)
	if e, ok := errors.AsType[*completions.Error](err); ok && e.Message != "" {
		err = &provider.Error{Kind: provider.Transient, Provider: provider.Local, Op: "run", Code: e.Kind, Message: e.Message}
	}
	if err != nil {
		return a, exchange.Broken(provider.Local, err, a.Text.Len() > 0 || len(a.Calls) > 0)
	}
	return a, nil
}

// callID returns a unique id for a call: some models repeat ids, and some servers have none.
func (t *turn) callID(given string) string {
	given = cmp.Or(given, "call_"+strconv.Itoa(len(t.ids)))
	id := given
	for n := 2; t.ids[id]; n++ {
		id = fmt.Sprintf("%s_%d", given, n)
	}
	t.ids[id] = true
	return id
}
