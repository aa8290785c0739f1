package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// cell implements Cell. Its first process is airlock-gvisor, which is a child of the executor
// and watches the sandbox.
type cell struct {
	*executor.Box
	wall     *wall
	program  *executor.RunRequest // that it starts with; in a copy that of the stored process
	stored   string               // folder of the sandbox of which it is a copy; empty: none
	link     *executor.Link       // to the process of a copy, which waits for its program; else nil
	command  *exec.Cmd            // nil: not started
	pidfd    int
	reports  *os.File
	proxy    string        // path of the socket of its proxy; empty: it has none
	requests *requests     // nil: no other process can enter
	used     time.Duration // once it was reaped
	reaped   bool
}

// Start implements Cell.
func (w *cell) Start(files []*os.File) error {
	if w.link != nil {
		return w.hand(files)
	}
	return w.start(files, "cell")
}

// start starts the command with more arguments.
func (w *cell) start(files []*os.File, more ...string) error {
	spec, err := w.specification()
	if err != nil {
		return err
	}
	defer spec.Close()
	workspace := w.Workspace.Root
	if w.HeldAt != "" {
		if workspace, err = openMount(w.HeldAt); err != nil {
			return err
		}
		defer workspace.Close()
	}
	var report *os.File
	if w.reports, report, err = os.Pipe(); err != nil {
		return err
	}
	defer report.Close()
	c := exec.Command(commandPath, append(settings(), more...)...)
	c.Args[0], c.Env, c.Dir = Command, []string{}, "/"
	c.Stdin, c.Stdout, c.Stderr = files[0], files[1], files[2]
	c.ExtraFiles = []*os.File{report, spec}
	give(c, workspace, "--mount=%d:"+workspaceFolder)
	give(c, w.Tmp, "--mount=%d:"+tmpFolder)
	done, err := w.giveFiles(c, files[3:])
	if err != nil {
		return err
	}
	defer done()
	w.giveLayers(c)
	w.giveShared(c)
	if w.proxy != "" {
		c.Args = append(c.Args, "--proxy="+w.proxyArgument())
	}
	if w.Request.Enterable() {
		var theirs *os.File
		if w.requests, theirs, err = newRequests(); err != nil {
			return err
		}
		defer theirs.Close()
		give(c, theirs, "--requests=%d")
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &w.pidfd,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET}
	if group := w.Group.Folder(); group >= 0 {
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, group
	}
	if err := w.startInGroup(c); err != nil {
		return fmt.Errorf("start %s: %w", Command, err)
	}
	w.command = c
	return nil
}

// give hands over an open file, with an argument that has its number first.
func give(c *exec.Cmd, f *os.File, format string, more ...any) {
	c.Args = append(c.Args, fmt.Sprintf(format, append([]any{3 + len(c.ExtraFiles)}, more...)...))
	c.ExtraFiles = append(c.ExtraFiles, f)
}

