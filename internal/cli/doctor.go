package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) doctor() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "doctor",
		Short: "Shows what this host can enforce, what it cannot, and what to do about it",
		Long: `Shows what this host can enforce, what it cannot, and what to do about it. It
starts a sandbox, runs a program in it, and changes nothing. Exits with 0 when
programs can be run, with 7 when not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := a.examine(cmd.Context())
			a.Out.Result(r)
			if !r.Ready {
				return command.Exit(command.ExitUnavailable)
			}
			return nil
		},
	})
}

// doctorReport is what doctor found.
type doctorReport struct {
	Ready     bool             `json:"ready"` // programs can be run
	Host      hostReport       `json:"host"`
	Isolation *isolationReport `json:"isolation"` // null: no sandbox could be started
	Kernel    *kernelReport    `json:"kernel"`    // null: programs have one of their own anyway, or no sandbox could be started
	Trial     trialReport      `json:"trial"`
	Warm      *warmReport      `json:"warm_starts"` // null: they are switched off, or no sandbox could be started
	Network   networkReport    `json:"network"`
	Languages []languageReport `json:"languages"`
	Python    pythonSummary    `json:"python"`
	Packages  []packagesReport `json:"packages"`
	Images    imagesFound      `json:"images"`
	Missing   []missingImage   `json:"missing_images,omitempty"` // that settings name
	Mounts    []mountFound     `json:"mounts,omitempty"`
	Node      []string         `json:"npm_packages"`
	comfortReport
	Storage []layerReport `json:"storage"` // of database and bucket; none: the data directory
	Service serviceReport `json:"service"`
}

type isolationReport struct {
	Backend string        `json:"backend"`
	Strict  bool          `json:"strict"`
	Mode    string        `json:"mode"` // what was asked for: strict or best
	Summary string        `json:"summary"`
	Layers  []layerReport `json:"layers"`
}

type layerReport struct {
	Name   string            `json:"name"`
	State  engine.LayerState `json:"state"`
	Detail string            `json:"detail"`
	Cure   string            `json:"cure,omitempty"`
}

// trialReport is the run of one small program.
type trialReport struct {
	OK         bool             `json:"ok"`
	DurationMS int64            `json:"duration_ms"` // from request to answer
	Problem    *command.Problem `json:"problem,omitempty"`
	circular   bool             // the problem's hint refers to this command
	err        error            // the problem; nil if there is none
	printed    string           // by the program, after its first line
}

type serviceReport struct {
	Running         bool     `json:"running"` // on this data directory
	Detail          string   `json:"detail"`
	TrustedNetworks []string `json:"trusted_networks"`
	AllowedHosts    []string `json:"allowed_hosts"`
}

func (a *app) examine(ctx context.Context) doctorReport {
	r := doctorReport{Host: a.examineHost(), Service: a.examineService(ctx)}
	r.Languages = findLanguages(ctx)
	installed, _ := setup.Inspect(a.Config.Installed()) // a damaged record counts as none
	r.Python, r.Packages = summarize(installed), a.examinePackages()
	r.Images, r.Missing = findImages(a.images()), missingImages(a.Config, a.images())
	r.Mounts = findMounts(a.Config.Mounts)
	r.Node = append([]string{}, setup.NodePackages(a.Config.Installed())...)
	r.comfortReport = examineComfort(ctx)
	r.Isolation, r.Trial, r.Warm = a.tryRun(ctx)
	if r.Trial.OK && a.Config.Wall == config.WallShared {
		r.Kernel = a.tryKernel(ctx)
	}
	r.Network = a.examineNetwork(ctx)
	r.Storage = a.examineStorage(ctx)
	r.Ready = r.Trial.OK
	for _, l := range r.Storage {
		r.Ready = r.Ready && l.State != engine.LayerMissing
	}
	return r
}

// tryRun runs a program as every program is run. It calls the engine, whose errors name the
// cause; the API hides it in the log.
func (a *app) tryRun(ctx context.Context) (*isolationReport, trialReport, *warmReport) {
	local, err := a.startLocalWith(ctx, a.sandboxes(a.launcher(0, a.Config.Warm)))
	if err != nil {
		return nil, failed(err), nil
	}
	defer local.close()
	found, err := local.service.engine.Isolation(ctx)
	if err != nil {
		return nil, failed(err), nil
	}
	isolation := &isolationReport{Backend: found.Backend, Strict: found.Strict, Mode: a.Config.Isolation,
		Summary: found.Summary, Layers: layersOf(found.Layers)}
	trial := tryIn(ctx, local.service.engine, "echo ready")
	if !trial.OK {
		return isolation, trial, nil
	}
	return isolation, trial, a.tryWarm(ctx, local.service.engine)
}

func failed(err error) trialReport {
	e, ok := errors.AsType[*engine.Error](err)
	return trialReport{Problem: new(command.Explain(err)), circular: ok && e.Doctor, err: err}
}

// tryIn runs a program of Bash, which prints "ready" first.
func tryIn(ctx context.Context, e *engine.Service, code string) trialReport {
	began := time.Now()
	run, err := e.Run(ctx, engine.Caller{Owner: engine.Local}, engine.RunRequest{
		Language: "bash", Code: code, Image: engine.HostImage, Profile: engine.Profile{Origin: engine.OriginNative},
	})
	took := time.Since(began)
	if err != nil {
		return failed(err)
	}
	printed, ready := strings.CutPrefix(run.Stdout, "ready\n")
	if run.Status != engine.StatusOK || !ready {
		return failed(command.Fail(command.ExitUnavailable, "", "a program that prints a word ended with %q: %s %s",
			run.Status, command.Printable(run.Message), command.Printable(run.Stderr)))
	}
	return trialReport{OK: true, DurationMS: took.Milliseconds(), printed: strings.TrimSpace(printed)}
}

// kernelReport says whether programs can have a kernel of their own.
type kernelReport struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitempty"`
}

