package linux

import (
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// available is ErrNoLanguage, with what to install, where this host lacks a
// language or the compiler of it.
func available(l language.Language) error {
	command := l.Missing()
	if command == "" {
		return nil
	}
	return &engine.Error{
		Op: "run", Kind: engine.ErrNoLanguage, Err: fmt.Errorf("%s is not installed on this host: %s is missing", l.Title,
			command),
		Hint: fmt.Sprintf(
			"Install it there with `airlock setup --languages %s` (Debian: %s); `airlock doctor` tells what is missing.", l.Name,
			strings.Join(l.Packages, ", ")),
	}
}
