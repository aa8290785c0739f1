package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) setup() *cobra.Command {
	opts := setup.Options{}
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Installs the languages and their packages; may be run again at any time",
		Long: `Installs what programs need: the languages from the distribution's packages
(as root, or with sudo) and the Python packages into the data directory. As root
it also makes the user that the service runs as. What is there already is left
alone; what was interrupted is finished.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Data = a.cfg.Data
			opts.Progress = setup.NewProgress(a.streams.Err, isTerminal(a.streams.Err) && !a.cfg.Plain)
			if err := setup.Run(cmd.Context(), opts); err != nil {
				return err
			}
			installed, err := setup.Inspect(a.cfg.Data)
			if err != nil {
				return err
			}
			a.out.result(setupReport{Data: a.cfg.Data, Python: summarize(installed)})
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&opts.Languages, "languages", nil, "`LIST` of languages, separated by commas, or all (default python,bash,js,ts)")
	cmd.Flags().StringVar(&opts.Requirements, "python-requirements", "", "`FILE` with further Python packages, as pip reads them")
	a.addJSON(cmd)
	return cmd
}

type setupReport struct {
	Data   string        `json:"data"`
	Python pythonSummary `json:"python"`
}

func (r setupReport) text(p *page) {
	for _, failed := range r.Python.Failed {
		p.line("%s %s cannot be imported: %s", p.paint(yellow, "warning:"), failed.Name, printable(failed.Error))
	}
	p.line("Ready: %s in %s", r.Python, r.Data)
	p.line("Next:  %s run -f testdata/sales.csv -o out examples/plot.py", os.Args[0])
	p.line("       %s serve", os.Args[0])
}
