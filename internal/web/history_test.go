package web

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestSearch finds a run by words in its code, output, language, outcome or file names.
func TestSearch(t *testing.T) {
	v := visitSite(t, true, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte("Total: 42 Ünits\n"))
		host.Output(engine.Stderr, []byte("deprecated"))
		return sandboxtest.Exit(0), nil
	})
	run := v.runs() // print(1)
	for query, found := range map[string]bool{
		"print": true, "PRINT(1)": true, "total:": true, "42": true, "ünits": true, "DEPRECATED": true, "python": true,
		"ok":                     true,
		"print total deprecated": true, "print absent": false, "failed": false,
	} {
		got := v.Get("/runs?q=" + url.QueryEscape(query)).Body
		if strings.Contains(got, run) != found {
			t.Errorf("a search for %q: found is %v", query, !found)
		}
	}
}

// TestNames checks that a name of a run or a session goes before what the page calls it, on every page.
func TestNames(t *testing.T) {
	named := &engine.Run{Name: "Rates", Source: &engine.Source{Code: "# Sums\nx = 1", Entry: "src/sums.py"}}
	if got := titleOfRun(named); got != "Rates" {
		t.Errorf("a named run is called %q", got)
	}
	named.Name = ""
	if got := titleOfRun(named); got != "Sums" {
		t.Errorf("a run with a comment is called %q", got)
	}
	named.Source.Code = "x = 1"
	if got := titleOfRun(named); got != "sums.py" {
		t.Errorf("a run of a file is called %q", got)
	}
	for _, test := range [][2]string{
		{"  two\n lines ", "two lines"}, {strings.Repeat("é", 200), strings.Repeat("é", 119) + "…"},
	} {
		if got := givenName(test[0]); got != test[1] {
			t.Errorf("%q becomes %q", test[0], got)
		}
	}
	files := []engine.File{{Path: "data/x.ipynb"}, {Path: "sales.ipynb"}, {Path: "sales.csv"}}
	row := rowOf(engine.Session{Kind: engine.SessionLive}, files)
	if row.Title != "sales" || row.Kind != "Notebook" || row.Files != 3 {
		t.Errorf("a session with a notebook is %+v", row)
	}
	row = rowOf(engine.Session{Kind: engine.SessionLive, Name: "Q3"}, files)
	if row.Title != "Q3" || row.Kind != "Notebook" {
		t.Errorf("a named one is %+v", row)
	}
}
