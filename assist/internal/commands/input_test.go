package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
)

// Input that a request cannot hold is refused, and not changed.
func TestPromptIsText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "latin1.csv")
	for content, want := range map[string]int{"gr\xfc\xdfe\n": command.ExitUsage, "grüße\n": command.ExitDone} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		prompt, _, err := (&Assistant{App: &command.App{}}).promptText(askOptions{PromptFile: name}, nil)
		if code, _ := command.ExitOf(err); code != want || err == nil && prompt != content {
			t.Errorf("a prompt of %q: %q, %v", content, prompt, err)
		}
	}
}

// What a hint leads to is there.
func TestHintsLeadSomewhere(t *testing.T) {
	page, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range provider.Kinds() {
		shown := command.Explain(modelError(&provider.Error{Kind: k, Provider: "openai", Op: "run"}))
		_, section, linked := strings.Cut(strings.TrimSuffix(shown.Hint, ")"), "docs/troubleshooting.md#")
		if title := "\n## " + strings.ReplaceAll(section, "-", " ") + "\n"; !linked ||
			!strings.Contains(strings.ToLower(string(page)), title) {
			t.Errorf("%s: %q", k, shown.Hint)
		}
	}
}
