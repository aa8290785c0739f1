package cli

import (
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/internal/setup"
)

// pythonSummary is what setup installed, as reports show it.
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

// packagesLine lists the sets, and reports whether something is wrong with them.
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
