package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/setup"
)

// hostReport is what doctor says about the machine itself.
type hostReport struct {
	Kernel string `json:"kernel"`
	System string `json:"system"` // "Debian GNU/Linux 12 (bookworm)"
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Memory int64  `json:"memory_bytes"`
	User   string `json:"user"`
	Data   string `json:"data"`
	Free   int64  `json:"data_free_bytes"` // -1: the directory does not exist yet
	Floor  int64  `json:"data_min_free_bytes,omitempty"`
	Low    bool   `json:"data_low,omitempty"` // uploads and runs are refused
}

func (a *app) examineHost() hostReport {
	r := hostReport{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Data: a.cfg.Data, Free: -1, System: systemName()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.Kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		r.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	r.User = strconv.Itoa(os.Geteuid())
	if u, err := user.Current(); err == nil {
		r.User = u.Username
	}
	if room, err := disk.Look(r.Data, a.cfg.MinFree); err == nil {
		r.Free, r.Floor, r.Low = room.Free, room.Floor, room.Low
	}
	return r
}

// systemName reads the distribution's own name for itself.
func systemName() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return printable(strings.Trim(name, `"'`))
		}
	}
	return ""
}

func (r hostReport) text(p *page) {
	p.line("%s", p.paint(bold, "Host"))
	system := r.Kernel + " " + r.Arch
	if r.System != "" {
		system = r.System + ", " + system
	}
	fact := func(name, text string) {
		for i, line := range wrap(text, pageWidth-17) {
			if i > 0 {
				name = ""
			}
			p.line("  %s  %s", pad(name, 13), line)
		}
	}
	fact("system", system)
	fact("machine", strconv.Itoa(r.CPUs)+" cores, "+humanize.IBytes(uint64(max(0, r.Memory)))+" memory")
	fact("user", r.User)
	free := "not there yet; `airlock setup` makes it"
	if r.Free >= 0 {
		free = humanize.IBytes(uint64(r.Free)) + " free"
	}
	fact("data", r.Data+" ("+free+")")
	if r.Low {
		p.row("disk", 13, red, "low", fmt.Sprintf(
			"A service refuses uploads and runs: less than %s or too few inodes are free.", humanize.IBytes(uint64(r.Floor))))
		p.row("", 13, "", "", "Cure: make room on this disk, delete files, wait until some expire, or set min_free lower")
	}
}

// languageReport says whether a language is there.
type languageReport struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Cure    string `json:"cure,omitempty"`
	// Optional says that setup installs it only when it is asked to.
	Optional bool `json:"optional,omitempty"`
}

func findLanguages(ctx context.Context) []languageReport {
	versions := language.InstalledVersions(ctx)
	var found []languageReport
	for _, l := range language.All() {
		r := languageReport{Name: l.Name, Title: l.Title, Optional: !l.Default}
		if version, ok := versions[l.Name]; ok {
			r.OK, r.Version = true, printable(version)
		} else {
			r.Cure = "run `airlock setup --languages " + l.Name + "`"
		}
		found = append(found, r)
	}
	return found
}

// examinePython reads what setup recorded. A record that is damaged counts as
// none, and doctor says what setup would do about it.
func (a *app) examinePython() pythonSummary {
	installed, err := setup.Inspect(a.cfg.Installed())
	if err != nil {
		return summarize(setup.Installed{})
	}
	return summarize(installed)
}
