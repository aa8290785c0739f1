package conversation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/reply"
)

// turn is one under way.
type turn struct {
	chat   *Chat
	prompt Prompt
	person Prompter
	sink   Sink
	record *Turn

	attachments []provider.Attachment
	questions   int

	telling sync.Mutex
	order   order
	relayed relayed
	names   stepNames
}

// emit tells the sink, one event at a time. Notices become a part of the
// record.
func (t *turn) emit(e Event) {
	t.telling.Lock()
	defer t.telling.Unlock()
	if n, ok := e.(Notice); ok {
		n.Text, n.Hint = t.chat.host.Redact.Error(n.Text), t.chat.host.Redact.Error(n.Hint)
		t.record.Notices = append(t.record.Notices, n.Text)
		e = n
	}
	if t.sink != nil {
		t.sink(e)
	}
}

// ask asks the person, and keeps what was decided.
func (t *turn) ask(ctx context.Context, q Ask) (Answer, error) {
	t.questions++
	q.ID, q.Turn = fmt.Sprintf("t%dq%d", t.record.Number, t.questions), t.record.Number
	if t.person == nil {
		return Answer{}, ErrNonInteractive
	}
	t.emit(Asked{q})
	a, err := t.person.Answer(ctx, q)
	if err != nil {
		return a, err
	}
	t.emit(Answered{q.ID, a})
	q.Handled, q.Proposal = nil, nil // kept by the desk
	q.Outputs = slices.Clone(q.Outputs)
	for i := range q.Outputs {
		q.Outputs[i].Change = nil // as large as the files
	}
	t.record.Decisions = append(t.record.Decisions, Decision{q, a, t.chat.host.Clock.Now().UTC(), len(t.record.Notices)})
	return a, nil
}

// keep writes the turn down, before anything happens and after it.
func (t *turn) keep(ctx context.Context) error {
	c := t.chat
	c.record.Updated = c.host.Clock.Now().UTC()
	err := c.host.Archive.PutConversation(ctx, c.record, t.record)
	c.kept = c.kept || err == nil
	return err
}

func (t *turn) run(ctx context.Context) (failed error) {
	c := t.chat
	if err := c.checkTool(t.prompt); err != nil {
		return err
	}
	if err := t.send(ctx); err != nil {
		return err
	}
	before, err := t.snapshot(ctx)
	if err != nil {
		return err
	}
	began := c.host.Clock.Now()
	result, err := c.tracker.Run(ctx, t.request(ctx), t.relay)
	t.relayAll(t.relayed.rest(func(*pieces) bool { return true }))
	if result != nil {
		t.names.steps(result.Steps)
		t.names.artifacts(result.Artifacts)
	}
	c.carry = t.attachments // until it is known that they arrived
	took := c.host.Clock.Now().Sub(began)
	defer func() {
		counted := failed
		if ctx.Err() != nil {
			counted = nil // the person left: nothing is wrong with the provider
		}
		c.host.Counters.Turn(c.record.Settings.Provider, c.record.Settings.Model, took, counted)
	}()
	if result == nil {
		if ctx.Err() != nil && c.backend.Provider.Caps().Outputs == provider.OutputByID {
			t.emit(Notice{Text: "The turn was stopped before its answer began. Files that code made meanwhile may be left at " +
				c.backend.Destination + ".",
				Hint: "`airlock files ls` lists them."})
		}
		if result = t.remains(ctx, err); result == nil {
			return err
		}
	}
	t.take(result)
	if err == nil {
		c.carry = nil
		user := provider.Turn{Role: provider.RoleUser, Text: t.prompt.Text, Files: t.attachments}
		exchange := append([]provider.Turn{user}, result.Next...)
		c.history = append(c.history, exchange...)
		t.record.Exchange = redactExchange(c.host.Redact, exchange)
	}
	// What there is is fetched although the turn broke off, unless the person
	// has left.
	fetching := t.collect(ctx, before, result)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err = errors.Join(err, fetching, t.save(ctx)); err == nil {
		err = errors.Join(t.apply(ctx), t.verdict(result))
	}
	return err
}

