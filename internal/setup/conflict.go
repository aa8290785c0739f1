package setup

import (
	"regexp"
	"slices"
	"strings"
)

// What pip says of requirements that cannot all be met: a line for each.
var (
	pipCauses     = regexp.MustCompile(`(?m)^The conflict is caused by:\n((?:[ \t]+\S.*\n?)+)`)
	pipConstraint = regexp.MustCompile(`^The user requested \(constraint\) (.+)$`)
	pipRequested  = regexp.MustCompile(`^The user requested (.+)$`)
	pipDepends    = regexp.MustCompile(`^(\S+) (\S+) depends on (.+)$`)
)

// explainConflict says which packages of ours, which are pip's constraints, and
// which of the user's exclude each other; empty if that is not what pip says.
func explainConflict(said string) string {
	found := pipCauses.FindStringSubmatch(strings.ReplaceAll(said, "\r\n", "\n"))
	if found == nil {
		return ""
	}
	var ours, theirs []string
	add := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for line := range strings.Lines(found[1]) {
		line = strings.TrimSpace(line)
		if m := pipConstraint.FindStringSubmatch(line); m != nil {
			add(&ours, m[1])
		} else if m := pipRequested.FindStringSubmatch(line); m != nil {
			add(&theirs, m[1])
		} else if m := pipDepends.FindStringSubmatch(line); m != nil {
			add(&theirs, m[1]+" "+m[2]+", which needs "+m[3])
		}
	}
	switch {
	case len(ours) == 0 && len(theirs) > 1:
		return "what is asked for cannot be had together: " + strings.Join(theirs, "; ")
	case len(ours) == 0 || len(theirs) == 0:
		return ""
	}
	return "yours: " + strings.Join(theirs, "; ") + "; this set has: " + strings.Join(ours, ", ")
}
