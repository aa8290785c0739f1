package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshootingQuotes: each message in docs/troubleshooting.md is one that the
// code has, but for what differs from case to case.
func TestTroubleshootingQuotes(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := sources(t, root)
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	messages := quoted.FindAllStringSubmatch(string(page), -1)
	for _, m := range messages {
		checked := 0
		for part := range strings.SplitSeq(m[1], "...") {
			if part = strings.TrimSpace(part); len(part) < 4 {
				continue
			}
			checked++
			if !strings.Contains(code, part) {
				t.Errorf("%q has %q, which no source has", m[1], part)
			}
		}
		if checked == 0 {
			t.Errorf("%q says nothing", m[1])
		}
	}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if n := len(quoted.FindAllString(body, -1)); !strings.HasPrefix(title, "#") && n < 10 {
			t.Errorf("%s has %d messages", title, n)
		}
	}
}

// sources are the texts of the program.
func sources(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "docs" || d.Name() == "testdata" || d.Name() == "node_modules" ||
			strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