// remains is what is left of a turn whose reply got lost: the session, with the
// files that code may have made there; nil where nothing is known.
func (t *turn) remains(ctx context.Context, failed error) *provider.RunResult {
	session := t.chat.tracker.Session()
	if ctx.Err() != nil || session.ID == "" || provider.KindOf(failed) != provider.Transient {
		return nil
	}
	return &provider.RunResult{Sessions: []provider.Session{session}, Stop: provider.StopError}
}

// snapshot lists what is in the session already.
func (t *turn) snapshot(ctx context.Context) (provider.Snapshot, error) {
	c := t.chat
	if c.tracker.Session().ID == "" {
		return nil, nil // all that is found will be new
	}
	id, err := c.tracker.Ready(ctx, nil, t.relay)
	if err != nil {
		return nil, err
	}
	before, err := t.collector().Snapshot(ctx, c.noted, id)
	if err != nil && provider.KindOf(err) != provider.ContainerExpired {
		return nil, err
	}
	return before, nil
}

func (t *turn) request(ctx context.Context) provider.RunRequest {
	c, s := t.chat, t.chat.record.Settings
	tool := cmp.Or(s.Tool, provider.ToolAuto)
	rules := []string{s.Instructions}
	if hint := provider.Instruct(c.backend.Provider.Name(), s.Model, tool, s.Hints); hint != "" {
		rules = append(rules, hint)
		t.record.HintsVersion = provider.HintsVersion
	}
	if s.Project != "" {
		rules = append(rules, reply.Prompt(), t.decisions(ctx))
	}
	user := provider.Turn{Role: provider.RoleUser, Text: t.prompt.Text, Files: t.attachments}
	r := provider.RunRequest{
		Model: s.Model, Instructions: joinTexts(rules), Tool: tool,
		Input: append(c.history[:len(c.history):len(c.history)], user), Files: t.attachments, Schema: t.prompt.Schema,
	}
	if len(r.Schema) > 0 {
		r.SchemaName = "answer"
	}
	if f, ok := t.browsing(); ok {
		r.Functions = []provider.Function{f}
	}
	return r
}

func joinTexts(texts []string) string {
	var all []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n\n")
}

// decisions are what people have answered to the project's escalations since
// the model was told last.
func (t *turn) decisions(ctx context.Context) string {
	s, d := t.chat.record.Settings, t.chat.host.Desk
	told, err := d.Outbox.Decisions(ctx, assignment.Query{Project: s.Project, API: s.API}, true)
	if err != nil {
		t.emit(Notice{Text: "The decisions of the project could not be read, so that the model is not told them: " +
			err.Error()})
		return ""
	}
	return assignment.DecisionText(told)
}

// relay passes on what the provider tells, without secrets.
func (t *turn) relay(e provider.Event) { t.relayAll(t.relayed.pass(t.names.rename(e))) }

func (t *turn) relayAll(all []provider.Event) {
	for _, e := range all {
		t.relayOne(e)
	}
}

func (t *turn) relayOne(e provider.Event) {
	t.telling.Lock()
	t.order.note(e)
	t.telling.Unlock()
	switch e := e.(type) {
	case provider.TextDelta, provider.CodeDelta, provider.StepStarted, provider.FileFound:
		t.emit(e)
	case provider.OutputDelta:
		if !t.framed() {
			t.emit(e)
		}
	case provider.StepDone:
		if t.framed() {
			_, e.Step.Stdout = provider.Unframe(e.Step.Stdout, provider.MaxFrame)
		}
		t.emit(e)
	case provider.Paused:
		t.emit(Notice{Text: "The provider paused the turn and was asked to go on."})
	case provider.Notice:
		t.emit(Notice{Text: e.Text})
	}
}

