package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"comments":      {"{ // mine\n}", ""},
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
		backup, err := writeEntry(file, []string{"mcpServers"}, entry)
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
