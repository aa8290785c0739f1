package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) audit() *cobra.Command {
	var ask client.AuditQuery
	since := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Lists acts of administration, newest first",
		Long: `Lists acts of administration, newest first: keys that were made and revoked,
sign-ins, also those that were refused, shared notebooks, networks of sessions,
nodes that were drained, and settings that were changed on the page. No entry
can be changed, and none be removed in its first 30 days.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since > 0 {
				ask.Since = time.Now().Add(-since)
			}
			return a.withService(cmd.Context(), "start it with `airlock serve`, or name one with --server URL",
				"no service is running here", func(c *client.Client) error {
					entries, err := c.Audit(cmd.Context(), ask)
					if err != nil {
						return err
					}
					return a.PrintTable(map[string]any{"entries": append([]client.AuditEntry{}, entries...)},
						"There are no entries.", auditRows(entries))
				})
		},
	}
	cmd.Flags().IntVar(&ask.Limit, "limit", 100, "`NUMBER` of entries at most, up to 1000")
	cmd.Flags().DurationVar(&since, "since", 0, "`TIME` back to which entries are listed, as 24h; else all")
	return a.WithFlags(cmd, config.Client)
}

func auditRows(entries []client.AuditEntry) [][]string {
	rows := [][]string{{"TIME", "OWNER", "KEY", "FROM", "ACTION", "OBJECT", "OUTCOME", "DETAIL"}}
	for _, e := range entries {
		detail := e.Detail
		if e.More > 0 {
			detail = fmt.Sprintf("%s (and %d more before it)", detail, e.More)
		}
		rows = append(rows, []string{e.At.Local().Format(time.DateTime), cmp.Or(command.Printable(e.Owner), "-"),
			cmp.Or(e.Key, "-"), cmp.Or(e.From, "-"), e.Action, cmp.Or(command.Printable(e.Object), "-"), e.Outcome,
			cmp.Or(command.Printable(detail), "-")})
	}
	return rows
}
