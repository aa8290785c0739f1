package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Shows every setting, its value and where that came from",
		Long: `Shows every setting, its value and where that came from. Secrets show as ***.

A setting has one name in three places: the flag --max-upload, the environment
variable AIRLOCK_MAX_UPLOAD, and the key max_upload in a settings file. A flag
wins over the environment, the environment over the file. The files are
/etc/airlock/airlock.yaml and, except for root, airlock.yaml in the data
directory, which wins; or the one that --config names.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.out.result(configReport{a.cfg.Values()})
			return nil
		},
	}
	addOptions(cmd.Flags(), config.Service)
	addOptions(cmd.Flags(), config.Client)
	a.addJSON(cmd)
	return cmd
}

type configReport struct {
	Settings []config.Value `json:"settings"`
}

func (r configReport) text(p *page) {
	for _, v := range r.Settings {
		value := strings.Join(v.Values, ", ")
		if value == "" {
			value = "-"
		}
		origin := p.paint(faint, v.Origin)
		if v.Origin != "default" {
			value = p.paint(bold, value) + strings.Repeat(" ", max(0, 26-len(value)))
		} else {
			value = pad(value, 26)
		}
		p.line("%-18s %s  %s", v.Key, value, origin)
	}
}
