package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) config() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:        "config",
		SuggestFor: []string{"settings"},
		Short:      "Shows every setting, its value and where that came from",
		Long: `Shows every setting, its value and where that came from. Secrets show as ***.

A setting has one name in three places: the flag --max-upload, the environment
variable AIRLOCK_MAX_UPLOAD, and the key max_upload in a settings file. A flag
wins over the environment, the environment over the file. The files are
/etc/airlock/airlock.yaml and, except for root, airlock.yaml in the data
directory, which wins; or the one that --config names.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.Print(configReport{a.Config.Values()}) },
	}, config.Service, config.Client)
}

type configReport struct {
	Settings []config.Value `json:"settings"`
}

func (r configReport) WriteText(p *command.Page) {
	const widest = 40 // longer values move only their own origins
	keys, values := 0, 0
	shown := make([]string, len(r.Settings))
	for i, v := range r.Settings {
		if shown[i] = strings.Join(v.Values, ", "); shown[i] == "" {
			shown[i] = "-"
		}
		keys = max(keys, command.Columns(v.Key))
		values = max(values, min(widest, command.Columns(shown[i])))
	}
	for i, v := range r.Settings {
		value := command.Pad(shown[i], values)
		if v.Origin != "default" {
			value = p.Paint(command.Bold, value)
		}
		p.Line("%s  %s  %s", command.Pad(v.Key, keys), value, p.Paint(command.Faint, v.Origin))
	}
}
