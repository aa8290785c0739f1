package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

type applyOptions struct {
	root, project, phase, message, approve, zip string
	only                                        []string
	propose, bestEffort, prompt, yes            bool
	ours, theirs, readings                      []string
}

func (a *Assistant) apply() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply [REPLY.md|-]",
		Short: "Applies an AI reply to a folder: shows what would change, asks, and does it all or not at all",
		Long: `Applies an AI reply to a folder: shows what would change, asks, and does it all
or not at all. "-" reads the reply from standard input while it arrives:

  model | airlock apply -            shows files as they come, asks at the end
  airlock apply --root site reply.md

A script does it in two steps, or says that it agrees:

  airlock apply --propose --json reply.md         what would change, with ids
  airlock apply --approve TXN --only f1 --only p1
  airlock apply --yes reply.md                    all that needs no person
  airlock apply --yes --theirs src/a.go reply.md  and this file over what is there

The exit code is 3 if files wait for a person or the reply has nothing to apply,
4 after a conflict, and 5 if anything in the reply was refused.

With --project the folder is the one that the project is linked with, and
progress, submissions and escalations in the reply are reported to its API.
airlock undo reverts everything.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return workError(a.applyReply(cmd.Context(), o, args))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.root, "root", "", "`DIR` to apply the reply to; the project's folder, or else the current one")
	f.StringVar(&o.project, "project", "", "`ID` of the project whose folder it is, and to whom is reported")
	f.StringVar(&o.phase, "phase", "",
		"phase of the conversation; a reply is applied in E (EXECUTE) or without a phase, and only shown in others")
	f.StringVar(&o.message, "message", "",
		"JSON `FILE` with the reply as a message; the receipt is stored in it as metadata.executionResult")
	f.BoolVar(&o.propose, "propose", false, "keep the proposal for --approve, and change nothing")
	f.StringVar(&o.approve, "approve", "", "carry out the kept proposal `TXN`")
	f.StringArrayVar(&o.only, "only", nil,
		"`GLOB` of files; with --approve the id of a file (f1), a hunk (f1:h2) or a report (p1); may be repeated")
	f.StringArrayVar(&o.ours, "ours", nil,
		"`GLOB` of files in conflict that stay as they are in the folder; may be repeated")
	f.StringArrayVar(&o.theirs, "theirs", nil,
		"`GLOB` of files in conflict of which the proposed content is taken; may be repeated")
	f.StringArrayVar(&o.readings, "reading", nil,
		"`FILE=ID` takes one reading of a file that can be read in several ways, such as README.md=r2; may be repeated")
	f.BoolVar(&o.bestEffort, "best-effort", false,
		"make each file a transaction of its own, so that one failure stops no other")
	f.StringVar(&o.zip, "zip", "", "write the proposed files to the archive `FILE` and change nothing")
	f.BoolVar(&o.prompt, "print-prompt", false,
		"print the text that makes a model write such replies, and with --project the decisions to tell it")
	f.BoolVarP(&o.yes, "yes", "y", false, "agree to everything that needs no person")
	return a.WithFlags(cmd, config.Project)
}

func (a *Assistant) applyReply(ctx context.Context, o applyOptions, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	if o.prompt {
		return a.withOutbox(ctx, func(d *localState) error { return a.printPrompt(ctx, d, o) })
	}
	w := &work{Assistant: a, options: o}
	var m changes.Message
	var r *reply.Reply
	var source []byte
	if o.approve == "" { // read before root becomes another user
		var err error
		if o.propose && o.message == "" && os.Geteuid() == 0 { // the service gets it too
			if source, err = a.Read(args[0]); err != nil {
				return err
			}
			a.Streams.In = bytes.NewReader(source)
		}
		if m, r, w.message, err = a.readReply(ctx, o, args); err != nil {
			return err
		}
		m.Only, w.from, w.reply = o.only, m, r
		w.from.Only = o.only
	}
	folder, err := a.folderOf(ctx, o, m)
	if err != nil {
		return err
	}
	return a.withStateFor(ctx, folder, func(d *localState) (err error) {
		w.state = d
		if o.approve != "" {
			return w.approveKept(ctx)
		}
		if w.handled, w.proposal, err = d.Propose(ctx, owner, m, r); err != nil {
			return err
		}
		if err := w.resolveFiles(ctx); err != nil {
			return err
		}
		if err := w.decide(ctx); err != nil || !o.propose || w.handled.Root == "" {
			return err
		}
		tell := []string{"apply", "--propose", "--json", "--root", w.handled.Root, "-"}
		for flag, value := range map[string]string{"--project": m.Project, "--phase": m.Phase} {
			if value != "" {
				tell = append(tell, flag, value)
			}
		}
		a.tell(d, w.handled.Root, bytes.NewReader(source), tell...)
		return nil
	})
}

func (o *applyOptions) check(args []string) error {
	inputs := len(args)
	for _, given := range []bool{o.message != "", o.approve != "", o.prompt} {
		if given {
			inputs++
		}
	}
	switch {
	case inputs == 0:
		return command.Fail(command.ExitUsage, `name a file, or "-" for standard input`, "there is no reply to apply")
	case inputs > 1:
		return command.Fail(command.ExitUsage, "", "only one of REPLY, --message, --approve and --print-prompt can be given")
	case o.propose && (o.yes || o.approve != "" || o.zip != ""):
		return command.Fail(command.ExitUsage, "--propose changes nothing; `airlock apply --approve TXN` then carries it out",
			"--propose does not go with --approve, --zip or --yes")
	case o.zip != "":
		if _, err := os.Lstat(o.zip); err == nil {
			return zipError(o.zip, fs.ErrExist)
		}
		if err := command.CheckFolder(filepath.Dir(o.zip)); err != nil {
			return zipError(o.zip, err)
		}
	}
	return nil
}

// zipError returns the error of an archive that cannot be made.
func zipError(name string, err error) error {
	return command.Fail(command.ExitConflict, "choose a new name in a folder that you can write to",
		"%s cannot be made: %w", name, err)
}

func (a *Assistant) printPrompt(ctx context.Context, d *localState, o applyOptions) error {
	r := promptReport{Version: reply.PromptVersion, Prompt: reply.Prompt()}
	if o.project != "" {
		open, err := d.Outbox.Decisions(ctx, assignment.Query{Project: o.project}, true)
		if err != nil {
			return err
		}
		r.Decisions = assignment.DecisionText(open)
	}
	return a.Print(r)
}

type promptReport struct {
	Version   string `json:"version"`
	Prompt    string `json:"prompt"`
	Decisions string `json:"decisions,omitempty"`
}

func (r promptReport) WriteText(p *command.Page) {
	fmt.Fprint(p, r.Prompt)
	if r.Decisions != "" {
		fmt.Fprint(p, "\n"+r.Decisions)
	}
}

// work applies one reply to a folder.
type work struct {
	*Assistant
	state    *localState
	options  applyOptions
	handled  *changes.ReplyRecord
	proposal *workspace.Proposal // nil: there is no folder
	message  *messageFile
	from     changes.Message
	reply    *reply.Reply        // nil: the proposal was kept
	held     []workspace.Held    // files that a commit leaves for the user
	left     []workspace.Skipped // files that --ours kept
}

// decide applies the reply as the command line and the policy say, or asks the user.
func (w *work) decide(ctx context.Context) error {
	o := w.options
	switch {
	case o.zip != "":
		return w.archive(ctx)
	case w.handled.Gate != "":
		return w.closed(ctx)
	case w.empty():
		return w.nothing(ctx)
	case w.same():
		return w.unchanged(ctx)
	case o.propose:
		return w.keep(ctx, nil)
	}
	policy, err := w.readPolicy()
	if err != nil {
		return err
	}
	if o.yes {
		return w.agree(ctx)
	}
	if policy != nil {
		consent, err := w.automatic(*policy)
		if err == nil {
			return w.commit(ctx, consent)
		}
		if !w.canAsk() {
			return w.keep(ctx, w.withApproveCommand(err))
		}
	}
	if !w.canAsk() {
		return w.keep(ctx, command.Fail(command.ExitApproval, "look at it and run `airlock apply --approve "+w.handled.ID+
			"`, or give --yes", "it needs your approval first"))
	}
	return w.review(ctx)
}

