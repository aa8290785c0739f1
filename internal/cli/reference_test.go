package cli

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/assist/provider/metrics"
	"github.com/airlock-run/airlock/internal/dialect/onyx"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var update = flag.Bool("update", false, "write the pages that are made from the code")

var described = regexp.MustCompile(`fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}`)

// metricsPage is docs/metrics.md: the metrics of a service, as they describe themselves.
func metricsPage(t *testing.T) string {
	s := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), enginetest.NewIndex())
	m := httpd.NewMetrics(s)
	countMachine(m.Registry, versionReport{})
	stored := newStorageMetrics()
	m.Registry.MustRegister(stored.database, stored.failures, stored.bucket,
		cacheMetrics(func() (uint64, uint64) { return 0, 0 }))
	countLive(m, func() live.Counts { return live.Counts{} })
	m.Registry.MustRegister(nodeMetrics(func() []engine.Node { return nil }), metrics.New(nil))
	onyx.New(s, onyx.Options{Registry: m.Registry})
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); m.Registry.Describe(descs) }()
	rows := map[string]string{}
	for d := range descs {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("%s", d)
		}
		help, err := strconv.Unquote(found[2])
		if err != nil {
			t.Fatal(err)
		}
		if name := found[1]; !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			rows[name] = fmt.Sprintf("| `%s` | %s | %s |\n", name, found[3], strings.ReplaceAll(help, "|", `\|`))
		}
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat `GET /metrics` has, for Prometheus, beside the `go_` and `process_` metrics of every Go " +
		"program, and\n`go_sql_` of the connections to PostgreSQL. It needs an admin key or `metrics_token`.\n" +
		"[operations.md](operations.md) has a dashboard, alerts, and what to do at each.\n" +
		"`go test ./internal/cli -run TestMetricsPage -update` writes this page.\n\n| metric | labels | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	return b.String()
}

// TestMetricsPage compares the page of metrics with the code.
func TestMetricsPage(t *testing.T) {
	const name = "../../docs/metrics.md"
	want := metricsPage(t)
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("docs/metrics.md is not that of the code (%v): go test ./internal/cli -run TestMetricsPage -update", err)
	}
}

// TestLanguagesPage compares the table of docs/languages.md with the languages.
func TestLanguagesPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/languages.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (`[a-z`, ]+) \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")
	words := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", `;:", r) })
	}
	seen := []string{}
	table, _, _ := strings.Cut(string(text), "\n## ")
	for _, found := range row.FindAllStringSubmatch(table, -1) {
		names := words(found[1])
		var aliases, entries, packages []string
		for _, name := range names {
			l, ok := language.Find(name)
			if !ok || l.Name != name {
				t.Errorf("%s is no language", name)
			}
			seen = append(seen, name)
			aliases, entries, packages = append(aliases, l.Aliases...), append(entries, l.Entry), append(packages, l.Packages...)
		}
		if got := words(found[2]); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(aliases))) {
			t.Errorf("%v: also called %v, the page says %v", names, aliases, got)
		}
		if got := words(found[3]); !slices.Equal(got, entries) {
			t.Errorf("%v: files %v, the page says %v", names, entries, got)
		}
		for _, p := range packages {
			if !slices.Contains(words(found[4]), p) {
				t.Errorf("%v: the page lacks the package %s", names, p)
			}
		}
	}
	for _, l := range language.All() {
		if !slices.Contains(seen, l.Name) {
			t.Errorf("the page lacks %s", l.Name)
		}
	}
}

// TestArchitecturePackages looks for every package in docs/architecture.md, but those of tests,
// measurements and examples.
func TestArchitecturePackages(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	const top = "../../"
	packages := 0
	for _, house := range []string{"assist", "client", "cmd", "internal", "pytool"} {
		err := filepath.WalkDir(top+house, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			name := strings.TrimPrefix(path, top)
			files, err := filepath.Glob(path + "/*.go")
			switch {
			case err != nil:
				return err
			case len(files) == 0 || strings.HasSuffix(name, "test"):
				return nil
			}
			packages++
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("the page lacks %s", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if packages < 60 {
		t.Errorf("%d packages were found", packages)
	}
}
