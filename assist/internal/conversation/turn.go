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

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

// turn is a turn in progress.
type turn struct {
	chat     *Chat
	prompt   Prompt
	prompter Prompter
	sink     Sink
	record   *Turn

	attachments []provider.Attachment
	questions   int

	telling sync.Mutex
	order   order
	relayed relayed
	names   stepNames
}

// emit sends an event to the sink, one at a time. It adds notices to the record.
func (t *turn) emit(e Event) {
	t.telling.Lock()
	defer t.telling.Unlock()
	if n, ok := e.(Notice); ok {
		n.Text, n.Hint = t.chat.host.Redact.Error(n.Text), t.chat.host.Redact.Error(n.Hint)
		if n.File == "" {
			t.record.Notices = append(t.record.Notices, n.Text)
		}
		e = n
	}
	if t.sink != nil {
		t.sink(e)
	}
}

// ask puts a question to the user, and records the decision.
func (t *turn) ask(ctx context.Context, q Ask) (Answer, error) {
	t.questions++
	q.ID, q.Turn = fmt.Sprintf("t%dq%d", t.record.Number, t.questions), t.record.Number
	if t.prompter == nil {
		return Answer{}, ErrNonInteractive
	}
	t.emit(Asked{q})
	a, err := t.prompter.Answer(ctx, q)
	if err != nil {
		return a, err
	}
	t.emit(Answered{q.ID, a})
	q.Handled, q.Proposal = nil, nil // recorded by Replies
	q.Outputs = slices.Clone(q.Outputs)
	for i := range q.Outputs {
		q.Outputs[i].Change = nil // as large as the files
	}
	t.record.Decisions = append(t.record.Decisions, Decision{q, a, t.chat.host.Clock.Now().UTC(), len(t.record.Notices)})
	return a, nil
}

// keep saves the turn, before anything happens and at its end.
func (t *turn) keep(ctx context.Context) error {
	c := t.chat
	c.record.Updated = c.host.Clock.Now().UTC()
	err := c.host.PutConversation(ctx, c.record, t.record)
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
	for _, e := range t.relayed.rest(func(*pieces) bool { return true }) {
		t.pass(e)
	}
	if result != nil {
		t.names.steps(result.Steps)
		t.names.artifacts(result.Artifacts)
	}
	c.carry = t.attachments // until the provider has answered
	took := c.host.Clock.Now().Sub(began)
	defer func() {
		counted := failed
		if ctx.Err() != nil {
			counted = nil // the user stopped it: the provider has not failed
		}
		c.host.Counters.Turn(c.record.Settings.Provider, c.record.Settings.Model, took, counted)
	}()
	if result == nil {
		if ctx.Err() != nil && c.Provider.Caps().Outputs == provider.OutputByID {
			t.emit(Notice{Text: "The turn was stopped before its answer began. Files that code made meanwhile may be left at " +
				c.Destination + ".",
				Hint: "`airlock provider ls` lists them."})
		}
		if result = t.remains(ctx, err); result == nil {
			return err
		}
	}
	t.recordResult(result)
	if err == nil {
		c.carry = nil
		user := provider.Turn{Role: provider.RoleUser, Text: t.prompt.Text, Files: t.attachments}
		exchange := append([]provider.Turn{user}, result.Next...)
		c.history = append(c.history, exchange...)
		t.record.Exchange = redactExchange(c.host.Redact, exchange)
	}
	// Outputs are fetched even after an error, unless the user stopped the turn.
	fetching := t.collect(ctx, before, result)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err = errors.Join(err, fetching, t.save(ctx)); err == nil {
		err = errors.Join(t.apply(ctx), t.verdict(result))
	}
	return err
}

// remains returns what is known of a turn whose reply was lost: its session, which may
// have files that code made. It returns nil if there is none.
func (t *turn) remains(ctx context.Context, failed error) *provider.RunResult {
	session := t.chat.tracker.Session()
	if ctx.Err() != nil || session.ID == "" || provider.KindOf(failed) != provider.Transient {
		return nil
	}
	return &provider.RunResult{Sessions: []provider.Session{session}, Stop: provider.StopError}
}