// closed ends a reply that a gate keeps from being applied. It was shown.
func (w *work) closed(ctx context.Context) error {
	if w.handled.Root == "" && w.options.phase == "" {
		return w.keep(ctx, command.Fail(command.ExitApproval, "`airlock workspace link "+w.handled.Project+
			" DIR` gives it one, and --root DIR names a folder for this reply", "%s", strings.SplitN(w.handled.Gate, ":", 2)[0]))
	}
	return w.keep(ctx, nil)
}

// automatic returns the consent that a policy gives. It covers the whole reply, or with
// --best-effort a part of it.
func (w *work) automatic(policy workspace.Policy) (changes.Consent, error) {
	consent, held := changes.CoveredBy(policy, w.proposal, w.options.bestEffort)
	if consent.Covers(held) {
		w.held = slices.DeleteFunc(held, func(h workspace.Held) bool { return h.Kind != workspace.Ask })
		return consent, nil
	}
	return consent, heldError(held)
}

// heldError returns the error that lists the held files, worst kind first, or nil.
func heldError(held []workspace.Held) error {
	for _, worst := range []struct {
		kind       workspace.Severity
		code       int
		word, hint string
	}{
		{workspace.Refuse, command.ExitRefused, "are refused",
			"they are never written; the rest is, with --only GLOB or --best-effort"},
		{workspace.Conflict, command.ExitConflict, "are in conflict",
			"look at them, and apply the rest with --only GLOB or --best-effort"},
		{workspace.Ask, command.ExitApproval, "need a person", ""}, // see withApproveCommand
	} {
		var list []string
		for _, h := range held {
			if h.Kind == worst.kind {
				rule := strings.TrimSuffix(" ("+h.Rule+")", " ()")
				list = append(list, command.PrintableName(h.Path)+": "+command.Printable(h.Reason)+rule)
			}
		}
		if len(list) > 0 {
			return command.Fail(worst.code, worst.hint, "nothing was changed, since some files %s: %s", worst.word,
				strings.Join(list, "; "))
		}
	}
	return nil
}

