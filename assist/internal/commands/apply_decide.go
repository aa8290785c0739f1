package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/outputrules"
)

// resolveFiles applies the decisions of the command line about files in conflict, and
// about files that can be read in several ways.
func (w *work) resolveFiles(ctx context.Context) error {
	o := &w.options
	if w.proposal == nil || len(o.ours)+len(o.theirs)+len(o.readings) == 0 {
		return nil
	}
	for _, file := range slices.Clone(w.proposal.Files) {
		choice := workspace.Choice("")
		if file.Verdict() == workspace.Conflict {
			switch ours, theirs := picks(o.ours, &file), picks(o.theirs, &file); {
			case ours && theirs:
				return command.Fail(command.ExitUsage, "", "both --ours and --theirs name %s", command.Printable(file.Path))
			case ours:
				choice = workspace.Mine
			case theirs:
				choice = workspace.Theirs
			}
		}
		for _, reading := range o.readings {
			if name, id, _ := strings.Cut(reading, "="); picks([]string{name}, &file) {
				choice = workspace.Choice(id)
			}
		}
		if choice == "" {
			continue
		}
		next, err := w.resolve(ctx, w.proposal, file.ID, choice, nil)
		if err != nil {
			return command.Fail(command.ExitConflict, "look at it with `airlock apply --propose`", "%s cannot be settled so: %w",
				command.Printable(file.Path), err)
		}
		if w.proposal = next; choice == workspace.Mine {
			w.left = append(w.left, workspace.Skipped{Path: file.Path, Reason: "it stays as it is (--ours)"})
		}
	}
	return nil
}

// picks reports whether one of the patterns names a file, by its id or path.
func picks(patterns []string, file *workspace.FileChange) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return pattern == file.ID || pattern == file.Path || outputrules.MatchPath(pattern, file.Path)
	})
}

// empty reports whether the reply has nothing that can be approved.
func (w *work) empty() bool {
	return len(w.handled.Batch.Posts) == 0 && len(w.handled.Batch.Problems) == 0 && len(w.handled.Questions) == 0 &&
		(w.proposal == nil || !slices.ContainsFunc(w.proposal.Files,
			func(f workspace.FileChange) bool { return f.Verdict() != workspace.Refuse }))
}

// same reports whether the folder has all changes of the reply already.
func (w *work) same() bool {
	return len(w.handled.Batch.Posts) == 0 && len(w.handled.Batch.Problems) == 0 && w.proposal != nil &&
		!slices.ContainsFunc(w.proposal.Files, func(f workspace.FileChange) bool {
			return f.Op != workspace.OpUnchanged || f.Verdict() == workspace.Conflict
		})
}

// unchanged ends a reply that changes nothing.
func (w *work) unchanged(ctx context.Context) error {
	if _, err := w.readPolicy(); err != nil { // a wrong policy is reported all the same
		return err
	}
	return w.onlyShown(ctx, changes.AllThere, w.refusals())
}

// onlyShown ends a reply that cannot be approved.
func (w *work) onlyShown(ctx context.Context, reason string, problem error) error {
	w.handled.Done, w.handled.Result.State, w.handled.Result.Reason = true, changes.ShownOnly, reason
	if err := w.state.Keep(ctx, w.handled, nil); err != nil {
		return err
	}
	return w.end(problem)
}

// withApproveCommand adds to the error of a proposal that needs an approval the command that
// approves each file.
func (w *work) withApproveCommand(err error) error {
	f, ok := errors.AsType[*command.Failure](err)
	if !ok || f.Code != command.ExitApproval {
		return err
	}
	return command.Fail(command.ExitApproval, approveEach(w.handled, w.proposal), "%w", f.Err)
}

// approveEach returns the hint with the command that approves each file and report of a kept proposal.
func approveEach(h *changes.ReplyRecord, p *workspace.Proposal) string {
	line := "airlock apply --approve " + h.ID
	for i := range p.Files {
		if file := &p.Files[i]; file.Verdict() != workspace.Refuse && file.Verdict() != workspace.Conflict {
			line += " --only " + file.ID
		}
	}
	for _, report := range reportsOf(h) {
		line += " --only " + report.ID
	}
	return "look at them; `" + line + "` agrees to each by its id"
}

