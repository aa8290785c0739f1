package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

type undoOptions struct {
	root, to  string
	only      []string
	yes, redo bool
}

func (a *Assistant) undo() *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:        "undo [TXN]",
		SuggestFor: []string{"revert", "rollback"},
		Short:      "Reverts a transaction: the newest one, or TXN; later edits of yours stay",
		Long: `Reverts a transaction: the newest one, or TXN, or with --only some of its files
(f1) and hunks (f1:h2). What was edited since stays: the undo is merged around
it, or refused with a diff where the two touch. Git is not needed, and
"airlock redo" reverts the undo.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			if o.to != "" && (id != "" || len(o.only) > 0) {
				return command.Fail(command.ExitUsage, "", "--to reverts whole transactions and goes with neither TXN nor --only")
			}
			return workError(a.revert(cmd.Context(), o, id))
		},
	}
	cmd.Flags().StringArrayVar(&o.only, "only", nil, "`ID` of a file (f1) or a hunk (f1:h2) to revert; may be repeated")
	cmd.Flags().StringVar(&o.to, "to", "", "revert all that came after the transaction `TXN`")
	return a.undoCommand(cmd, &o)
}

func (a *Assistant) redo() *cobra.Command {
	o := undoOptions{redo: true}
	return a.undoCommand(&cobra.Command{
		Use:   "redo",
		Short: "Reverts the newest undo",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return workError(a.revert(cmd.Context(), o, ""))
		},
	}, &o)
}

func (a *Assistant) undoCommand(cmd *cobra.Command, o *undoOptions) *cobra.Command {
	cmd.Flags().StringVar(&o.root, "root", ".", "`DIR` whose transaction it is")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "agree to everything that is no conflict")
	return a.WithFlags(cmd, config.Project)
}

// revert proposes an undo or a redo, asks, and commits it.
func (a *Assistant) revert(ctx context.Context, o undoOptions, id string) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	if err := command.ReadableFolder(root); err != nil {
		return err
	}
	return a.withStateFor(ctx, root, func(d *localState) error {
		ws, err := d.Workspace(ctx, root)
		if err != nil {
			return err
		}
		var p *workspace.Proposal
		switch {
		case o.redo:
			p, err = ws.Redo(ctx)
		case o.to != "":
			p, err = ws.UndoTo(ctx, o.to)
		case id == "":
			p, err = ws.UndoLatest(ctx, o.only...)
		default:
			p, err = ws.Undo(ctx, id, o.only...)
		}
		if err != nil {
			return err
		}
		return a.commitUndo(ctx, ws, p, o.yes)
	})
}

func (a *Assistant) commitUndo(ctx context.Context, ws *workspace.Workspace, p *workspace.Proposal, yes bool) error {
	r := undoReport{Proposal: p, root: p.Root}
	var approval workspace.Approval
	switch {
	case yes:
		// The changes were approved when they were made. Only a conflict needs the user.
		policy := workspace.Policy{Rules: []workspace.PolicyRule{{Decision: workspace.Allow, Sensitive: true}}}
		var held []workspace.Held
		approval, held = p.ApproveBy(policy)
		if f, ok := errors.AsType[*command.Failure](heldError(held)); ok {
			f.Hint = "look at the diff; on a terminal you can choose" + undoRest(ctx, ws, p, approval)
			return a.Finish(&r, f)
		}
	case a.canAsk():
		k, err := a.openKeyboard()
		if err != nil {
			return err
		}
		defer k.close()
		reviewer := &reviewer{keyboard: k, assistant: a, proposal: p, resolve: ws.Resolve}
		consent, err := reviewer.agree(ctx, nil, false)
		if errors.Is(err, errQuit) {
			a.Say("Nothing was changed.")
			return command.Exit(command.ExitApproval)
		}
		if err != nil {
			return command.Interrupted(ctx, err)
		}
		r.Proposal, approval = reviewer.proposal, consent.Approval
	default:
		return a.Finish(&r, command.Fail(command.ExitApproval, "--yes agrees", "it needs your approval first"))
	}
	receipt, err := ws.Commit(ctx, r.Proposal, approval, workspace.CommitOptions{})
	if err != nil {
		return a.Finish(&r, workError(err))
	}
	r.Receipt, r.Proposal = receipt, nil
	return a.Finish(&r, nil)
}

// undoRest continues a hint with the command that undoes what an approval covers, if there is one.
func undoRest(ctx context.Context, ws *workspace.Workspace, p *workspace.Proposal, approval workspace.Approval) string {
	done, _, err := ws.Transaction(ctx, p.Origin.Reverts)
	if err != nil || p.Origin.Kind != "undo" {
		return "" // several transactions, or an undo that is redone as a whole
	}
	ids := ""
	for _, grant := range approval.Files {
		f := p.File(grant.File)
		for i := range done.Files {
			if d := &done.Files[i]; d.Path == f.Path || d.Path == f.From {
				ids += " --only " + d.ID
			}
		}
	}
	if ids == "" {
		return ""
	}
	undo := receipt{Result: &changes.Result{Undo: p.Origin.Reverts}, root: p.Root}.undo()
	return ", and `" + undo + ids + "` reverts the rest"
}

// undoReport is what undo and redo print.
type undoReport struct {
	Proposal *workspace.Proposal `json:"proposal,omitempty"`
	Receipt  *workspace.Receipt  `json:"receipt,omitempty"`
	command.Ended

	root string // the folder
}

func (r undoReport) WriteText(p *command.Page) {
	if r.Proposal != nil {
		for i := range r.Proposal.Files {
			showFile(p, &r.Proposal.Files[i], command.PageWidth)
		}
	}
	if r.Receipt == nil {
		p.Line("Nothing was changed.")
		return
	}
	receipt{Result: changes.ResultOf(r.Receipt), root: r.root}.show(p)
}

func (a *Assistant) history() *cobra.Command {
	root, limit := ".", 20
	cmd := &cobra.Command{
		Use:        "log [TXN]",
		SuggestFor: []string{"history", "changes", "transactions"},
		Short:      "Lists what was done to a folder, the newest first; with TXN what exactly",
		Args:       cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			folder, err := filepath.Abs(root)
			if err != nil {
				return err
			}
			if err := command.ReadableFolder(folder); err != nil {
				return err
			}
			return workError(a.withStateFor(ctx, folder, func(d *localState) error {
				ws, err := d.Workspace(ctx, folder)
				if err != nil {
					return err
				}
				if len(args) > 0 {
					p, record, err := ws.Transaction(ctx, args[0])
					if err != nil {
						return err
					}
					all, err := ws.History(ctx, 0, workspace.Committed, workspace.Proposed)
					if err != nil {
						return err
					}
					t := workspace.Transaction{Record: record}
					for _, known := range all {
						if known.ID == record.ID {
							t = known
						}
					}
					return a.Print(transactionReport{transactionOf(t), p.Files})
				}
				found, err := ws.History(ctx, limit, workspace.Committed, workspace.Proposed)
				if err != nil {
					return err
				}
				r := logReport{Root: ws.Root(), Transactions: []transactionView{}}
				for _, t := range found {
					r.Transactions = append(r.Transactions, transactionOf(t))
				}
				return a.Print(r)
			}))
		},
	}
	cmd.Flags().StringVar(&root, "root", root, "`DIR` whose history it is")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "list no more than `N`; 0 is all")
	return a.WithFlags(cmd)
}

// transactionView is an entry of the history.
type transactionView struct {
	ID       string             `json:"id"`
	State    workspace.State    `json:"state"`
	Time     time.Time          `json:"time"`
	Origin   workspace.Origin   `json:"origin"`
	Files    []string           `json:"files"`
	Reverted string             `json:"reverted,omitempty"`
	Applied  string             `json:"applied_by,omitempty"` // of a proposal: as workspace.Transaction has it
	Receipt  *workspace.Receipt `json:"receipt,omitempty"`
}

func transactionOf(t workspace.Transaction) transactionView {
	shown := transactionView{ID: t.ID, State: t.State, Time: t.Created, Origin: t.Origin, Reverted: t.Reverted,
		Applied: t.AppliedBy, Receipt: t.Receipt, Files: []string{}}
	for i := range t.Files {
		shown.Files = append(shown.Files, t.Files[i].Summary())
	}
	if r := t.Receipt; r != nil && len(t.Files) == 0 { // the files have their own transactions
		shown.Files = append(shown.Files, changes.ResultOf(r).Files()...)
	}
	return shown
}

func (t transactionView) line(p *command.Page) {
	what := t.Origin.Kind
	if t.Origin.Reverts != "" {
		what += " of " + t.Origin.Reverts
	}
	state := ""
	switch {
	case t.Reverted != "":
		state = p.Paint(command.Yellow, "  reverted")
	case t.Applied != "":
		state = p.Paint(command.Faint, "  applied since, as "+t.Applied)
	case t.State == workspace.Proposed:
		state = p.Paint(command.Yellow, "  waits for an approval")
	}
	p.Line("%s  %s  %s%s", p.Paint(command.Bold, t.ID), t.Time.Local().Format("2006-01-02 15:04:05"),
		command.Printable(what), state)
}

type logReport struct {
	Root         string            `json:"root"`
	Transactions []transactionView `json:"transactions"`
}

func (r logReport) WriteText(p *command.Page) {
	if len(r.Transactions) == 0 {
		p.Line("Nothing was done to %s yet.", command.Printable(r.Root))
	}
	for _, t := range r.Transactions {
		t.line(p)
		const most = 6
		for i, f := range t.Files {
			if i == most {
				p.Line("    and %d more", len(t.Files)-most)
				break
			}
			p.Line("    %s", command.PrintableName(f))
		}
	}
}

type transactionReport struct {
	transactionView
	Changes []workspace.FileChange `json:"changes"`
}

func (r transactionReport) WriteText(p *command.Page) {
	r.line(p)
	if r.Origin.Note != "" {
		p.Line("%s", command.Printable(r.Origin.Note))
	}
	for i := range r.Changes {
		showFile(p, &r.Changes[i], command.PageWidth)
	}
	if r.Receipt != nil {
		for _, s := range r.Receipt.FilesSkipped {
			p.Line("%s", p.Paint(command.Faint, fmt.Sprintf("skipped %s: %s", command.PrintableName(s.Path),
				command.Printable(s.Reason))))
		}
		for _, k := range r.Receipt.Kept {
			p.Line("%s", strings.TrimSpace(fmt.Sprintf("kept bytes of %s: %s", command.PrintableName(k.Path), k.Hash)))
		}
	}
}
