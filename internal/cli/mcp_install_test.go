package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/airlock-run/airlock/internal/command"
)

// The entry is added, or takes the place of an older one; everything else stays
// in its order, and the file as it was is kept.
func TestWriteEntry(t *testing.T) {
	entry := map[string]any{"command": "/bin/airlock", "args": []string{"mcp"}}
	for name, tc := range map[string]struct{ before, order string }{
		"no file": {"", `"mcpServers" "airlock"`},
		"empty":   {"{}", `"mcpServers" "airlock"`},
		"others": {`{"z": 1e400, "mcpServers": {"b": {"x": "<&>"}, "a": {}}, "c": null}`,
			`"z" 1e400 "mcpServers" "b" "<&>" "a" "airlock" "c"`},
		"an older one":  {`{"mcpServers": {"airlock": {"command": "old"}, "a": {}}}`, `"airlock" /bin/airlock "a"`},
		"not an object": {`[1]`, ""},
		"half JSON":     {"{ // mine\n", ""},
		"two values":    {"{} {}", ""},
	} {
		file := filepath.Join(t.TempDir(), "deep", "settings.json")
		if tc.before != "" {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tc.before), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		set := func(before []byte) ([]byte, error) {
			return command.SetMember(before, []string{"mcpServers", "airlock"}, entry)
		}
		backup, err := writeEntry(file, set)
		after, _ := os.ReadFile(file)
		if tc.order == "" {
			if err == nil || string(after) != tc.before {
				t.Errorf("%s: %v, %s", name, err, after)
			}
			continue
		}
		if err != nil || !json.Valid(after) {
			t.Errorf("%s: %v, %s", name, err, after)
		}
		rest := string(after)
		for word := range strings.FieldsSeq(tc.order) {
			i := strings.Index(rest, word)
			if i < 0 {
				t.Errorf("%s: %s is not in its place: %s", name, word, after)
				break
			}
			rest = rest[i+len(word):]
		}
		if strings.Contains(string(after), "old") {
			t.Errorf("%s: %s", name, after)
		}
		if again, err := writeEntry(file, set); err != nil || again != "" {
			t.Errorf("%s: a second time: %v, a backup %q", name, err, again)
		}
		if tc.before == "" {
			continue
		}
		kept, err := os.ReadFile(backup)
		info, statErr := os.Stat(file)
		if err != nil || string(kept) != tc.before || statErr != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: kept %q, %v", name, kept, err)
		}
	}
}

// Codex's settings keep their comments and everything else, and a table that cannot be added by lines is refused.
func TestSetTable(t *testing.T) {
	const table = "[mcp_servers.airlock]\nargs = [\"mcp\",\"--data\",\"/d \\\"x\\\"\"]\ncommand = \"/bin/airlock\"\n"
	entry := map[string]any{"command": "/bin/airlock", "args": []string{"mcp", "--data", `/d "x"`}}
	for name, c := range map[string]struct{ before, want string }{
		"no file": {"", table},
		"others": {"# mine\nmodel = \"m\" # the best\n\n[mcp_servers.other]\ncommand = \"o\"\n\n\n",
			"# mine\nmodel = \"m\" # the best\n\n[mcp_servers.other]\ncommand = \"o\"\n\n" + table},
		"an older one": {"a = 1\n\n[mcp_servers.airlock]\n# old\ncommand = \"old\"\n[mcp_servers.airlock.env]\nX = \"1\"\n" +
			"\n# next\n[b]\nc = 2\n",
			"a = 1\n\n\n# next\n[b]\nc = 2\n\n" + table},
		"without an end of line":    {"a = 1", "a = 1\n\n" + table},
		"the same":                  {table + "\n[x]\n", table + "\n[x]\n"},
		"quoted":                    {"[\"mcp_servers\".'airlock']\ncommand = \"old\"\n", table},
		"no TOML":                   {"a = \n", ""},
		"an inline table":           {"mcp_servers = {other = {command = \"o\"}}\n", ""},
		"a dotted key":              {"mcp_servers.airlock.command = \"old\"\n", ""},
		"a header in a long string": {"a = \"\"\"\n[mcp_servers.airlock]\n\"\"\"\n", ""},
	} {
		after, err := setTable([]byte(c.before), []string{"mcp_servers", "airlock"}, entry)
		if string(after) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, after, c.want)
		}
	}
}

