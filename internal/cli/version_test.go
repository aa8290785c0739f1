package cli

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/command"
)

func TestVersionOfRelease(t *testing.T) {
	v := readVersion(Release{Version: "v1.2.3", Commit: "51f70e9e95287f2c0d1f", Date: "2026-11-22T12:00:00Z"})
	var out strings.Builder
	v.WriteText(&command.Page{Writer: &out, Colour: false})
	if want := "airlock v1.2.3 (51f70e9e9528 of 2026-11-22) go"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("version is shown as %q, want %q...", out.String(), want)
	}
}
