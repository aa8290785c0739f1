package live

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/language"
)

// An image has those languages whose live interpreter starts in it: Python leads Bash's, and there
// are packages of IPython for some versions.
func TestLanguagesOfImages(t *testing.T) {
	const bash, node = "/bin/bash", "/usr/bin/node"
	for name, test := range map[string]struct {
		image engine.Image
		want  string
	}{
		"python":       {enginetest.NewImage("x", "python", "3.13.1", "/usr/bin/python3", "bash", "5.2", bash), "python bash"},
		"no python":    {enginetest.NewImage("x", "bash", "5.2", bash, "r", "4.4.1", "/usr/bin/Rscript"), "r"},
		"an old one":   {enginetest.NewImage("x", "python", "3.10.12", "/usr/bin/python3", "bash", "5.2", bash, "js", "22", node), "javascript"},
		"a new one":    {enginetest.NewImage("x", "python", "3.15.0", "/usr/bin/python3", "bash", "5.2", bash), ""},
		"3.1":          {enginetest.NewImage("x", "python", "3.1.5", "/usr/bin/python3"), ""},
		"the last one": {enginetest.NewImage("x", "python", "3.14.0rc1", "/usr/bin/python3", "js", "22", node, "ts", "22", node), "python javascript typescript"},
		"nothing":      {enginetest.NewImage("x", "php", "8.4", "/usr/bin/php"), ""},
	} {
		has := Languages(&test.image)
		if got := strings.Join(has, " "); got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
		for _, known := range languages {
			lang, _ := language.Find(known)
			if err := hasLive(&test.image, lang); (err == nil) != slices.Contains(has, nameOf(known)) || err != nil && !errors.Is(err, engine.ErrNoLanguage) {
				t.Errorf("%s: %s: %v", name, known, err)
			}
		}
	}
	if has := Languages(nil); len(has) < 4 || has[0] != "python" || slices.Contains(has, "r") != (mustFind("r").Missing() == "") {
		t.Errorf("of the host: %v", has)
	}
}

// Setup has packages for the versions of Python that cells run in, and for no others.
func TestVersionsOfPython(t *testing.T) {
	locks, err := filepath.Glob("../setup/locks/live-3.*.txt")
	if err != nil || len(locks) == 0 {
		t.Fatal(err)
	}
	for minor := range 30 {
		version := fmt.Sprintf("3.%d", minor)
		if has := slices.Contains(locks, "../setup/locks/live-"+version+".txt"); livePython.MatchString(version+".1") != has {
			t.Errorf("%s: there is a lock: %v", version, has)
		}
	}
}

func mustFind(name string) language.Language {
	lang, _ := language.Find(name)
	return lang
}
