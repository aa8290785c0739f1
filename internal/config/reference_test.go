package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pages that are made from the tables")

// scopeTitles are the headings of the page of settings.
var scopeTitles = map[Scope]string{
	Global: "Every command", Service: "The service", Client: "Commands that talk to a service elsewhere",
	Project: "Changes to folders, and reports to projects", Models: "Models",
}

// settingsPage is docs/settings.md.
func settingsPage() string {
	var b strings.Builder
	b.WriteString("# Settings\n\nAll settings, from the table in `internal/config/option.go`; " +
		"`go test ./internal/config -run TestSettingsPage -update` writes this page. A setting `some_name` is\n" +
		"`some_name` in `airlock.yaml`, `AIRLOCK_SOME_NAME` in the environment and `--some-name` as a flag, and the " +
		"flag counts\nbefore the environment, that before the file. `airlock config` prints each value and its source. " +
		"A secret is also\nread from the file that its name with `_file` has.\n")
	scope, group := Scope(-1), ""
	for _, o := range Options() {
		if o.Scope != scope {
			scope, group = o.Scope, ""
			fmt.Fprintf(&b, "\n## %s\n", scopeTitles[scope])
		}
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "\n### %s\n\n| setting | default | |\n|---|---|---|\n", group)
		}
		about := strings.ReplaceAll(o.Help, "|", `\|`)
		if len(o.Foreign) > 0 {
			about += "; else `" + strings.Join(o.Foreign, "`, `") + "`"
		}
		if o.Secret {
			about += "; a secret"
		}
		shown := o.Default
		if shown != "" {
			shown = "`" + shown + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Key, shown, about)
	}
	return b.String()
}

// TestSettingsPage compares the page of settings with the table.
func TestSettingsPage(t *testing.T) {
	const name = "../../docs/settings.md"
	want := settingsPage()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("docs/settings.md is not that of the table (%v): go test ./internal/config -run TestSettingsPage -update",
			err)
	}
}
