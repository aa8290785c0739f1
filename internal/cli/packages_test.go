package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
)

// withSets makes a data directory in which setup recorded these sets.
func withSets(t *testing.T, names ...string) string {
	t.Helper()
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "runtimes", "python"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file := "manifest.json"
		if name != "current" {
			file = "manifest-" + name + ".json"
		}
		text := `{"python":"3.11.2","packages":[{"name":"numpy","version":"1","module":"numpy","ok":true}]}`
		if err := os.WriteFile(filepath.Join(data, "runtimes", "python", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// Rules say whose programs get which set, and doctor says what is missing for it.
func TestPackageRules(t *testing.T) {
	for _, test := range []struct {
		name      string
		installed []string
		rules     []string
		want      string // what doctor says, its lines joined
		standard  string
	}{
		{"nothing", nil, nil, "", ""},
		{"current only", []string{"current"}, nil,
			"current: 1 for Python 3.11.2, for programs of the API and the terminal, Onyx, LibreChat|" +
				"programs of Onyx get the set current, because onyx is not installed. Cure: run `airlock setup --packages onyx`",
			"current"},
		{"both", []string{"current", "onyx"}, []string{"librechat=current"}, "current: 1 for Python 3.11.2, for programs " +
			"of the API and the terminal, LibreChat|onyx: 1 for Python 3.11.2, for programs of Onyx", "current"},
		{"one for all", []string{"current", "onyx"}, []string{"onyx"},
			"onyx: 1 for Python 3.11.2, for programs of the API and the terminal, Onyx, LibreChat|" +
				"current: 1 for Python 3.11.2, for no protocol's programs by default", "onyx"},
		{"onyx alone", []string{"onyx"}, []string{"librechat=onyx"},
			"onyx: 1 for Python 3.11.2, for programs of the API and the terminal, Onyx, LibreChat", "onyx"},
		{"a rule's set is missing", []string{"current"}, []string{"librechat"},
			"programs of Onyx get the set current, because librechat is not installed", "current"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &app{App: &command.App{Config: &config.Config{Data: withSets(t, test.installed...), Packages: test.rules}}}
			var out bytes.Buffer
			for _, set := range a.examinePackages() {
				set.WriteText(&command.Page{Writer: &out, Colour: false})
			}
			if got := strings.Join(strings.Fields(out.String()), " "); !containsAll(got, strings.Split(test.want, "|")) {
				t.Errorf("doctor says %q, want %q", got, test.want)
			}
			if got := a.defaultPackages(); got != test.standard {
				t.Errorf("the default is %q, want %q", got, test.standard)
			}
		})
	}
	a := &app{App: &command.App{Config: &config.Config{Data: withSets(t, "current", "onyx"),
		Packages: []string{"key:abc=onyx", "native=onyx"}}}}
	sets := a.packageSets()
	if sets.Keys["abc"] != "onyx" || sets.Origins[engine.OriginNative] != "onyx" ||
		sets.Origins[engine.OriginLibreChat] != "librechat" {
		t.Errorf("rules: %+v", sets)
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// What another terminal is told to type works on a data directory of one's own.
func TestInvocationNamesTheData(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"default", nil, ""},
		{"own", []string{"--data", "/srv/air lock"}, " --data '/srv/air lock'"},
		{"plain", []string{"--data", "/srv/airlock"}, " --data /srv/airlock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags := map[string][]string{}
			if test.args != nil {
				flags["data"] = test.args[1:]
			}
			cfg, err := config.Load(config.Input{Flags: flags, Home: "/home/ada",
				Lookup: func(string) (string, bool) { return "", false }})
			if err != nil {
				t.Fatal(err)
			}
			a := &app{App: &command.App{Config: cfg}}
			if got := a.invocation(); got != os.Args[0]+test.want {
				t.Errorf("got %q", got)
			}
			report := setupReport{Data: cfg.Data, command: a.invocation()}
			var out bytes.Buffer
			if report.WriteText(&command.Page{Writer: &out, Colour: false}); !strings.Contains(out.String(),
				test.want+" serve") {
				t.Errorf("setup says %q", out.String())
			}
			report.serving = true
			out.Reset()
			if report.WriteText(&command.Page{Writer: &out, Colour: false}); strings.Contains(out.String(), "serve") {
				t.Errorf("before the service starts, setup says %q", out.String())
			}
		})
	}
}
