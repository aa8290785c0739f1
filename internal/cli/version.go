package cli

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/command"
)

func (a *app) version() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "version",
		Short: "Shows the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.Print(readVersion(a.release)) },
	})
}

// Release is what the linker recorded about a binary. Empty fields are filled from what
// the Go tool recorded.
type Release struct {
	Version string // "v1.2.3"
	Commit  string // its full hash
	Date    string // of the commit, RFC 3339 in UTC
}

type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit; ends in + when files were changed after it
	Date     string `json:"date,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readVersion describes this binary.
func readVersion(release Release) versionReport {
	v := versionReport{Version: "devel", Revision: release.Commit, Date: release.Date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if release.Version != "" {
		v.Version = release.Version
	} else if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	if v.Revision == "" {
		v.Revision, v.Date = recorded["vcs.revision"], recorded["vcs.time"]
		if v.Revision != "" && recorded["vcs.modified"] == "true" {
			v.Revision += "+"
		}
	}
	return v
}

func (v versionReport) WriteText(p *command.Page) {
	line := "airlock " + v.Version
	if len(v.Revision) >= 12 {
		day, _, _ := strings.Cut(v.Date, "T")
		line += " (" + strings.TrimSuffix(v.Revision[:12]+" of "+day, " of ") + ")"
	}
	p.Line("%s %s %s", line, v.Go, v.Platform)
}
