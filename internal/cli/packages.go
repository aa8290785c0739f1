package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/setup"
)

// packageSets are the installed sets of Python packages and the rules that say
// who gets which. Programs of Onyx and LibreChat get what the image of that
// application has.
func (a *app) packageSets() engine.PackageSets {
	sets := engine.PackageSets{
		Origins: map[engine.Origin]string{engine.OriginOnyx: language.OnyxPackages,
			engine.OriginLibreChat: language.LibreChatPackages},
		Keys: map[string]string{},
	}
	installed, _ := setup.InspectSets(a.cfg.Installed()) // a damaged record counts as none; doctor tells
	for _, set := range installed {
		sets.Installed = append(sets.Installed, set.Set)
	}
	for _, rule := range a.cfg.Packages {
		switch protocol, key, name := config.PackagesRule(rule); {
		case key != "":
			sets.Keys[key] = name
		case protocol != "":
			sets.Origins[engine.Origin(protocol)] = name
		default: // for all programs that no other rule is for
			if i := slices.Index(sets.Installed, name); i > 0 {
				sets.Installed = append([]string{name}, slices.Delete(sets.Installed, i, i+1)...)
			}
			for _, origin := range []engine.Origin{engine.OriginNative, engine.OriginOnyx, engine.OriginLibreChat} {
				if !slices.ContainsFunc(a.cfg.Packages, func(r string) bool { return strings.HasPrefix(r, string(origin)+"=") }) {
					sets.Origins[origin] = name
				}
			}
		}
	}
	return sets
}

// defaultPackages names the set that the sandbox keeps warm, empty if none is
// installed.
func (a *app) defaultPackages() string {
	if sets := a.packageSets(); len(sets.Installed) > 0 {
		return sets.Installed[0]
	}
	return ""
}

// packagesReport is what doctor says of one set.
type packagesReport struct {
	pythonSummary
	Name string `json:"name"`
	// For are the protocols whose programs get it.
	For     []engine.Origin `json:"for"`
	Default bool            `json:"default"`
	// Instead is the set that those programs get while this one is missing.
	Instead string `json:"instead,omitempty"`
	Cure    string `json:"cure,omitempty"`
}

// examinePackages reads what setup recorded. A record that is damaged counts as
// none, and doctor says what setup would do about it.
func (a *app) examinePackages() []packagesReport {
	installed, _ := setup.InspectSets(a.cfg.Installed())
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

// protocolNames are the protocols' names for people.
var protocolNames = map[engine.Origin]string{engine.OriginNative: "the API and the terminal", engine.OriginOnyx: "Onyx",
	engine.OriginLibreChat: "LibreChat"}

func (r packagesReport) text(p *page) {
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
		return // nothing is installed, which is said already
	case r.Version == "":
		p.row("packages", 13, yellow, "other", fmt.Sprintf("%s get the set %s, because %s is not installed. Cure: %s", whose,
			r.Instead, r.Name, r.Cure))
	case len(r.Failed) > 0:
		p.row("packages", 13, yellow, "weaker", fmt.Sprintf("%s: %d for Python %s, for %s; these cannot be imported:", r.Name,
			r.Packages, r.Version, whose))
		for _, f := range r.Failed {
			p.row("", 13, "", "", f.Name+": "+printable(f.Error))
		}
	default:
		p.row("packages", 13, green, "ok", fmt.Sprintf("%s: %d for Python %s, for %s", r.Name, r.Packages, r.Version, whose))
	}
}
