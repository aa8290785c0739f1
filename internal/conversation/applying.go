package conversation

import (
	"context"
	"errors"
	"strings"

	"github.com/airlock-run/airlock/reply"
	"github.com/airlock-run/airlock/workspace"
)

// apply hands the reply of a conversation about a project to the desk: the
// files and edits in it, and what it reports.
func (t *turn) apply(ctx context.Context) error {
	c, s := t.chat, t.chat.record.Settings
	if s.Project == "" {
		return nil
	}
	d := c.host.Desk
	m := Message{Text: t.record.Text, Project: s.Project, API: s.API, Phase: s.Phase}
	handled, proposal, err := d.Propose(ctx, c.record.Owner, m, reply.Parse([]byte(m.Text)))
	if err != nil {
		return err
	}
	if len(handled.Batch.Posts) == 0 && (proposal == nil || len(proposal.Files) == 0) && handled.Gate == "" {
		return nil // it was an answer and no more
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

// approve asks until there is an answer that can be carried out: what has
// changed meanwhile is merged and shown again.
func (t *turn) approve(ctx context.Context, h *ReplyRecord, p *workspace.Proposal) error {
	d := t.chat.host.Desk
	for {
		a, err := t.decide(ctx, h, p)
		switch {
		case errors.Is(err, ErrNonInteractive), err == nil && a.Later:
			return nil // it is a proposal, for another place
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

// decide answers by the conversation's policy, or asks where it does not cover
// all of the reply.
func (t *turn) decide(ctx context.Context, h *ReplyRecord, p *workspace.Proposal) (Answer, error) {
	if policy := t.chat.record.Settings.Policy; policy != nil {
		consent, held := CoveredBy(*policy, p, false)
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
