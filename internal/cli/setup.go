package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) setup() *cobra.Command {
	opts, serving, list, wall := setup.Options{}, false, false, ""
	cmd := &cobra.Command{
		Use:        "setup",
		SuggestFor: []string{"install", "init"},
		Short:      "Installs the languages and their packages; may be run again at any time",
		Long: `Installs what programs need: the languages from the distribution's packages
(as root, or with sudo) and the Python packages into the data directory. As root
it also makes the user that the service runs as. What is there already is left
alone; what was interrupted is finished. Fonts of all the world's scripts and the
locale en_US.UTF-8 come with them, where setup may install Debian packages.

Python packages come in sets, which stand side by side: current has the newest
versions, onyx and librechat have what the images of those applications have,
and own has what a file asks for with --packages own --python-requirements FILE.
Programs that come from Onyx and LibreChat get the set of that name if it is
installed, all others get current. A running service sees a new set when it is
started again.

With --wall it then runs a program behind that wall, and if this machine cannot
have it says why and exits with 7.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkWall(wall); err != nil {
				return err
			}
			if list {
				names, err := setup.DebianPackages(opts.Languages, opts.Packages, opts.Extras)
				if err != nil {
					return err
				}
				return a.PrintLine(map[string][]string{"packages": names}, "%s", strings.Join(names, " "))
			}
			opts.Data = a.Config.Data
			opts.Progress = setup.NewProgress(a.Streams.Err, a.PageOn(a.Streams.Err).Colour)
			if err := setup.Run(cmd.Context(), opts); err != nil {
				return err
			}
			installed, err := setup.InspectSets(a.Config.Data)
			if err != nil {
				return err
			}
			report := setupReport{Data: a.Config.Data, Sets: []setReport{}, Python: summarize(setup.Installed{}),
				serving: serving, command: a.invocation(), installed: installed}
			for i, set := range installed {
				if i == 0 {
					report.Python = summarize(set)
				}
				report.Sets = append(report.Sets, setReport{set.Set, summarize(set)})
			}
			if wall == "" {
				return a.Print(&report)
			}
			trial := a.tryWall(cmd.Context(), wall)
			report.Wall = &wallReport{Name: wall, OK: trial.OK, DurationMS: trial.DurationMS, Kernel: trial.printed}
			return a.Finish(&report, trial.err)
		},
	}
	cmd.Flags().StringSliceVar(&opts.Languages, "languages", nil,
		"`LIST` of languages, separated by commas, or all (default python,bash,js,ts)")
	cmd.Flags().StringSliceVar(&opts.Packages, "packages", nil, "`SETS` of Python packages, separated by commas: "+
		"current, onyx, librechat, own (default: those that are installed, else current)")
	cmd.Flags().StringSliceVar(&opts.Live, "live", nil, "`VERSIONS` of Python that images have, such as 3.13: live "+
		"sessions start in these images on this machine too, which a worker needs")
	cmd.Flags().StringSliceVar(&opts.Extras, "extras", nil,
		"`LIST` of further programs for programs to start: office (LibreOffice)")
	cmd.Flags().StringVar(&opts.Requirements, "python-requirements", "",
		"`FILE` with further Python packages, as pip reads them")
	cmd.Flags().StringVar(&wall, "wall", "", "`WALL` that programs are to have, gvisor or shared: run one behind it, and say why "+
		"this machine cannot have it")
	cmd.Flags().BoolVar(&serving, "then-serve", false, "do not say how to start the service: the caller does so next")
	cmd.Flags().Lookup("then-serve").Hidden = true
	cmd.Flags().BoolVar(&list, "print-debian", false,
		"print the Debian packages that programs need and install nothing, for who makes an image")
	return a.WithFlags(cmd)
}

type setupReport struct {
	Data   string        `json:"data"`
	Python pythonSummary `json:"python"` // of the default set
	Sets   []setReport   `json:"sets"`
	Wall   *wallReport   `json:"wall,omitempty"` // that --wall names
	command.Ended

	serving bool   // the service is started next anyway
	command string // see invocation

	installed []setup.Installed
}

// wallReport describes the run of a program behind a wall.
type wallReport struct {
	Name       string `json:"name"`
	OK         bool   `json:"ok"`
	DurationMS int64  `json:"duration_ms"`      // from request to answer
	Kernel     string `json:"kernel,omitempty"` // its release, as the program found it
}

type setReport struct {
	Name string `json:"name"`
	pythonSummary
}

func (r *setupReport) WriteText(p *command.Page) {
	for _, set := range r.Sets {
		for _, failed := range set.Failed {
			p.Line("%s %s cannot be imported: %s", p.Paint(command.Yellow, "warning:"), failed.Name,
				command.Printable(failed.Error))
		}
	}
	line, _ := packagesLine(r.installed)
	p.Line("Ready: %s in %s", line, r.Data)
	flag := ""
	if r.Wall != nil {
		if !r.Wall.OK {
			return // the error follows
		}
		flag = " --wall " + r.Wall.Name
		p.Line("Wall:  %s: a program ran in %d ms, with the kernel %s", r.Wall.Name, r.Wall.DurationMS,
			command.Printable(r.Wall.Kernel))
	}
	if r.serving {
		return
	}
	p.Line("Next:  %s run%s -f testdata/sales.csv -o out examples/plot.py", r.command, flag)
	p.Line("       %s serve%s", r.command, flag)
}

// invocation returns how another terminal runs this program on the same data directory.
func (a *app) invocation() string {
	if a.Config.Origin("data") == "default" || a.split && a.Config.Data == config.RootData {
		return os.Args[0]
	}
	return os.Args[0] + " --data " + command.QuoteForShell(a.Config.Data)
}

// packageSets returns the installed sets of Python packages, and the rules that choose the
// set of a program. Programs of Onyx and LibreChat get the packages of that application's
// image by default.
func (a *app) packageSets() engine.PackageSets {
	sets := engine.PackageSets{
		Origins: map[engine.Origin]string{engine.OriginOnyx: language.OnyxPackages,
			engine.OriginLibreChat: language.LibreChatPackages},
		Keys: map[string]string{},
		Main: map[string][]engine.Package{},
		Has:  func(set, module string) bool { return setup.HasModule(a.Config.Installed(), set, module) },
		With: setup.SetsWith,
	}
	installed, _ := setup.InspectSets(a.Config.Installed()) // doctor reports a damaged record
	for _, set := range installed {
		sets.Installed = append(sets.Installed, set.Set)
		for _, p := range set.Packages {
			if p.OK {
				sets.Main[set.Set] = append(sets.Main[set.Set], engine.Package{Name: p.Name, Version: p.Version})
			}
		}
	}
	for _, rule := range a.Config.Packages {
		switch protocol, key, name := config.PackagesRule(rule); {
		case key != "":
			sets.Keys[key] = name
		case protocol != "":
			sets.Origins[engine.Origin(protocol)] = name
		default: // for all programs without another rule
			if i := slices.Index(sets.Installed, name); i > 0 {
				sets.Installed = append([]string{name}, slices.Delete(sets.Installed, i, i+1)...)
			}
			for _, origin := range []engine.Origin{engine.OriginNative, engine.OriginOnyx, engine.OriginLibreChat} {
				if !slices.ContainsFunc(a.Config.Packages, func(r string) bool {
					return strings.HasPrefix(r,
						string(origin)+"=")
				}) {
					sets.Origins[origin] = name
				}
			}
		}
	}
	return sets
}

// defaultPackages returns the name of the set that the sandbox keeps warm, or "".
func (a *app) defaultPackages() string {
	if sets := a.packageSets(); len(sets.Installed) > 0 {
		return sets.Installed[0]
	}
	return ""
}

// packagesReport describes one set.
type packagesReport struct {
	pythonSummary
	Name string `json:"name"`
	// For are the protocols whose programs get the set.
	For     []engine.Origin `json:"for"`
	Default bool            `json:"default"`
	// Instead is the set that those programs get while this one is not installed.
	Instead string `json:"instead,omitempty"`
	Cure    string `json:"cure,omitempty"`
}

// examinePackages describes the sets of Python packages. A damaged record counts as none.
func (a *app) examinePackages() []packagesReport {
	installed, _ := setup.InspectSets(a.Config.Installed())
	sets := a.packageSets()
	reports := []packagesReport{}
	for _, set := range sets.Describe() {
		r := packagesReport{Name: set.Name, For: append([]engine.Origin{}, set.Origins...), Default: set.Default,
			Instead: set.Instead}
		for _, found := range installed {
			if found.Set == set.Name {
				r.pythonSummary = summarize(found)
			}
		}
		if r.Version == "" {
			r.pythonSummary = summarize(setup.Installed{})
			r.Cure = "run `airlock setup --packages " + set.Name + "`"
		}
		reports = append(reports, r)
	}
	return reports
}

// protocolNames are the protocols' names for users.
var protocolNames = map[engine.Origin]string{engine.OriginNative: "the API and the terminal", engine.OriginOnyx: "Onyx",
	engine.OriginLibreChat: "LibreChat"}

func (r packagesReport) WriteText(p *command.Page) {
	var users []string
	for _, origin := range r.For {
		users = append(users, protocolNames[origin])
	}
	whose := "no protocol's programs by default"
	if len(users) > 0 {
		whose = "programs of " + strings.Join(users, ", ")
	}
	switch {
	case r.Version == "" && r.Instead == "":
		return // nothing is installed, which another row says
	case r.Version == "":
		p.Row("packages", 13, command.Yellow, "other", fmt.Sprintf("%s get the set %s, because %s is not installed. Cure: %s",
			whose,
			r.Instead, r.Name, r.Cure))
	case len(r.Failed) > 0:
		p.Row("packages", 13, command.Yellow, "weaker", fmt.Sprintf("%s: %d for Python %s, for %s; these cannot be imported:",
			r.Name,
			r.Packages, r.Version, whose))
		for _, f := range r.Failed {
			p.Row("", 13, "", "", f.Name+": "+command.Printable(f.Error))
		}
	default:
		p.Row("packages", 13, command.Green, "ok", fmt.Sprintf("%s: %d for Python %s, for %s", r.Name, r.Packages, r.Version,
			whose))
	}
}

// pythonSummary describes an installed set of Python packages.
type pythonSummary struct {
	Version  string          `json:"version,omitempty"` // of Python; empty: nothing is installed
	Packages int             `json:"packages"`          // that can be imported
	Failed   []setup.Package `json:"failed"`
}

func summarize(installed setup.Installed) pythonSummary {
	failed := installed.Failed()
	if failed == nil {
		failed = []setup.Package{}
	}
	return pythonSummary{Version: installed.Python, Packages: len(installed.Packages) - len(failed), Failed: failed}
}

func (s pythonSummary) String() string {
	switch {
	case s.Version == "":
		return "no Python packages"
	case len(s.Failed) > 0:
		return fmt.Sprintf("%d Python packages, %d more failed", s.Packages, len(s.Failed))
	}
	return fmt.Sprintf("%d Python packages", s.Packages)
}

// packagesLine lists the sets, and reports whether some are incomplete.
func packagesLine(installed []setup.Installed) (line string, wrong bool) {
	var sets []string
	for _, set := range installed {
		summary := summarize(set)
		wrong = wrong || len(summary.Failed) > 0
		sets = append(sets, summary.String()+" ("+set.Set+")")
	}
	if len(sets) == 0 {
		return summarize(setup.Installed{}).String(), true
	}
	return strings.Join(sets, ", "), wrong
}