// keep saves the proposal for a later approval, and shows it.
func (w *work) keep(ctx context.Context, why error) error {
	if err := w.state.Keep(ctx, w.handled, w.proposal); err != nil {
		return err
	}
	return w.end(why)
}

// approveKept applies a saved proposal.
func (w *work) approveKept(ctx context.Context) (err error) {
	if w.handled, w.proposal, err = w.state.Open(ctx, owner, w.options.approve); err != nil {
		if errors.Is(err, changes.ErrNotFound) {
			return &command.Failure{Code: command.ExitFailed, Word: "not_found", Hint: logHint,
				Err: fmt.Errorf("there is no proposal %.40q", w.options.approve)}
		}
		return err
	}
	if w.handled.ByLink { // else --root named the folder, which is consent
		if err := w.state.CloseUnlinked(ctx, w.handled); err != nil {
			return err
		}
	}
	if err := w.handled.Closed(); err != nil && !w.handled.Done {
		return fmt.Errorf("%w; `airlock workspace link` links it again", err)
	} else if err != nil {
		return err
	}
	if err := w.resolveFiles(ctx); err != nil {
		return err
	}
	if len(w.options.only) == 0 {
		consent, err := w.automatic(workspace.Automatic())
		if err != nil {
			return w.end(w.withApproveCommand(err))
		}
		return w.commit(ctx, consent)
	}
	consent, err := changes.ConsentTo(w.handled, w.proposal, w.options.only)
	if err != nil {
		return w.end(workError(err))
	}
	consent.BestEffort = w.options.bestEffort
	return w.commit(ctx, consent)
}

// commit applies what the consent covers, and reports to the project.
func (w *work) commit(ctx context.Context, consent changes.Consent) error {
	if _, err := w.state.Approve(ctx, w.handled, w.proposal, consent); err != nil {
		return w.failed(ctx, err)
	}
	return w.deliver(ctx)
}

// deliver sends the reports that can be sent now, and ends.
func (w *work) deliver(ctx context.Context) error {
	if len(w.handled.Result.Posts) > 0 {
		if err := w.sendReports(ctx, w.state, w.handled); err != nil {
			return err
		}
	}
	w.proposal = nil // the receipt has it now
	problem := w.resultError()
	if len(w.held) > 0 {
		rest, err := w.keepRest(ctx)
		if err != nil {
			return err
		}
		problem = rest
	}
	return w.end(problem)
}

// failed records the error of a commit. After a conflict it rebases the proposal on
// the files as they are now.
func (w *work) failed(ctx context.Context, cause error) error {
	if err := w.state.Fail(ctx, w.handled, cause); err != nil {
		return errors.Join(cause, err)
	}
	if errors.Is(cause, workspace.ErrConflict) {
		next, err := w.state.Rebase(ctx, w.handled, w.proposal)
		if err != nil {
			return errors.Join(cause, err)
		}
		w.proposal = next
		return w.end(command.Fail(command.ExitConflict, "look at the merged proposal and run `airlock apply --approve "+w.handled.ID+"`", "%w", cause))
	}
	return w.end(workError(cause))
}

// archive writes the proposed files to a ZIP file.
func (w *work) archive(ctx context.Context) error {
	if w.proposal == nil {
		return command.Fail(command.ExitUsage, "name a folder with --root, to which the edits of the reply belong",
			"there are no files to archive")
	}
	name := w.options.zip
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return zipError(name, err)
	}
	if err := errors.Join(w.proposal.WriteZip(ctx, f), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	w.handled.Result.State, w.handled.Result.Reason = changes.ShownOnly,
		"the files were written to "+filepath.Base(name)
	if !w.JSON {
		w.Say("wrote %s", command.PrintableName(name))
	}
	return w.end(nil)
}

// end stores the receipt in the message, and shows it.
func (w *work) end(problem error) error {
	r := applyReport{Proposal: w.proposal, Reports: reportsOf(w.handled), root: w.handled.Root}
	w.handled.Result.FilesSkipped = append(w.handled.Result.FilesSkipped, w.left...)
	r.Metadata.ExecutionResult = w.handled.Result
	r.Outcome = receipt{w.handled.Result, r.root, r.Proposal}.outcome()
	if err := w.message.store(w.handled.Result); err != nil {
		problem = errors.Join(problem, err)
	}
	if problem == nil {
		problem = unanswered(w.handled.Result)
	}
	return w.Finish(&r, problem)
}
