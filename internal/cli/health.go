package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) health() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:        "health",
		SuggestFor: []string{"status", "ping"},
		Short:      "Asks a service whether it can run programs",
		Long: `Asks a service whether it can run programs: the one that holds the data
directory, or the one at --server. Exits with 0 if it can, else with 7. It is
made for a container's health check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const limit = 10 * time.Second
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			return a.withService(ctx, "`airlock serve` starts one", "no service answers on "+a.Config.Socket(),
				func(c *client.Client) error {
					found, err := c.Health(ctx)
					if err != nil {
						return &command.Coded{Code: command.ExitUnavailable, Err: err}
					}
					_ = a.PrintLine(found, "%s", healthLine(found))
					if found.Status != "ok" {
						return command.Exit(command.ExitUnavailable)
					}
					return nil
				})
		},
	}, config.Client)
}

func healthLine(h *client.Health) string {
	line := string(h.Status) + ": airlock " + h.Version
	if h.Isolation != nil {
		line += ", " + h.Isolation.Summary
	}
	if h.Problem != "" {
		line += "; " + h.Problem
	}
	return command.Printable(line)
}
