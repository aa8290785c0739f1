package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestSearch finds a run by words of which each is somewhere in it: its code,
// its output, its language, its outcome or the name of a file.
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
		"print total deprecated": true, "print absent": false, "total:42": false, "failed": false, "%": false,
	} {
		got := v.get("/runs?q=" + url.QueryEscape(query)).body
		if strings.Contains(got, run) != found {
			t.Errorf("a search for %q: found is %v", query, !found)
		}
		if strings.Contains(got, "Search older runs") {
			t.Errorf("a search for %q says that there is more", query)
		}
	}
}

// TestSearchGoesOn: what one search did not look at or show, the next one does.
func TestSearchGoesOn(t *testing.T) {
	v := visitSite(t, true, prints("x"))
	const runs = searchFound + searchFound/2
	for range runs {
		v.runs()
	}
	seen := map[string]bool{}
	page, more := "/runs?q=print", 0
	for page != "" {
		got := v.get(page)
		for _, part := range strings.Split(got.body, `class="past-title" href="/ui`)[1:] {
			seen[part[:strings.IndexByte(part, '"')]] = true
		}
		_, link, found := strings.Cut(got.body, `<a class="button" href="/ui/runs?q=`)
		page = ""
		if found {
			more++
			page = "/runs?q=" + strings.ReplaceAll(link[:strings.IndexByte(link, '"')], "&amp;", "&")
		}
	}
	if len(seen) != runs || more != 1 {
		t.Errorf("%d runs are found, want %d; %d times there was more", len(seen), runs, more)
	}
}

// BenchmarkSearch looks for a word that is in none of 10,000 runs, each with its
// code and some output, in the stores of a real service.
func BenchmarkSearch(b *testing.B) {
	const runs = 10_000
	log := slog.New(slog.DiscardHandler)
	blobs, err := blob.Open(filepath.Join(b.TempDir(), "files"))
	if err != nil {
		b.Fatal(err)
	}
	db, err := index.Open(b.Context(), filepath.Join(b.TempDir(), "index.db"), log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	n := 0
	e := enginetest.StartOn(b, engine.Config{}, sandboxtest.NewFake(
		func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			n++
			host.Output(engine.Stdout, []byte(strings.Repeat(fmt.Sprintf("line of run %d\n", n), 60)))
			return sandboxtest.Exit(0), nil
		}), blobs, db)
	caller := engine.Caller{Owner: engine.Local}
	site, err := New(Options{Engine: e, Authenticate: e.Authenticate,
		Languages: func(context.Context) []Language { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = site.Close() })
	p := &runPage{Site: site, runs: e, sources: sources{e}}
	for i := range runs {
		src := &source{Language: "python", Code: fmt.Sprintf("# program %d\nprint('x')\n", i)}
		req := src.request()
		if req.Profile.Scope, err = p.sources.keep(b.Context(), caller, src); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Run(b.Context(), caller, req); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		body := historyView{Query: "absent"}
		if err := p.search(b.Context(), caller, engine.ID{}, &body); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(body.Searched), "runs/search")
	}
}