// nothing ends a reply of which nothing can be applied. The error says what was
// refused, or that nothing was found.
func (w *work) nothing(ctx context.Context) error {
	if problem := w.refusals(); problem != nil {
		return w.onlyShown(ctx, "all that it would change was refused", problem)
	}
	return w.onlyShown(ctx, "the reply has nothing to apply", &command.Failure{Code: command.ExitApproval,
		Word: "nothing_found",
		Err:  fmt.Errorf("there is no file, edit, patch or report in the reply"),
		Hint: "`airlock apply --print-prompt` prints the text that makes a model write what is found"})
}

// refusals returns the error that lists what was refused, or nil.
func (w *work) refusals() error {
	var list []string
	if w.proposal != nil {
		for i := range w.proposal.Files {
			if f := &w.proposal.Files[i]; f.Verdict() == workspace.Refuse {
				list = append(list, command.Printable(f.Path)+": "+refusalOf(f))
			}
		}
	}
	for _, s := range w.handled.Shown {
		if s.Block == "" && s.Path == "" && slices.Contains([]reply.Verdict{
			reply.VerdictInvalid, reply.VerdictAmbiguous, reply.VerdictTruncated, reply.VerdictRefused}, s.Verdict) {
			list = append(list, fmt.Sprintf("a change at byte %d of the reply: %s", s.Offset, command.Printable(s.Reason)))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return command.Fail(command.ExitRefused, "ask the model for it again, with the reason", "refused: %s",
		strings.Join(list, "; "))
}

func refusalOf(f *workspace.FileChange) string {
	for _, finding := range f.Findings {
		if finding.Severity == workspace.Refuse {
			return command.Printable(finding.Message) + " (" + finding.Rule + ")"
		}
	}
	return ""
}

// agree applies what --yes covers. Files that need an approval are kept as a proposal
// of their own. A conflict or a refusal stops everything, unless --best-effort makes
// each file a transaction.
func (w *work) agree(ctx context.Context) error {
	consent := changes.Consent{BestEffort: w.options.bestEffort}
	if w.proposal == nil {
		return w.commit(ctx, consent)
	}
	var held []workspace.Held
	consent.Approval, held = w.proposal.ApproveBy(workspace.Automatic())
	some := len(consent.Approval.Files) > 0
	asks := !slices.ContainsFunc(held, func(h workspace.Held) bool { return h.Kind != workspace.Ask })
	if len(held) > 0 && (!some || !asks && !w.options.bestEffort) {
		return w.keep(ctx, w.withApproveCommand(heldError(held)))
	}
	w.held = slices.DeleteFunc(held, func(h workspace.Held) bool { return h.Kind != workspace.Ask })
	return w.commit(ctx, consent)
}

// keepRest saves a proposal of the files that a commit left, and returns the error that says so.
func (w *work) keepRest(ctx context.Context) (problem, err error) {
	m := w.from
	m.Only = nil
	var list []string
	for _, h := range w.held {
		m.Only = append(m.Only, h.Path)
		list = append(list, command.Printable(h.Path)+": "+command.Printable(h.Reason))
	}
	h, p, err := w.state.Propose(ctx, owner, m, w.reply)
	if err != nil {
		return nil, err
	}
	h.Batch.Posts, h.Questions = nil, nil // they were sent or shown
	if err := w.state.Keep(ctx, h, p); err != nil {
		return nil, err
	}
	return command.Fail(command.ExitApproval, approveEach(h, p), "the rest was applied; it waits for a person: %s",
		strings.Join(list, "; ")), nil
}

// resultError returns the error of a commit that left something out or failed in part,
// unless the user has named the files.
func (w *work) resultError() error {
	r := w.handled.Result
	refused := slices.ContainsFunc(r.FilesSkipped, func(s workspace.Skipped) bool { return s.Rule != "" })
	switch {
	case len(r.Conflicts) > 0:
		return command.Exit(command.ExitConflict)
	case refused && len(w.options.only) == 0:
		return command.Exit(command.ExitRefused)
	case r.Failed():
		return command.Exit(command.ExitFailed)
	case w.reply != nil:
		return w.refusals()
	}
	return nil
}
