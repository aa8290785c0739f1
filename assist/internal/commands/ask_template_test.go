package commands

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A variable may have any name of letters, digits, _ and -, and no name crashes the command.
func TestVariableNames(t *testing.T) {
	for _, name := range []string{"year", "sales-of", "value", "_x1"} {
		text, _, err := fill("prompt.txt", "{{"+name+"}} and {{base \"a/b\"}}", []string{name + "=2026"})
		if err != nil || text != "2026 and b" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"", "a b", "1st", "a.b", "größe"} {
		if text, _, err := fill("prompt.txt", "text", []string{name + "=2026"}); err == nil {
			t.Errorf("%q: accepted: %q", name, text)
		}
	}
}

// A named pipe in a person's folder is no file: it is refused, not waited for.
func TestTemplatePipes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := syscall.Mkfifo(filepath.Join(dir, "data.csv"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, _, err := fill("prompt.txt", `{{file "data.csv"}}`, nil); err == nil {
		t.Errorf("%q", text)
	}
}
