package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/changes"
)

// TestMessageKeepsItsReceipt checks that a receipt is stored in a message, beside what else
// the message has.
func TestMessageKeepsItsReceipt(t *testing.T) {
	for metadata, want := range map[string]string{
		`"z": 12345678901234567890`:                  `"z": 12345678901234567890`,
		`"metadata": null`:                           `"executionResult"`,
		`"metadata": {"mine": "<b>"}`:                `"mine": "<b>"`,
		`"metadata": {"executionResult": "old"}`:     `"state": "applied"`,
		`"metadata": "a text, which has no members"`: "",
	} {
		name := filepath.Join(t.TempDir(), "message.json")
		before := `{"content": "Done.", ` + metadata + `}`
		if err := os.WriteFile(name, []byte(before), 0o640); err != nil {
			t.Fatal(err)
		}
		m, err := readMessage(name)
		if err != nil {
			t.Fatal(err)
		}
		err = m.store(&changes.Result{State: changes.Applied})
		text, _ := os.ReadFile(name)
		if want == "" {
			if err == nil || string(text) != before {
				t.Errorf("%s: %v, %s", metadata, err, text)
			}
			continue
		}
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), `"state": "applied"`) ||
			strings.Contains(string(text), "old") {
			t.Errorf("%s: %v, %s", metadata, err, text)
		}
	}
}
