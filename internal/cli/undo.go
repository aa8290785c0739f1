package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

type undoOptions struct {
	root, to   string
	only       []string
	yes, again bool // again: redo
}

func (a *app) undo() *cobra.Command {
	var o undoOptions
	cmd := &cobra.Command{
		Use:   "undo [TXN]",
		Short: "Reverts a transaction: the newest one, or TXN; later edits of yours stay",
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
				return fail(exitUsage, "", "--to reverts whole transactions and goes with neither TXN nor --only")
			}
			return workError(a.revert(cmd.Context(), o, id))
		},
	}
	cmd.Flags().StringArrayVar(&o.only, "only", nil, "`ID` of a file (f1) or a hunk (f1:h2) to revert; may be repeated")
	cmd.Flags().StringVar(&o.to, "to", "", "revert all that came after the transaction `TXN`")
	return a.undoCommand(cmd, &o)
}

func (a *app) redo() *cobra.Command {
	o := undoOptions{again: true}
	return a.undoCommand(&cobra.Command{
		Use:   "redo",
		Short: "Reverts the newest undo",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return workError(a.revert(cmd.Context(), o, ""))
		},
	}, &o)
}

func (a *app) undoCommand(cmd *cobra.Command, o *undoOptions) *cobra.Command {
	cmd.Flags().StringVar(&o.root, "root", ".", "`DIR` whose transaction it is")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "agree to everything that is no conflict")
	addOptions(cmd.Flags(), config.Project)
	a.addJSON(cmd)
	return cmd
}

// revert proposes an undo or a redo, asks, and carries it out.
func (a *app) revert(ctx context.Context, o undoOptions, id string) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	return a.withDeskFor(ctx, root, func(d *desk) error {
		ws, err := d.Workspace(ctx, root)
		if err != nil {
			return err
		}
		var p *workspace.Proposal
		switch {
		case o.again:
			p, err = ws.Redo(ctx)
		case o.to != "":
			p, err = ws.UndoTo(ctx, o.to)
		default:
			p, err = ws.Undo(ctx, id, o.only...)
		}
		if err != nil {
			return err
		}
		return a.commitUndo(ctx, ws, p, o.yes)
	})
}

func (a *app) commitUndo(ctx context.Context, ws *workspace.Workspace, p *workspace.Proposal, yes bool) error {
	r := undoReport{Proposal: p}
	var approval workspace.Approval
	switch {
	case yes:
		// What is to be undone was approved when it was done; only a conflict
		// wants a person.
		policy := workspace.Policy{Rules: []workspace.PolicyRule{{Decision: workspace.Allow, Sensitive: true}}}
		var held []workspace.Held
		approval, held = p.ApproveBy(policy)
		if f, ok := errors.AsType[*failure](heldError(held)); ok {
			f.hint = "look at the diff; on a terminal you can choose, and --only ID reverts the rest"
			return a.finish(&r, f)
		}
	case a.canAsk():
		k, err := a.openKeyboard()
		if err != nil {
			return err
		}
		defer k.close()
		reviewer := &reviewer{keyboard: k, app: a, proposal: p, resolve: ws.Resolve}
		consent, err := reviewer.agree(ctx, nil, false)
		if errors.Is(err, errQuit) {
			a.say("Nothing was changed.")
			return exit(exitApproval)
		}
		if err != nil {
			return interrupted(ctx, err)
		}
		r.Proposal, approval = reviewer.proposal, consent.Approval
	default:
		return a.finish(&r, fail(exitApproval, "--yes agrees", "somebody has to agree first"))
	}
	receipt, err := ws.Commit(ctx, r.Proposal, approval, workspace.CommitOptions{})
	if err != nil {
		return a.finish(&r, workError(err))
	}
	r.Receipt, r.Proposal = receipt, nil
	return a.finish(&r, nil)
}

// undoReport is what undo and redo print.
type undoReport struct {
	Proposal *workspace.Proposal `json:"proposal,omitempty"`
	Receipt  *workspace.Receipt  `json:"receipt,omitempty"`
	ended
}

func (r undoReport) text(p *page) {
	if r.Proposal != nil {
		for i := range r.Proposal.Files {
			showFile(p, &r.Proposal.Files[i], pageWidth)
		}
	}
	if r.Receipt == nil {
		p.line("Nothing was changed.")
		return
	}
	result := conversation.Result{State: conversation.Applied, Undo: r.Receipt.Undo, FilesCreated: r.Receipt.FilesCreated,
		FilesUpdated: r.Receipt.FilesUpdated,
		FilesDeleted: r.Receipt.FilesDeleted, FilesRenamed: r.Receipt.FilesRenamed, FilesUnchanged: r.Receipt.FilesUnchanged,
		FilesSkipped: r.Receipt.FilesSkipped, Conflicts: r.Receipt.Conflicts}
	showResult(p, &result)
}
