package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/index"
)

func (a *app) nodes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Lists the nodes that share a database, with what they have to do",
		Long: `Lists the nodes that share a database, with what they have to do. It asks the
database that the setting names, and works while any of them are away.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withNodes(cmd.Context(), func(ctx context.Context, db *index.DB) error {
				found, err := db.Nodes(ctx)
				list := nodeList{[]client.Node{}}
				for _, n := range found {
					list.Nodes = append(list.Nodes, native.NodeOf(&n))
				}
				if err == nil {
					a.out.result(list)
				}
				return err
			})
		},
	}
	a.addJSON(cmd)
	undo := false
	drain := &cobra.Command{
		Use:   "drain NAME",
		Short: "Has a node take nothing new; what it has goes on",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withNodes(cmd.Context(), func(ctx context.Context, db *index.DB) error {
				err := db.DrainNode(ctx, args[0], !undo)
				if engine.KindOf(err) == engine.ErrNotFound {
					return fail(exitFailed, "`airlock nodes` lists them", "no node that is alive is called %s", printableName(args[0]))
				}
				if err == nil {
					a.out.result(nodeDrained{args[0], !undo})
				}
				return err
			})
		},
	}
	drain.Flags().BoolVar(&undo, "undo", false, "have it take new work again")
	a.addJSON(drain)
	cmd.AddCommand(drain)
	return cmd
}

// withNodes opens the database that the nodes share.
func (a *app) withNodes(ctx context.Context, do func(context.Context, *index.DB) error) (err error) {
	if a.cfg.Database == "" {
		return fail(exitUsage, "set AIRLOCK_DATABASE as the nodes have it",
			"no database is set, so this machine is the only node")
	}
	db, err := index.OpenPostgres(ctx, a.cfg.Database.Reveal(), "", a.log, index.WithReplicas())
	if err != nil {
		return &failure{code: exitUnavailable, word: "database", err: err,
			hint: "`airlock doctor` says what is amiss with AIRLOCK_DATABASE"}
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(ctx, db)
}

type nodeList struct {
	Nodes []client.Node `json:"nodes"`
}

func (l nodeList) text(p *page) {
	if len(l.Nodes) == 0 {
		p.line("No node uses this database.")
		return
	}
	rows := [][]string{{"NAME", "ROLE", "STATE", "RUNS", "QUEUED", "HELD", "VERSION"}}
	for _, n := range l.Nodes {
		rows = append(rows, []string{printableName(n.Name), n.Role, n.State, fmt.Sprintf("%d of %d", n.Running, n.Slots),
			strconv.Itoa(n.Queued), strconv.Itoa(n.Held), printable(n.Version)})
	}
	p.table(rows)
}

type nodeDrained struct {
	Name  string `json:"name"`
	Drain bool   `json:"drain"`
}

func (d nodeDrained) text(p *page) {
	if d.Drain {
		p.line("%s takes nothing new; `airlock nodes` shows what it still has.", printableName(d.Name))
		return
	}
	p.line("%s takes new work again.", printableName(d.Name))
}