// tryKernel runs a program with a kernel of its own.
func (a *app) tryKernel(ctx context.Context) *kernelReport {
	trial := a.tryWall(ctx, config.WallGVisor)
	if !trial.OK {
		message := strings.TrimPrefix(trial.Problem.Message, "start the sandbox: ")
		return &kernelReport{Detail: strings.TrimPrefix(message, "a kernel of its own (gVisor) cannot be had: "),
			Cure: trial.Problem.Hint}
	}
	return &kernelReport{OK: true,
		Detail: fmt.Sprintf("gVisor, with --wall gvisor: a trial run took %d ms", trial.DurationMS)}
}

// tryWall runs a program behind a wall, which prints the release of the kernel that it has. A program that
// should have a kernel of its own, and has the machine's, is a failure.
func (a *app) tryWall(ctx context.Context, wall string) trialReport {
	local, err := a.startLocalWith(ctx, sandboxes{a.launcher(0, false), engine.Wall(wall)})
	if err != nil {
		return failed(err)
	}
	defer local.close()
	trial := tryIn(ctx, local.service.engine, "echo ready; uname -r")
	if trial.OK && wall == config.WallGVisor && trial.printed == kernelRelease() {
		return failed(command.Fail(command.ExitUnavailable, "",
			"a program behind the wall gvisor has the machine's kernel, %s", command.Printable(trial.printed)))
	}
	return trial
}

// kernelRelease returns the release of this machine's kernel, "" if it is not known.
func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// warmReport says whether Python programs start from an interpreter that is ready.
type warmReport struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitempty"`
}

// warmTimeout bounds the start of one interpreter.
const warmTimeout = 30 * time.Second