// snapshot lists the files that the session has before the turn.
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
	if hint := provider.Instruct(c.Provider.Name(), s.Model, tool, s.Hints); hint != "" {
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

// decisions returns the answers to the project's escalations that the model has not been
// told yet.
func (t *turn) decisions(ctx context.Context) string {
	s, d := t.chat.record.Settings, t.chat.host.Replies
	told, err := d.Outbox.Decisions(ctx, assignment.Query{Project: s.Project, API: s.API}, true)
	if err != nil {
		t.emit(Notice{Text: "The decisions of the project could not be read, so that the model is not told them: " +
			err.Error()})
		return ""
	}
	return assignment.DecisionText(told)
}

// relay passes on an event of the provider, without secrets.
func (t *turn) relay(e provider.Event) {
	for _, e := range t.relayed.pass(t.names.rename(e)) {
		t.pass(e)
	}
}

func (t *turn) pass(e provider.Event) {
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

// framed reports whether files come in the output of the code. Such output is shown when
// it is complete, without the files.
func (t *turn) framed() bool {
	return t.chat.Provider.Caps().Outputs == provider.OutputStdout
}

// recordResult records the provider's result.
func (t *turn) recordResult(r *provider.RunResult) {
	n, redact := t.record, t.chat.host.Redact
	n.Text, n.Model, n.Stop, n.StopDetail = redact.Text(r.Text), r.Model, r.Stop, redact.Error(r.StopDetail)
	n.Usage, n.Calls, n.RequestID = r.Usage, r.Calls, r.RequestID
	n.Steps = append(n.Steps, redactSteps(redact, r.Steps)...)
	n.Order = t.order.in(n.Text)
	if len(t.prompt.Schema) > 0 {
		n.Answer = firstJSON(n.Text)
	}
}

// firstJSON returns the first complete JSON value of a text. Some models write it twice
// ({…}{…}), or in a fence.
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

// verdict returns the error of a turn that the provider completed.
func (t *turn) verdict(r *provider.RunResult) error {
	s := t.chat.record.Settings
	failed := func(message, hint string) error {
		if r.StopDetail != "" {
			message += " (" + r.StopDetail + ")"
		}
		return &provider.Error{Kind: provider.Invalid, Provider: s.Provider, Op: "run", Message: message, Hint: hint}
	}
	switch r.Stop {
	case provider.StopLength:
		return failed("the answer broke off: it has as many tokens as the model may write",
			"Ask for less at once, or go on with --resume "+t.chat.record.ID+".")
	case provider.StopCalls:
		return failed("the model ran code again and again and was stopped",
			"Go on with --resume "+t.chat.record.ID+", or ask for a smaller step.")
	case provider.StopRefused:
		return failed("the model or the provider's filter refused", "Ask in other words, or ask another model.")
	case provider.StopTime:
		return failed("the provider's time for a turn ran out", "Ask for a smaller step.")
	}
	if len(t.prompt.Schema) > 0 && t.record.Answer == nil {
		return failed("the answer is not the JSON that was asked for", "Ask again, or ask a model that follows schemas.")
	}
	return nil
}

// end completes the record and saves it, even if the context has ended.
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

// ProblemOf describes an error as records have it.
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

// apply proposes the reply of a conversation about a project: the files and edits in it,
// and its reports.
func (t *turn) apply(ctx context.Context) error {
	c, s := t.chat, t.chat.record.Settings
	if s.Project == "" {
		return nil
	}
	d := c.host.Replies
	m := changes.Message{Text: t.record.Text, Project: s.Project, API: s.API, Phase: s.Phase}
	handled, proposal, err := d.Propose(ctx, c.record.Owner, m, reply.Parse([]byte(m.Text)))
	if err != nil {
		return err
	}
	if len(handled.Batch.Posts) == 0 && (proposal == nil || len(proposal.Files) == 0) && handled.Gate == "" {
		return nil // it has neither changes nor reports
	}
	if err := d.Keep(ctx, handled, proposal); err != nil {
		return err
	}
	t.record.Reply, t.record.Result = handled.ID, handled.Result
	t.emit(ReplyProposed{handled.ID, handled.Result})
	if handled.Gate != "" {
		return nil // shown, and that is all
	}
	err = t.approve(ctx, handled, proposal)
	t.record.Result = handled.Result
	t.emit(ReplySettled{handled.ID, handled.Result})
	return err
}

// approve asks until an answer can be carried out. After a conflict it merges the
// proposal with the changed files, and asks again.
func (t *turn) approve(ctx context.Context, h *changes.ReplyRecord, p *workspace.Proposal) error {
	d := t.chat.host.Replies
	for {
		a, err := t.decide(ctx, h, p)
		switch {
		case errors.Is(err, ErrNonInteractive), err == nil && a.Later:
			return nil // it stays a proposal
		case err != nil:
			return err
		case !a.OK || a.Consent == nil:
			return d.Decline(ctx, h, "it was turned down")
		}
		if _, err = d.Approve(ctx, h, p, *a.Consent); !errors.Is(err, workspace.ErrConflict) {
			return err
		}
		t.emit(Notice{Text: err.Error(),
			Hint: "Nothing was changed. The proposal is made anew, on the files as they are now."})
		if p, err = d.Rebase(ctx, h, p); err != nil {
			return err
		}
	}
}

// decide answers by the conversation's policy, or asks if that does not cover all of the
// reply.
func (t *turn) decide(ctx context.Context, h *changes.ReplyRecord, p *workspace.Proposal) (Answer, error) {
	if policy := t.chat.record.Settings.Policy; policy != nil {
		consent, held := changes.CoveredBy(*policy, p, false)
		if consent.Covers(held) {
			return Answer{OK: true, Consent: &consent}, nil
		}
		var names []string
		for _, f := range held {
			names = append(names, f.Path+": "+f.Reason)
		}
		t.emit(Notice{Text: "the policy does not cover all of the reply: " + strings.Join(names, "; ")})
	}
	return t.ask(ctx, Ask{Kind: AskApply, Text: "Apply the reply to the project " + h.Project + "?", Handled: h,
		Proposal: p})
}
