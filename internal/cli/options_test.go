package cli

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/config"
)

var (
	heading  = regexp.MustCompile(`^(\w.*):$`)
	helpFlag = regexp.MustCompile(`^ +(?:-\w, )?--([\w-]+)`)
)

// helpGroups returns the headings under which a command's help lists each flag.
func helpGroups(t *testing.T, command string) map[string][]string {
	t.Helper()
	var out bytes.Buffer
	if code := Run(t.Context(), Release{}, []string{command, "--help"},
		Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	groups, last := map[string][]string{}, ""
	for line := range strings.Lines(out.String()) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			last = m[1]
		} else if m := helpFlag.FindStringSubmatch(line); m != nil {
			groups[m[1]] = append(groups[m[1]], last)
		}
	}
	return groups
}

// The help lists each option once, under the heading of its group.
func TestHelpInGroups(t *testing.T) {
	scopes := map[string][]config.Scope{
		"serve": {config.Service},
		"ask":   {config.Models, config.Client, config.Project},
		"chat":  {config.Models, config.Client, config.Project},
		"run":   {config.Client},
	}
	for command, scopes := range scopes {
		t.Run(command, func(t *testing.T) {
			got, headings := helpGroups(t, command), map[string]bool{}
			for _, o := range config.Options() {
				if !slices.Contains(scopes, o.Scope) {
					continue
				}
				headings[o.Group] = true
				flags := []string{o.Flag()}
				if o.Secret {
					flags = append(flags, o.Flag()+"-file")
				}
				for _, flag := range flags {
					if o.Group == "" || !slices.Equal(got[flag], []string{o.Group}) {
						t.Errorf("--%s is listed under %q, want %q once", flag, got[flag], o.Group)
					}
				}
			}
			if !slices.Equal(got["help"], []string{"Flags"}) {
				t.Errorf("--help is listed under %q", got["help"])
			}
			if command == "serve" {
				for _, want := range []string{"Network", "Storage", "Onyx", "LibreChat", "Limits of one run"} {
					if !headings[want] {
						t.Errorf("no heading %q in %q", want, slices.Sorted(maps.Keys(headings)))
					}
				}
			}
		})
	}
}
