package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/workspace"
)

func (a *app) history() *cobra.Command {
	root, limit := ".", 20
	cmd := &cobra.Command{
		Use:   "log [TXN]",
		Short: "Lists what was done to a folder, the newest first; with TXN what exactly",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			folder, err := filepath.Abs(root)
			if err != nil {
				return err
			}
			return workError(a.withDeskFor(ctx, folder, func(d *desk) error {
				ws, err := d.Workspace(ctx, folder)
				if err != nil {
					return err
				}
				if len(args) > 0 {
					p, record, err := ws.Transaction(ctx, args[0])
					if err != nil {
						return err
					}
					a.out.result(transactionReport{transactionOf(workspace.Transaction{Record: record}), p.Files})
					return nil
				}
				found, err := ws.History(ctx, limit, workspace.Committed, workspace.Proposed)
				if err != nil {
					return err
				}
				r := logReport{Root: ws.Root(), Transactions: []transactionShown{}}
				for _, t := range found {
					r.Transactions = append(r.Transactions, transactionOf(t))
				}
				a.out.result(r)
				return nil
			}))
		},
	}
	cmd.Flags().StringVar(&root, "root", root, "`DIR` whose history it is")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "list no more than `N`; 0 is all")
	a.addJSON(cmd)
	return cmd
}

// transactionShown is an entry of the history.
type transactionShown struct {
	ID       string             `json:"id"`
	State    workspace.State    `json:"state"`
	Time     time.Time          `json:"time"`
	Origin   workspace.Origin   `json:"origin"`
	Files    []string           `json:"files"`
	Reverted string             `json:"reverted,omitempty"`
	Receipt  *workspace.Receipt `json:"receipt,omitempty"`
}

func transactionOf(t workspace.Transaction) transactionShown {
	shown := transactionShown{ID: t.ID, State: t.State, Time: t.Created, Origin: t.Origin, Reverted: t.Reverted,
		Receipt: t.Receipt, Files: []string{}}
	for i := range t.Files {
		shown.Files = append(shown.Files, t.Files[i].Summary())
	}
	if r := t.Receipt; r != nil && len(t.Files) == 0 { // files of their own transactions
		for word, names := range map[string][]string{"create ": r.FilesCreated, "update ": r.FilesUpdated,
			"delete ": r.FilesDeleted} {
			for _, name := range names {
				shown.Files = append(shown.Files, word+name)
			}
		}
	}
	return shown
}

func (t transactionShown) line(p *page) {
	what := t.Origin.Kind
	if t.Origin.Reverts != "" {
		what += " of " + t.Origin.Reverts
	}
	state := ""
	switch {
	case t.Reverted != "":
		state = p.paint(yellow, "  reverted")
	case t.State == workspace.Proposed:
		state = p.paint(yellow, "  waits for an approval")
	}
	p.line("%s  %s  %s%s", p.paint(bold, t.ID), t.Time.Local().Format("2006-01-02 15:04:05"), printable(what), state)
}

type logReport struct {
	Root         string             `json:"root"`
	Transactions []transactionShown `json:"transactions"`
}

func (r logReport) text(p *page) {
	if len(r.Transactions) == 0 {
		p.line("Nothing was done to %s yet.", printable(r.Root))
	}
	for _, t := range r.Transactions {
		t.line(p)
		const most = 6
		for i, f := range t.Files {
			if i == most {
				p.line("    and %d more", len(t.Files)-most)
				break
			}
			p.line("    %s", printableName(f))
		}
	}
}

type transactionReport struct {
	transactionShown
	Changes []workspace.FileChange `json:"changes"`
}

func (r transactionReport) text(p *page) {
	r.line(p)
	if r.Origin.Note != "" {
		p.line("%s", printable(r.Origin.Note))
	}
	for i := range r.Changes {
		showFile(p, &r.Changes[i], pageWidth)
	}
	if r.Receipt != nil {
		for _, s := range r.Receipt.FilesSkipped {
			p.line("%s", p.paint(faint, fmt.Sprintf("skipped %s: %s", printableName(s.Path), printable(s.Reason))))
		}
		for _, k := range r.Receipt.Kept {
			p.line("%s", strings.TrimSpace(fmt.Sprintf("kept bytes of %s: %s", printableName(k.Path), k.Hash)))
		}
	}
}
