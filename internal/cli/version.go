package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Shows the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.out.result(readVersion(a.release))
			return nil
		},
	}
	a.addJSON(cmd)
	return cmd
}

type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit; ends in + when files were changed after it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readVersion reads what the Go tool wrote into the binary. A release knows its
// own name.
func readVersion(release string) versionReport {
	v := versionReport{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if release != "" {
		v.Version = release
	} else if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed && v.Revision != "" {
		v.Revision += "+"
	}
	return v
}

func (v versionReport) text(p *page) {
	line := "airlock " + v.Version
	if len(v.Revision) >= 12 {
		line += " (" + v.Revision[:12] + ")"
	}
	p.line("%s %s %s", line, v.Go, v.Platform)
}
