package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A caller and its host are told of the network before a program runs.
func TestNetworkIsSaid(t *testing.T) {
	for rules, want := range map[string]string{
		"":                           "There is no network.",
		"packages,api.example.com":   "and nothing else: packages, api.example.com.",
		"https://api.example.com/v1": "and nothing else: https://api.example.com/v1.",
	} {
		r := newRig(t, func(o *Options) { o.Local.Network = rules })
		c := r.local(nil)
		if got := textOf(call1(t, c, "describe_environment", nil)); !strings.Contains(got, want) {
			t.Errorf("%q: %s", rules, got)
		}
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if open := *tool.Annotations.OpenWorldHint; open != (rules != "" && tool.Name == "run_code") {
				t.Errorf("%q: the world of %s is open: %v", rules, tool.Name, open)
			}
		}
		if private := list.CacheScope == "private"; private != (rules != "") {
			t.Errorf("%q: the list is %s", rules, list.CacheScope)
		}
	}
}

// A caller is told of the packages of its own set, the well-known ones first, in a short answer.
func TestPackagesAreSaid(t *testing.T) {
	many := []engine.Package{}
	for i := range 200 {
		many = append(many, engine.Package{Name: fmt.Sprintf("a-package-%d", i), Version: "1.0"})
	}
	many = append(many, engine.Package{Name: "Pandas", Version: "2.2.2"}, engine.Package{Name: "numpy", Version: "1.26.4"})
	few := []engine.Package{{Name: "altair", Version: "6.3.0"}, {Name: "pandas", Version: "3.1.1"}}
	for own, want := range map[string]string{
		"":          "Python packages: the set \"current\": pandas 3.1.1, altair 6.3.0. `pip list`",
		"librechat": `the set "librechat": numpy 1.26.4, Pandas 2.2.2, a-package-0 1.0, `,
		"own":       "the set \"own\". `pip list`",
	} {
		r := newRig(t, func(o *Options) {
			o.Engine = enginetest.Start(t, engine.Config{Packages: engine.PackageSets{
				Installed: []string{"current", "librechat", "own"},
				Main:      map[string][]engine.Package{"current": few, "librechat": many},
			}}, sandboxtest.NewFake(nil))
			o.Local.Packages = own
		})
		got := textOf(call1(t, r.local(nil), "describe_environment", nil))
		if more := strings.Contains(got, " more. `pip list`"); !strings.Contains(got, want) || len(got) > 1500 ||
			more != (own == "librechat") {
			t.Errorf("%q: %s", own, got)
		}
	}
}
