package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/google/subcommands"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/sandbox"
	"gvisor.dev/gvisor/runsc/specutils"
)

// Files that the executor hands over, beside the program's stdin, stdout and stderr.
const (
	reportsFile = 3 // a pipe, for reports
	specFile    = 4 // with the specification of the container
)

// A report is a line of JSON to the executor. One of its fields is set.
type report struct {
	Started bool   `json:",omitempty"` // the program runs
	Status  *int32 `json:",omitempty"` // it has ended; as wait(2) gives it
	Alone   bool   `json:",omitempty"` // with Status: no process of the sandbox is left
	Stored  bool   `json:",omitempty"` // the sandbox is stored, and has ended
	Error   string `json:",omitempty"` // it could not be started
	NoFile  bool   `json:",omitempty"` // with Error: there is no such file to execute
}

// cell is the command that runs one program in a new sandbox, as pid 1 of a namespace whose end is
// that of the sandbox, and in a mount namespace of its own, whose end is that of all it mounts.
type cell struct {
	mounts []string // NUMBER:PATH of mounts to attach in the folder of the sandbox, and PATH:PATH of folders to repeat
	store  string   // the folder to store the sandbox in, at SIGUSR1
	stored string   // the folder of a stored sandbox, to go on with
	passed []string // NUMBER:NUMBER of open files, here and in the program
	memory int      // number of the pipe with a stored live session, to go on with; 0: none
	pipe   *os.File // the same, while it is read
	layers []string // FOLDER:PATH of what is written to the layers of a live session, and where they are mounted
	proxy  string   // PORT:PATH of the program's proxy, and of the socket for its connections; empty: there is none
	asked  int      // number of the socket with the executor's requests; 0: there is none
	file   *os.File // with the specification
	spec   *specs.Spec
}

// id is the name of every sandbox: each is alone in its folder.
const id = "cell"

// folder is where a sandbox keeps its state and finds its mounts.
const folder = "/gvisor"

// Name implements util.SubCommand.
func (*cell) Name() string { return "cell" }

// Synopsis implements util.SubCommand.
func (*cell) Synopsis() string { return "run a program for Airlock's executor" }

// Usage implements util.SubCommand.
func (*cell) Usage() string {
	return "cell [--mount=N:PATH]... [--mount=PATH:PATH]... [--pass=N:N]... [--requests=N] [--store=DIR | --stored=DIR]\n"
}

// SetFlags implements util.SubCommand.
func (c *cell) SetFlags(f *flag.FlagSet) {
	f.Var((*list)(&c.mounts), "mount", "attach this open mount, or folder, at a path in "+folder+"; may be repeated")
	f.StringVar(&c.store, "store", "", "store the sandbox in this folder at SIGUSR1")
	f.StringVar(&c.stored, "stored", "", "go on with the sandbox that is stored in this folder")
	f.IntVar(&c.memory, "memory", 0, "go on with the live session that is read from this pipe")
	f.Var((*list)(&c.layers), "layer", "store what is in this folder, of a layer at a path in "+folder+"; may be repeated")
	f.StringVar(&c.proxy, "proxy", "", "listen at a port, and pass connections on to a socket: PORT:PATH")
	f.IntVar(&c.asked, "requests", 0, "answer the requests of this socket")
	f.Var((*list)(&c.passed), "pass", "give the program this open file under another number; may be repeated")
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }
func (l *list) Get() any           { return []string(*l) }

// FetchSpec implements util.SubCommand. It is called first.
func (c *cell) FetchSpec(conf *config.Config, _ *flag.FlagSet) (string, *specs.Spec, error) {
	err := c.prepare()
	if err == nil {
		c.file = os.NewFile(specFile, "config.json")
		c.spec, err = c.readSpec(conf)
	}
	if err != nil {
		tell(report{Error: err.Error()})
		os.Exit(1) // the caller would write the error to the program's stderr
	}
	return id, c.spec, nil
}

// readSpec copies the specification to where gVisor reads it again.
func (c *cell) readSpec(conf *config.Config) (*specs.Spec, error) {
	text, err := io.ReadAll(io.NewSectionReader(c.file, 0, maxSpec))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(folder+"/config.json", text, 0o600); err != nil {
		return nil, err
	}
	return specutils.ReadSpec(folder, conf)
}

// maxSpec bounds the specification: arguments and environment are most of it.
const maxSpec = 4 << 20

// Execute implements util.SubCommand.
func (c *cell) Execute(_ context.Context, _ *flag.FlagSet, args ...any) subcommands.ExitStatus {
	conf := args[0].(*config.Config)
	err := c.run(conf)
	if err != nil {
		text := err.Error() // gVisor has no other form of this error
		tell(report{Error: text, NoFile: strings.Contains(text, "failed to load "+c.spec.Process.Args[0]+":")})
		return subcommands.ExitFailure
	}
	if c.store != "" {
		tell(report{Stored: true})
		return subcommands.ExitSuccess
	}
	return subcommands.ExitSuccess
}

