package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/index"
)

func (a *app) nodesRevoke() *cobra.Command {
	return a.setWorker("revoke NAME", "Ends a worker at once, and lets none of its name in again",
		`Ends the workers of a name: apis lose what runs there, within a second, restore
its sessions on other workers, and let none of that name in again, whatever
token it has. Replace its token in worker_tokens before you approve the name
again.`, engine.WorkerRevoked, engine.ActNodeRevoked, "%s is revoked: what it ran is interrupted, and it cannot come back.")
}

func (a *app) nodesApprove() *cobra.Command {
	return a.setWorker("approve NAME", "Lets a worker in that waits for approval, or that was revoked", "",
		engine.WorkerApproved, engine.ActNodeApproved, "%s may run programs.")
}

// setWorker returns the command that sets the state of a name.
func (a *app) setWorker(use, short, long string, state engine.WorkerState, act, said string) *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withNodes(cmd.Context(), func(ctx context.Context, db *index.DB) error {
				err := db.SetWorker(ctx, args[0], state)
				if err := recordAct(ctx, db, act, args[0], "", err); err != nil {
					return err
				}
				if err != nil {
					return err
				}
				return a.PrintLine(map[string]any{"name": args[0], "state": state}, said, command.PrintableName(args[0]))
			})
		},
	})
}

// waitingWorkers returns the names of workers without a node that are pending or revoked.
func waitingWorkers(ctx context.Context, db *index.DB, found []engine.Node) ([]client.Node, error) {
	names, err := db.WorkerNames(ctx)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for i := range found {
		there[found[i].Name] = true
	}
	var list []client.Node
	for _, n := range names {
		if n.State != engine.WorkerApproved && !there[n.Name] {
			list = append(list, client.Node{Name: n.Name, Role: client.RoleWorker, State: client.NodeState(n.State),
				Since: n.At})
		}
	}
	return list, nil
}
