package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"golang.org/x/sync/errgroup"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/internal/partial"
)

// The most requests of a turn: after pauses of the service, each after ten rounds of its own
// loop, and in all.
const (
	maxPauses = 5
	maxCalls  = 20
)

// turn is a turn under way.
type turn struct {
	p         *Client
	r         provider.RunRequest
	sink      provider.Sink
	result    *provider.RunResult
	session   string
	steps     map[string]int  // by the id of the use
	files     map[string]bool // that were seen
	described int             // number of artifacts with a description
	pending   map[string]bool // uses of the tool without a result yet
	code      *partial.Reader // of the present use
	running   atomic.Bool     // pending is not empty
	messages  []message       // added to the conversation by this turn
	text      bool            // the last block was a text
}

// Run implements provider.Provider. It always streams: else a long turn would be cut by
// timeouts.
func (p *Client) Run(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	before, err := conversation(r)
	if err != nil {
		return nil, err
	}
	t := &turn{p: p, r: r, sink: sink, session: r.Session, steps: map[string]int{}, files: map[string]bool{},
		pending: map[string]bool{},
		result:  &provider.RunResult{Model: r.Model}}
	err = t.loop(ctx, before)
	result, err := exchange.Finish(provider.Anthropic, t.result, t.messages, err)
	if err != nil && result != nil {
		t.warn()
	}
	return result, err
}

func (t *turn) loop(ctx context.Context, before []message) error {
	most := cmp.Or(max(t.r.MaxCalls, 0), maxCalls)
	for pauses := 0; ; {
		reply, err := exchange.Ask(ctx, t.result.Calls, t.p.retry, func(ctx context.Context) (*reply, error) {
			return t.ask(ctx, slices.Concat(before, t.messages))
		})
		if err != nil {
			return err
		}
		t.messages = append(t.messages, reply.message)
		t.result.Calls++
		switch reply.stop {
		case sdk.StopReasonPauseTurn:
			if pauses++; pauses > maxPauses || t.result.Calls >= most {
				t.result.Stop, t.result.StopDetail = provider.StopCalls, string(reply.stop)
				return nil
			}
			t.sink.Send(provider.Paused{Calls: t.result.Calls})
		case sdk.StopReasonToolUse:
			if t.result.Calls >= most {
				t.result.Stop, t.result.StopDetail = provider.StopCalls, string(reply.stop)
				return nil
			}
			answer, err := t.call(ctx, reply.message)
			if err != nil {
				return err
			}
			t.messages = append(t.messages, answer)
		default:
			t.result.Stop = stopOf(reply.stop)
			if t.result.Stop != provider.StopDone {
				t.result.StopDetail = string(reply.stop)
			}
			return nil
		}
	}
}

func stopOf(s sdk.StopReason) provider.Stop {
	switch s {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return provider.StopLength
	case sdk.StopReasonRefusal:
		return provider.StopRefused
	}
	return provider.StopDone
}

// reply is the result of one request.
type reply struct {
	message message
	stop    sdk.StopReason
}

// ask makes one request.
func (t *turn) ask(ctx context.Context, messages []message) (*reply, error) {
	request, err := params(t.r, t.session, messages)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	longer, cancel := t.linger(ctx)
	defer cancel()
	stream := t.p.messages.NewStreaming(longer, request, option.WithResponseInto(&resp))
	defer stream.Close()
	var m sdk.Message
	begun, ended := false, false
	for stream.Next() {
		e := stream.Current()
		if err := m.Accumulate(e); err != nil {
			return nil, exchange.Broken(provider.Anthropic, err, begun)
		}
		begun = true
		ended = e.Type == "message_stop"
		t.event(ctx, e, &m)
		t.running.Store(len(t.pending) > 0)
		if ctx.Err() != nil && !t.running.Load() {
			return nil, exchange.Broken(provider.Anthropic, context.Cause(ctx), true)
		}
	}
	if resp != nil {
		t.result.RequestID = resp.Header.Get("Request-Id")
	}
	if err := stream.Err(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = t.p.failed("run", err)
		if begun {
			return nil, exchange.Broken(provider.Anthropic, err, true)
		}
		return nil, t.p.containers.explain(t.session, err, t.p.clock.Now())
	}
	if !ended {
		return nil, exchange.Broken(provider.Anthropic, errors.New("the answer broke off"), begun)
	}
	t.result.Usage.Add(provider.Usage{
		Input:  m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens,
		Output: m.Usage.OutputTokens, Cached: m.Usage.CacheReadInputTokens,
	})
	t.result.Model = m.Model
	whole := message{Role: "assistant"}
	for _, b := range m.Content {
		whole.Content = append(whole.Content, json.RawMessage(b.RawJSON()))
	}
	return &reply{whole, m.StopReason}, nil
}

// drainTimeout is how long a cancelled turn waits for running code.
const drainTimeout = 5 * time.Second

// linger returns a context that ends with ctx, or drainTimeout later if code runs: only its
// result has the ids of the files that have to be deleted.
func (t *turn) linger(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if t.running.Load() {
			time.AfterFunc(drainTimeout, cancel)
		} else {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// call calls functions of the caller for the model.
func (t *turn) call(ctx context.Context, m message) (message, error) {
	answer := message{Role: "user"}
	var files []provider.Attachment
	for _, raw := range m.Content {
		var b block
		if json.Unmarshal(raw, &b) != nil || b.Type != "tool_use" {
			continue
		}
		reply, failed, err := exchange.Call(ctx, t.r.Functions, t.sink, b.Name, b.Input)
		if err != nil {
			return answer, err
		}
		answer.add(resultBlock{"tool_result", b.ID, reply.Text, failed})
		files = append(files, reply.Files...)
	}
	answer.attach(files, map[string]bool{})
	return answer, nil
}

// describe gets the names and sizes of new files: blocks have only ids. A file can be
// fetched without them.
func (t *turn) describe(ctx context.Context) {
	fresh := t.result.Artifacts[t.described:]
	t.described = len(t.result.Artifacts)
	var asking errgroup.Group
	asking.SetLimit(8)
	for i := range fresh {
		asking.Go(func() error {
			a := &fresh[i]
			return t.p.retry.Do(ctx, func(ctx context.Context) error {
				info, err := t.p.Files().Stat(ctx, a.Ref)
				if err == nil {
					a.Name, a.MIME, a.Size, a.Created = info.Name, info.MIME, info.Size, info.Created
				}
				return err
			})
		})
	}
	_ = asking.Wait()
	for _, a := range fresh {
		t.sink.Send(provider.FileFound{Artifact: a})
	}
}

// warn sends a notice if the turn broke off while code ran: the ids of its files come with
// the result, and nothing else tells such a file from one of another program.
func (t *turn) warn() {
	if len(t.pending) > 0 {
		t.sink.Send(provider.Notice{Text: "The turn broke off while code was running. Files that it made meanwhile may be " +
			"left at Anthropic: see airlock provider ls --provider anthropic."})
	}
}
