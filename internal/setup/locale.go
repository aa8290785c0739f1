package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// LocaleCure installs the locale that compileLocale compiles.
const LocaleCure = "run `airlock setup` as root; beyond Debian, install the locale " + language.English

// compileLocale compiles the locale that LibreChat's programs have in their image. It is a
// folder of its own: Debian's locale-gen makes its archive anew.
func (in *installer) compileLocale(ctx context.Context) {
	if language.HasEnglish(ctx) {
		return
	}
	in.progress.Step("locale " + language.English)
	become, err := in.asRoot(ctx)
	if err != nil {
		in.progress.Warn(fmt.Sprintf("programs have %s only: compiling %s needs root", language.Neutral, language.English))
		return
	}
	out, err := command(ctx, append(become, "localedef", "--no-archive", "-i", "en_US", "-f", "UTF-8",
		"/usr/lib/locale/en_US.utf8")...).CombinedOutput()
	if err != nil {
		in.progress.Warn(fmt.Sprintf("programs have %s only: localedef: %v: %s", language.Neutral, err,
			strings.TrimSpace(string(out))))
		return
	}
	in.progress.Done("compiled")
}