// goose's settings keep their comments and everything else, and what cannot be added by lines is refused.
func TestSetExtension(t *testing.T) {
	const own = "  airlock:\n    name: airlock\n    type: stdio\n    cmd: /bin/airlock\n    args:\n      - mcp\n" +
		"      - --data\n      - \"/d: x\"\n    enabled: true\n    timeout: 300\n"
	const other = "  developer: # built in\n    enabled: true\n    type: builtin\n"
	entry := map[string]any{"command": "/bin/airlock", "args": []string{"mcp", "--data", "/d: x"}}
	for name, c := range map[string]struct{ before, want string }{
		"no file": {"", "extensions:\n" + own},
		"no extensions": {"# mine\nGOOSE_MODEL: m # the best",
			"# mine\nGOOSE_MODEL: m # the best\nextensions:\n" + own},
		"none yet": {"extensions: {} # none\na: 1\n", "extensions: # none\n" + own + "a: 1\n"},
		"others": {"extensions:\n" + other + "\n# next\na: 1\n",
			"extensions:\n" + own + other + "\n# next\na: 1\n"},
		"an older one": {"extensions:\n" + other + "  airlock:\n    cmd: old\n  # z\n  z:\n    x: 1\n",
			"extensions:\n" + own + other + "  # z\n  z:\n    x: 1\n"},
		"the same": {"extensions:\n" + other + own, "extensions:\n" + other + own},
		"deeper": {"extensions:\n    z:\n        x: 1\n",
			"extensions:\n" + strings.ReplaceAll("  "+own, "\n  ", "\n    ") + "    z:\n        x: 1\n"},
		"no YAML":             {"a: [\n", ""},
		"in flow style":       {"extensions: {developer: {enabled: true}}\n", ""},
		"in a text of a text": {"a: |\n  b\nextensions: [1]\n", ""},
	} {
		after, err := setExtension([]byte(c.before), []string{"extensions", "airlock"}, entry)
		if string(after) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, after, c.want)
		}
	}
}

// Crush's settings are a program, in which the line of an older entry is replaced where it is.
func TestSetCrush(t *testing.T) {
	const line = "mcp add airlock --type stdio --command /bin/airlock --args mcp --args --data --args '/d x'\n"
	entry := map[string]any{"command": "/bin/airlock", "args": []string{"mcp", "--data", "/d x"}}
	for name, c := range map[string]struct{ before, want string }{
		"no file": {"", line},
		"others":  {"# mine\nmcp add airlocks --url x", "# mine\nmcp add airlocks --url x\n" + line},
		"an older one": {"if true; then\n  mcp add airlock \\\n    --command old\nfi\n",
			"if true; then\n  " + line + "fi\n"},
		"two": {"mcp add airlock --command a\nif true; then\nmcp add airlock --command b\nfi\n",
			line + "if true; then\n: # it is added above\nfi\n"},
		"the same": {line + "x\n", line + "x\n"},
	} {
		if after, err := setCrush([]byte(c.before), []string{"airlock"}, entry); err != nil || string(after) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, after, c.want)
		}
	}
}

// The skill file has the front matter that agents need, within their limits, and is short.
func TestSkill(t *testing.T) {
	head, ok := strings.CutPrefix(skill, "---\n")
	head, _, closed := strings.Cut(head, "\n---\n")
	var about struct{ Name, Description string }
	if err := yaml.Unmarshal([]byte(head), &about); err != nil || !ok || !closed {
		t.Fatalf("the front matter: %v", err)
	}
	if about.Name != "airlock" || about.Description == "" || len(about.Description) > 1024 {
		t.Errorf("%+v", about)
	}
	if n := strings.Count(skill, "\n"); n > 60 {
		t.Errorf("%d lines", n)
	}
}
