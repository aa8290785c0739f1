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