// framed reports whether files come in the output of the code, which is shown
// without them, and so when it is whole.
func (t *turn) framed() bool {
	return t.chat.backend.Provider.Caps().Outputs == provider.OutputStdout
}

// take puts what came into the record.
func (t *turn) take(r *provider.RunResult) {
	n, redact := t.record, t.chat.host.Redact
	n.Text, n.Model, n.Stop, n.StopDetail = redact.Text(r.Text), r.Model, r.Stop, redact.Error(r.StopDetail)
	n.Usage, n.Calls, n.RequestID = r.Usage, r.Calls, r.RequestID
	n.Steps = append(n.Steps, redactSteps(redact, r.Steps)...)
	n.Order = t.order.in(n.Text)
	if len(t.prompt.Schema) > 0 {
		n.Answer = firstJSON(n.Text)
	}
}

// firstJSON is the first whole JSON value of a text: some models give it twice
// ({…}{…}), or put a fence around it.
func firstJSON(text string) json.RawMessage {
	start := strings.IndexAny(text, "{[")
	if start < 0 {
		start = 0
	}
	var value json.RawMessage
	if json.NewDecoder(strings.NewReader(text[start:])).Decode(&value) != nil {
		return nil
	}
	var short bytes.Buffer
	if json.Compact(&short, value) != nil {
		return nil
	}
	return short.Bytes()
}

// verdict says what is wrong with a turn that went through.
func (t *turn) verdict(r *provider.RunResult) error {
	s := t.chat.record.Settings
	failed := func(message, hint string) error {
		if r.StopDetail != "" {
			message += " (" + r.StopDetail + ")"
		}
		return &provider.Error{Kind: provider.Invalid, Provider: s.Provider, Op: "run", Message: message, Hint: hint}
	}
	switch {
	case r.Stop == provider.StopLength:
		return failed("the answer broke off: it has as many tokens as the model may write",
			"Ask for less at once, or go on with --resume "+t.chat.record.ID+".")
	case r.Stop == provider.StopCalls:
		return failed("the model ran code again and again and was stopped",
			"Go on with --resume "+t.chat.record.ID+", or ask for a smaller step.")
	case r.Stop == provider.StopRefused:
		return failed("the model or the provider's filter refused", "Ask in other words, or ask another model.")
	case r.Stop == provider.StopTime:
		return failed("the provider's time for a turn ran out", "Ask for a smaller step.")
	case len(t.prompt.Schema) > 0 && t.record.Answer == nil:
		return failed("the answer is not the JSON that was asked for", "Ask again, or ask a model that follows schemas.")
	}
	return nil
}

// end finishes the record and keeps it, whether or not the person is still
// there.
func (t *turn) end(ctx context.Context, err error) error {
	n := t.record
	n.Ended = t.chat.host.Clock.Now().UTC()
	switch {
	case err == nil:
		n.State = TurnDone
	case ctx.Err() != nil:
		n.State, n.Problem = TurnInterrupted, &Problem{Kind: "interrupted", Message: "interrupted"}
	default:
		n.State, n.Problem = TurnFailed, t.chat.host.problem(err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if t.chat.kept {
		if keeping := t.keep(bounded); keeping != nil {
			err = errors.Join(err, keeping)
		}
	}
	t.emit(Ended{n})
	return err
}

// ProblemOf says an error as it is kept.
func ProblemOf(err error) *Problem {
	p := &Problem{Kind: string(provider.KindOf(err)), Message: err.Error(), Hint: provider.HintOf(err)}
	switch {
	case errors.Is(err, ErrApproval):
		p.Kind = "approval_needed"
	case errors.Is(err, ErrDeclined):
		p.Kind = "declined"
	case errors.Is(err, context.Canceled):
		p.Kind = "interrupted"
	case p.Kind == "":
		p.Kind = "failed"
	}
	return p
}
