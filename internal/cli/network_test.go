package cli

import (
	"strings"
	"testing"
)

// An error names the line of the file, since it must not quote it.
func TestInjectionLine(t *testing.T) {
	_, err := parseInjections("api.example.com Authorization: Bearer x\n\n\nwrong\n")
	if err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("got %v", err)
	}
}
