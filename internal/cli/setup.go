package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) setup() *cobra.Command {
	opts, serving, list := setup.Options{}, false, false
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Installs the languages and their packages; may be run again at any time",
		Long: `Installs what programs need: the languages from the distribution's packages
(as root, or with sudo) and the Python packages into the data directory. As root
it also makes the user that the service runs as. What is there already is left
alone; what was interrupted is finished.

Python packages come in sets, which stand side by side: current has the newest
versions, onyx and librechat have what the images of those applications have,
and own has what a file asks for with --packages own --python-requirements FILE.
Programs that come from Onyx and LibreChat get the set of that name if it is
installed, all others get current. A running service sees a new set when it is
started again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				names, err := setup.DebianPackages(opts.Languages, opts.Packages)
				a.out.result(debianReport{names})
				return err
			}
			opts.Data = a.cfg.Data
			opts.Progress = setup.NewProgress(a.streams.Err, isTerminal(a.streams.Err) && !a.cfg.Plain)
			if err := setup.Run(cmd.Context(), opts); err != nil {
				return err
			}
			installed, err := setup.InspectSets(a.cfg.Data)
			if err != nil {
				return err
			}
			report := setupReport{Data: a.cfg.Data, Sets: []setReport{}, Python: summarize(setup.Installed{}), serving: serving,
				command: a.invocation(), installed: installed}
			for i, set := range installed {
				if i == 0 {
					report.Python = summarize(set)
				}
				report.Sets = append(report.Sets, setReport{set.Set, summarize(set)})
			}
			a.out.result(report)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&opts.Languages, "languages", nil,
		"`LIST` of languages, separated by commas, or all (default python,bash,js,ts)")
	cmd.Flags().StringSliceVar(&opts.Packages, "packages", nil, "`SETS` of Python packages, separated by commas: "+
		"current, onyx, librechat, own (default: those that are installed, else current)")
	cmd.Flags().StringVar(&opts.Requirements, "python-requirements", "",
		"`FILE` with further Python packages, as pip reads them")
	cmd.Flags().BoolVar(&serving, "then-serve", false, "do not say how to start the service: the caller does so next")
	cmd.Flags().Lookup("then-serve").Hidden = true
	cmd.Flags().BoolVar(&list, "print-debian", false,
		"print the Debian packages that programs need and install nothing, for who makes an image")
	a.addJSON(cmd)
	return cmd
}

type setupReport struct {
	Data   string        `json:"data"`
	Python pythonSummary `json:"python"` // of the default set
	Sets   []setReport   `json:"sets"`

	serving bool   // the service is started next anyway
	command string // how another terminal runs this program on the same data

	installed []setup.Installed
}

type debianReport struct {
	Packages []string `json:"packages"`
}

func (r debianReport) text(p *page) { p.line("%s", strings.Join(r.Packages, " ")) }

type setReport struct {
	Name string `json:"name"`
	pythonSummary
}

func (r setupReport) text(p *page) {
	for _, set := range r.Sets {
		for _, failed := range set.Failed {
			p.line("%s %s cannot be imported: %s", p.paint(yellow, "warning:"), failed.Name, printable(failed.Error))
		}
	}
	line, _ := packagesLine(r.installed)
	p.line("Ready: %s in %s", line, r.Data)
	if r.serving {
		return
	}
	p.line("Next:  %s run -f testdata/sales.csv -o out examples/plot.py", r.command)
	p.line("       %s serve", r.command)
}

// invocation is how another terminal runs this program on the same data directory.
func (a *app) invocation() string {
	if a.cfg.Origin("data") == "default" || a.split && a.cfg.Data == config.RootData {
		return os.Args[0]
	}
	return os.Args[0] + " --data " + quoteForShell(a.cfg.Data)
}

// quoteForShell returns a word as a shell reads it.
func quoteForShell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
