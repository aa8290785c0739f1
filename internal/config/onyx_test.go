package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/config"
)

// docs/onyx.md names each setting of Onyx's, and no name that does not exist.
func TestOnyxPageHasEverySetting(t *testing.T) {
	text, err := os.ReadFile("../../docs/onyx.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, o := range config.Options() {
		known[o.Env()] = true
		if strings.HasPrefix(o.Key, "onyx_") && !strings.Contains(string(text), "`"+o.Env()+"`") {
			t.Errorf("%s is missing", o.Env())
		}
		foreign := slices.ContainsFunc(o.Foreign, func(name string) bool {
			return strings.Contains(string(text), "`"+name+"`")
		})
		if foreign && !strings.Contains(string(text), "`"+o.Env()+"`") {
			t.Errorf("%s stands there without its own name", o.Env())
		}
	}
	for _, name := range regexp.MustCompile(`\bAIRLOCK_[A-Z_]+\b`).FindAllString(string(text), -1) {
		if !known[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
}
