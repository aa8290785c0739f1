package language

import (
	"context"
	"os/exec"
	"strings"
)

// Locales of programs. Every host has Neutral. English is what images of other code
// interpreters set; setup compiles it.
const (
	Neutral = "C.UTF-8"
	English = "en_US.UTF-8"
)

// HasEnglish reports whether this host has the locale English.
func HasEnglish(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	names, err := exec.CommandContext(ctx, "locale", "-a").Output() //nolint:gosec // a constant
	if err != nil {
		return false
	}
	for name := range strings.Lines(string(names)) {
		if strings.TrimSpace(name) == "en_US.utf8" { // as the C library writes it
			return true
		}
	}
	return false
}