// giveFiles hands over the files of the program beside its first three. Of one that goes on as it was stored, the last
// is what was stored. done is called when the command has started.
func (w *cell) giveFiles(c *exec.Cmd, files []*os.File) (done func(), err error) {
	done = func() {}
	if w.program.Resumes {
		null, err := os.OpenFile(image.Path+"/dev/null", os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		done = func() { null.Close() }
		give(c, null, "--pass=%d:%d", nowhere)
		last := len(files) - 1
		give(c, files[last], "--memory=%d")
		files = files[:last]
	}
	for i, f := range files {
		give(c, f, "--pass=%d:%d", guest.AnswersFD+i)
	}
	return done, nil
}

// giveLayers hands over the layers of a live session.
func (w *cell) giveLayers(c *exec.Cmd) {
	for _, m := range w.layerMounts() {
		if m.open == nil {
			c.Args = append(c.Args, "--mount="+m.at)
			continue
		}
		give(c, m.open, "--mount=%d:"+m.at)
		c.Args = append(c.Args, "--layer="+path.Join(path.Dir(m.open.Name()), "upper")+":"+m.at)
	}
}

// nowhere is the number of the file that stands for those of processes that had entered before the sandbox was
// stored; see gvisor.patch.
const nowhere = 5

// startInGroup starts the command in the control group of the sandbox. On version 1 a thread joins
// it, which then ends: its child is born there.
func (w *cell) startInGroup(c *exec.Cmd) error {
	return executor.InThread(func() error {
		for _, tasks := range w.Group.Tasks() {
			if _, err := unix.Write(int(tasks.Fd()), []byte("0")); err != nil {
				return fmt.Errorf("join the control group: %w", err)
			}
		}
		return c.Start()
	})
}

// settings are gVisor's own.
func settings() []string {
	return []string{"--platform=systrap", "--network=none", "--overlay2=none", "--ignore-cgroups",
		"--root=" + folder + "/state", "--restore-spec-validation=warning"} // a copy's user on the host is another one
}

// First implements Cell.
func (w *cell) First() (pid, pidfd int) { return w.command.Process.Pid, w.pidfd }

// Polled implements Cell.
func (w *cell) Polled() (files [executor.PolledKinds]*os.File) {
	files[executor.PolledReports] = w.reports
	return files
}

// report is what airlock-gvisor tells; see there.
type report struct {
	Started bool
	Status  *int32
	Alone   bool
	Stored  bool
	Error   string
	NoFile  bool
}

// Next implements Cell.
func (w *cell) Next(int) executor.Event {
	line, err := readLine(w.reports)
	var r report
	switch {
	case err != nil:
		return executor.Event{Kind: executor.Ended}
	case json.Unmarshal(line, &r) != nil:
		return executor.Event{}
	case r.Started:
		return executor.Event{Kind: executor.Started}
	case r.Stored:
		return executor.Event{Kind: executor.Stored}
	case r.Status != nil:
		return executor.Event{Kind: executor.Exited, Status: w.ended(*r.Status), Alone: r.Alone}
	case r.NoFile:
		return executor.Event{Kind: executor.Failed, Err: &executor.Failure{Kind: engine.ErrNoLanguage, Doctor: true,
			Text: fmt.Sprintf("cannot execute %s in the sandbox: there is no such file", w.Request.Argv[0]),
			Hint: "install it there with `airlock setup`; `airlock doctor` tells what is missing"}}
	}
	if w.program.Resumes {
		return executor.Event{Kind: executor.Failed, Err: &executor.Failure{Kind: engine.ErrConflict, Field: engine.NoMemory,
			Text: "its memory cannot be used here: " + r.Error,
			Hint: "it is of use to the same version of Airlock, on a processor with the same features"}}
	}
	return executor.Event{Kind: executor.Failed, Err: &executor.Failure{Kind: engine.ErrUnavailable, Doctor: true,
		Text: "the program's own kernel (gVisor) did not start: " + r.Error,
		Hint: "try again; `airlock doctor` tries whether this machine can have one"}}
}

// crashed is how a kernel ends that gets no more threads: that of a program in Go.
const crashed = 2 << 8

// ended returns how a program has ended. At the limit of processes its kernel dies, and its status says
// nothing of the program, which is killed with it.
func (w *cell) ended(status int32) int32 {
	if status == crashed && w.Group.Refused() > 0 {
		return int32(unix.SIGKILL)
	}
	return status
}

// maxReport bounds a report, which is written at once.
const maxReport = 4 << 10

// readLine reads no more than a line: the file is polled for the next one.
func readLine(f *os.File) (line []byte, err error) {
	for one := make([]byte, 1); len(line) < maxReport; line = append(line, one[0]) {
		if _, err := f.Read(one); err != nil || one[0] == '\n' {
			return line, err
		}
	}
	return line, errors.New("a line is too long")
}

// Finish implements Cell. The program does not say that it has finished.
func (w *cell) Finish() bool { return false }

// Reap implements Cell.
func (w *cell) Reap() time.Duration {
	if w.command == nil || w.reaped {
		return w.used
	}
	_ = w.command.Wait()
	w.reaped, w.used = true, w.command.ProcessState.UserTime()+w.command.ProcessState.SystemTime()
	return w.used
}

// Mount implements Cell.
func (w *cell) Mount() error { return refused("mounts") }

// Close implements Cell.
func (w *cell) Close() {
	if w.command != nil {
		if !w.reaped {
			_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0)
			w.Reap()
		}
		unix.Close(w.pidfd)
	}
	if w.link != nil {
		w.link.Close()
	}
	if w.requests != nil {
		w.requests.close()
	}
	if w.proxy != "" {
		_ = os.Remove(w.proxy)
	}
	executor.CloseAll(w.reports)
}