func (c *cell) run(conf *config.Config) error {
	files := map[int]*os.File{}
	for _, text := range c.passed {
		here, there, err := cut(text)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(there)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		files[number] = os.NewFile(uintptr(here), text)
	}
	made, err := container.New(conf, container.Args{ID: id, Spec: c.spec, BundleDir: folder, Attached: true,
		PassFiles: files})
	if err != nil {
		return fmt.Errorf("make the sandbox: %w", err)
	}
	a := &answerer{made: made, conf: conf, socket: c.asked}
	if c.proxy != "" && c.memory == 0 {
		if err := a.listen(c.proxy); err != nil {
			return err
		}
	}
	switch {
	case c.stored != "":
		err = made.Restore(conf, c.stored, false, false, nil)
	case c.memory != 0:
		err = made.Restore(conf, memoryFolder, false, false, nil)
	default:
		err = made.Start(conf)
	}
	if err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	if c.proxy != "" && c.memory != 0 { // its network is that which was stored
		if err := a.listen(c.proxy); err != nil {
			return err
		}
	}
	if c.store != "" {
		return c.storeAt(made, conf)
	}
	for _, f := range files {
		f.Close()
	}
	if c.asked != 0 {
		for _, text := range c.layers {
			upper, at, _ := strings.Cut(text, ":")
			a.layers = append(a.layers, layer{upper, at})
		}
		go a.answerAll()
	}
	tell(report{Started: true})
	for number := range 3 { // readers of the program's output wait for its end, not for that of this process
		_ = unix.Dup3(int(c.file.Fd()), number, unix.O_CLOEXEC)
	}
	return await(made)
}

// await tells how the program has ended, when no process of the sandbox is left, and waits for the end of the
// kernel. If that had gone before it could be asked, its own exit code tells, as a shell's does: 128 and the number
// of a signal.
func await(made *container.Container) error {
	status, unknown := made.WaitRootPID(1)
	if unknown == nil {
		tell(report{Status: new(int32(status)), Alone: true}) // see gvisor.patch
	}
	last, err := made.Wait()
	if unknown == nil {
		return nil
	}
	if err == nil && last.Exited() && last.ExitStatus() > 128 {
		last = unix.WaitStatus(last.ExitStatus() - 128)
	}
	if err == nil {
		tell(report{Status: new(int32(last))})
	}
	return err
}

// storeAt stores the sandbox when it is told to.
func (c *cell) storeAt(made *container.Container, conf *config.Config) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGUSR1)
	tell(report{Started: true})
	<-told
	if err := os.MkdirAll(c.store, 0o700); err != nil {
		return err
	}
	return made.Checkpoint(conf, c.store, sandbox.CheckpointOpts{Compression: statefile.CompressionLevelNone})
}

// cut splits NUMBER:REST.
func cut(text string) (number int, rest string, err error) {
	before, rest, _ := strings.Cut(text, ":")
	if number, err = strconv.Atoi(before); err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return number, rest, err
}

// tell sends a report. Without the executor there is no one to tell, and this process ends with it.
func tell(r report) {
	r.Error = r.Error[:min(len(r.Error), maxError)]
	line, err := json.Marshal(r)
	if err == nil {
		_, _ = unix.Write(reportsFile, append(line, '\n'))
	}
}

// maxError bounds the text of an error: a report is written, and read, at once.
const maxError = 600

// prepare makes the file systems that gVisor needs.
func (c *cell) prepare() error {
	unix.CloseOnExec(reportsFile)
	unix.CloseOnExec(specFile)
	if c.asked != 0 {
		unix.CloseOnExec(c.asked)
	}
	if c.memory != 0 {
		unix.CloseOnExec(c.memory)
	}
	// When the machine's memory ends, the kernel ends sandboxes before the service.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil {
		return err
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", quiet|unix.MS_NOEXEC, ""),
		unix.Mount("airlock", folder, "tmpfs", quiet, "mode=711,size=8m"),
	)
	if err != nil {
		return fmt.Errorf("mount what gVisor needs: %w", err)
	}
	for _, text := range c.mounts {
		if err := attach(text); err != nil {
			return err
		}
	}
	if c.memory != 0 {
		return c.unpack()
	}
	return nil
}

// memoryFolder has the state of a stored live session, as gVisor looks for it.
const memoryFolder = folder + "/memory"

// unpack makes the files of a stored live session, behind which the pipe has its state.
func (c *cell) unpack() error {
	var st unix.Stat_t
	if err := unix.Stat(folder+"/"+tmpFolder, &st); err != nil {
		return err
	}
	c.pipe = os.NewFile(uintptr(c.memory), "memory")
	if err := unpack(c.pipe, int(st.Uid)); err != nil {
		return fmt.Errorf("make the files of a stored session: %w", err)
	}
	if err := os.Mkdir(memoryFolder, 0o700); err != nil {
		return err
	}
	return os.Symlink(fmt.Sprintf("/proc/self/fd/%d", c.memory), memoryFolder+"/"+checkpointfiles.StateFileName)
}

// attach attaches a mount in the folder of the sandbox.
func attach(text string) error {
	from, path, _ := strings.Cut(text, ":")
	at := folder + "/" + path
	number, err := strconv.Atoi(from)
	if err != nil {
		if unix.Access(at, unix.F_OK) != nil {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
		return nil
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(number, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return unix.Close(number)
}