// tryWarm waits until the first pool's interpreter, which is Python alone, has started
// or failed.
func (a *app) tryWarm(ctx context.Context, e *engine.Service) *warmReport {
	if !a.Config.Warm {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	for {
		pools, err := e.Pools(ctx)
		switch {
		case err != nil:
			return &warmReport{Detail: "none, because " + err.Error(), Cure: "restart Airlock where it has more processor time"}
		case len(pools) > 0 && pools[0].Ready:
			return &warmReport{OK: true, Detail: "Python programs start from an interpreter that is ready"}
		case len(pools) > 0 && pools[0].Cold != "":
			return &warmReport{Detail: "none, because " + pools[0].Cold, Cure: "programs run all the same, and each takes " +
				"longer to start; install a CPython that warm starts are tested with (Debian's 3.11, 3.13 or 3.14) " +
				"as /usr/bin/python3, and restart the service"}
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// storageTimeout bounds the examination of a database and a bucket.
const storageTimeout = 30 * time.Second

// examineStorage examines the database and the bucket that a service would use.
func (a *app) examineStorage(ctx context.Context) []layerReport {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	all := []layerReport{}
	if a.Config.Database != "" {
		all = layersOf(index.Examine(ctx, a.Config.Database.Reveal()))
	}
	if a.Config.Blobs == "" {
		return all
	}
	address, err := bucket.ParseAddress(a.Config.Blobs)
	if err != nil {
		return append(all, layerReport{"bucket", engine.LayerMissing, err.Error(), "put AIRLOCK_BLOBS right"})
	}
	return append(all, layersOf(bucket.Examine(ctx, address))...)
}

func layersOf(layers []engine.Layer) []layerReport {
	list := make([]layerReport, len(layers))
	for i, l := range layers {
		list[i] = layerReport(l)
	}
	return list
}

// examineService reports whether a service holds the data directory.
func (a *app) examineService(ctx context.Context) serviceReport {
	r := serviceReport{TrustedNetworks: networkTexts(a.Config.TrustNetworks),
		AllowedHosts: append([]string{}, a.Config.AllowHosts...)}
	r.Running, r.Detail = true, "answers on "+a.Config.Socket()
	if !a.socketAnswers(ctx) {
		r.Running, r.Detail = false, "no service answers on "+a.Config.Socket()+"; `airlock serve` starts one"
	}
	return r
}

func (r doctorReport) WriteText(p *command.Page) {
	r.Host.WriteText(p)
	r.isolationText(p)
	r.Network.WriteText(p)
	r.runtimesText(p)
	if len(r.Storage) > 0 {
		p.Line("")
		p.Line("%s", p.Paint(command.Bold, "Storage"))
		layersText(p, r.Storage)
	}
	r.serviceText(p)
	p.Line("")
	if r.Ready {
		p.Line("%s Programs can be run here: a trial run took %d ms.", p.Paint(command.Green, "Ready."), r.Trial.DurationMS)
		return
	}
	if r.Trial.OK {
		p.Line("%s Programs can be run here, and what they leave cannot be kept: see Storage.",
			p.Paint(command.Red, "Not ready."))
		return
	}
	p.Line("%s Programs cannot be run here.", p.Paint(command.Red, "Not ready."))
	if r.Trial.Problem != nil {
		paragraph(p, "  ", r.Trial.Problem.Message)
		if r.Trial.Problem.Hint != "" && !r.Trial.circular {
			paragraph(p, "  ", "Cure: "+r.Trial.Problem.Hint)
		}
	}
}

// looks are the words and styles of the states of a layer.
var looks = map[engine.LayerState]struct{ word, look string }{
	engine.LayerEnforced: {"ok", command.Green},
	engine.LayerWeaker:   {"weaker", command.Yellow},
	engine.LayerMissing:  {"missing", command.Red},
}

func (r doctorReport) isolationText(p *command.Page) {
	p.Line("")
	if r.Isolation == nil {
		p.Line("%s", p.Paint(command.Bold, "Isolation"))
		p.Row("sandbox", 13, command.Red, "missing", "no sandbox could be started")
		return
	}
	p.Line("%s (%s)", p.Paint(command.Bold, "Isolation"), r.Isolation.Summary)
	layersText(p, r.Isolation.Layers)
	if r.Kernel != nil {
		look, word := command.Green, "ok"
		if !r.Kernel.OK {
			look, word = command.Faint, "none"
		}
		p.Row("own kernel", 13, look, word, command.Printable(r.Kernel.Detail))
		if r.Kernel.Cure != "" {
			p.Row("", 13, "", "", "Cure: "+r.Kernel.Cure)
		}
	}
	if !r.Isolation.Strict {
		paragraph(p, "  ", "Not strict: listening beyond loopback needs --isolation=best on this host.")
	}
}

func layersText(p *command.Page, layers []layerReport) {
	for i, l := range layers {
		look := looks[l.State]
		p.Row(l.Name, 13, look.look, look.word, command.Printable(l.Detail))
		// Adjacent layers with the same cure show it once, below the last of them.
		shared := i+1 < len(layers) && layers[i+1].Cure == l.Cure
		if l.Cure != "" && !shared {
			p.Row("", 13, "", "", "Cure: "+l.Cure)
		}
	}
}

func (r doctorReport) runtimesText(p *command.Page) {
	p.Line("")
	p.Line("%s", p.Paint(command.Bold, "Runtimes"))
	var others []string
	for _, l := range r.Languages {
		switch {
		case l.OK:
			p.Row(l.Title, 13, command.Green, "ok", l.Version)
		case l.Optional:
			others = append(others, l.Name)
		default:
			p.Row(l.Title, 13, command.Red, "missing", "Cure: "+l.Cure)
		}
	}
	if len(others) > 0 {
		p.Row("others", 13, command.Faint, "none", "on request: `airlock setup --languages "+strings.Join(others, ",")+"`")
	}
	if r.Python.Version == "" {
		p.Row("packages", 13, command.Yellow, "none", "Python has its standard library only. Cure: run `airlock setup`")
	}
	for _, set := range r.Packages {
		set.WriteText(p)
	}
	r.Images.WriteText(p)
	for _, m := range r.Missing {
		m.WriteText(p)
	}
	for _, m := range r.Mounts {
		m.WriteText(p)
	}
	if r.Warm != nil {
		look, word := command.Green, "ok"
		if !r.Warm.OK {
			look, word = command.Yellow, "cold"
		}
		p.Row("warm starts", 13, look, word, command.Printable(r.Warm.Detail))
		if r.Warm.Cure != "" {
			p.Row("", 13, "", "", "Cure: "+r.Warm.Cure)
		}
	}
	if len(r.Node) > 0 {
		p.Row("npm packages", 13, command.Green, "ok", fmt.Sprintf("%d in /node_modules: %s", len(r.Node),
			strings.Join(r.Node, ", ")))
	}
	r.comfortReport.WriteText(p)
}

func (r doctorReport) serviceText(p *command.Page) {
	p.Line("")
	p.Line("%s", p.Paint(command.Bold, "Service"))
	if r.Service.Running {
		p.Row("airlock serve", 13, command.Green, "running", r.Service.Detail)
	} else {
		p.Row("airlock serve", 13, command.Faint, "stopped", r.Service.Detail)
	}
	if len(r.Service.TrustedNetworks) == 0 {
		return
	}
	p.Row("trust", 13, command.Yellow, "OPEN", "no key is asked of callers from "+strings.Join(r.Service.TrustedNetworks,
		", "))
	hosts := "under no host name but an IP address; --allow-host NAME adds one"
	if len(r.Service.AllowedHosts) > 0 {
		hosts = "under the host names " + strings.Join(r.Service.AllowedHosts, ", ")
	}
	p.Row("", 13, "", "", hosts)
}

func paragraph(p *command.Page, indent, text string) {
	for _, line := range command.Wrap(text, command.PageWidth-len(indent)) {
		p.Line("%s%s", indent, line)
	}
}

// hostReport describes the machine.
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
	r := hostReport{Arch: runtime.GOARCH, CPUs: engine.Processors(), Data: a.Config.Data, Free: -1, System: systemName()}
	if release := kernelRelease(); release != "" {
		r.Kernel = "Linux " + release
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		r.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	r.User = strconv.Itoa(os.Geteuid())
	if u, err := user.Current(); err == nil {
		r.User = u.Username
	}
	if room, err := disk.Look(r.Data, a.Config.MinFree); err == nil {
		r.Free, r.Floor, r.Low = room.Free, room.Floor, room.Low
	}
	return r
}

// systemName returns the name of the distribution.
func systemName() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return command.Printable(strings.Trim(name, `"'`))
		}
	}
	return ""
}

func (r hostReport) WriteText(p *command.Page) {
	p.Line("%s", p.Paint(command.Bold, "Host"))
	system := r.Kernel + " " + r.Arch
	if r.System != "" {
		system = r.System + ", " + system
	}
	fact := func(name, text string) {
		for i, line := range command.Wrap(text, command.PageWidth-17) {
			if i > 0 {
				name = ""
			}
			p.Line("  %s  %s", command.Pad(name, 13), line)
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
		p.Row("disk", 13, command.Red, "low", fmt.Sprintf(
			"A service refuses uploads and runs: less than %s or too few inodes are free.", humanize.IBytes(uint64(r.Floor))))
		p.Row("", 13, "", "", "Cure: make room on this disk, delete files, wait until some expire, or set min_free lower")
	}
}

// languageReport says whether a language is installed.
type languageReport struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Cure    string `json:"cure,omitempty"`
	// Optional is set if setup installs the language only on request.
	Optional bool `json:"optional,omitempty"`
}

func findLanguages(ctx context.Context) []languageReport {
	versions := language.InstalledVersions(ctx)
	var found []languageReport
	for _, l := range language.All() {
		r := languageReport{Name: l.Name, Title: l.Title, Optional: !l.Default}
		if version, ok := versions[l.Name]; ok {
			r.OK, r.Version = true, command.Printable(version)
		} else {
			r.Cure = "run `airlock setup --languages " + l.Name + "`"
		}
		found = append(found, r)
	}
	return found
}
