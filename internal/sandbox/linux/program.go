package linux

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// run handles a run on the executor's side, from the request to the answer.
func (e *executor) run(l *link, r *runRequest, files []*os.File) error {
	if err := r.check(); err != nil {
		return newFailure(engine.ErrInvalid, err.Error())
	}
	if err := e.choosePackages(r); err != nil {
		return newFailure(engine.ErrInvalid, err.Error(),
			"install it with `airlock setup --packages`, then restart the service")
	}
	if err := e.checkLive(r); err != nil {
		return err
	}
	if r.Env == nil {
		r.Env = e.usual
	}
	var err error
	if r.tasks, err = e.host.shares.tasks.take(r.Owner, r.tasksFor()); err != nil {
		return err
	}
	defer r.tasks.release()
	ends, err := programFiles(r, files)
	if err != nil {
		return err
	}
	var w *waiting
	if r.Make {
		if w, err = e.house(l, r); err != nil {
			return err
		}
	}
	var lent *workspace
	if r.Lends > 0 && r.Held == "" && e.lender != nil {
		if w = e.borrowWaiting(r); w == nil {
			lent, err = e.borrow(l, r)
		}
		if err != nil {
			return err
		}
	}
	e.running.Add(1)
	if w == nil {
		w, err = e.warm(r, lent)
	}
	switch {
	case err != nil:
		e.running.Add(-1)
		return err
	case w != nil:
		return w.run(l, r, files, ends)
	}
	return e.runOther(l, r, lent, files, ends)
}

// runOther runs a program for which no zygote's sandbox waits: in a waiting process, or
// cold, in the workspace created for it if there is one.
func (e *executor) runOther(l *link, r *runRequest, made *workspace, files, ends []*os.File) (err error) {
	if !r.Stdin {
		if ends[0], err = openNull(); err != nil {
			e.running.Add(-1)
			return err
		}
		defer ends[0].Close()
	}
	var w *waiting
	if made == nil {
		w = e.takeProcess(r)
	}
	r.drive()
	if w != nil {
		return w.run(l, r, files, ends)
	}
	defer e.running.Add(-1)
	s := &sandbox{host: e.host, request: r}
	defer s.release()
	if r.Held != "" {
		h, err := e.occupy(r.Held, r.Live)
		if err != nil {
			return err
		}
		defer e.leave(h, r.Live)
		s.workspace, s.heldAt, s.uid = h.view(), h.at, h.uid
	} else {
		if made == nil {
			made, err = e.houseWorkspace(func(uid int) (*workspace, error) { return newWorkspace(r.Workspace, r.Inodes, uid) })
			if err != nil {
				return err
			}
		}
		defer e.closeWorkspace(made)
		s.workspace, s.uid = made, made.uid
	}
	if err := s.receiveInputs(l); err != nil {
		return err
	}
	if err := l.send(answer{Accepted: true}); err != nil {
		return err
	}
	if err := s.furnish(e.host); err != nil {
		return err
	}
	proxy, err := s.openNetwork()
	if err != nil {
		return err
	}
	if err := l.sendProxy(proxy); err != nil {
		return err
	}
	if err := s.placeFiles(ends); err != nil {
		return err
	}
	closeAll(files...) // the sandbox has its own copies; the write ends must not stay open here
	done, err := e.supervise(l, s)
	if err != nil {
		return err
	}
	return s.answer(l, done)
}

// programFiles returns the program's stdin, nil if it has none, its stdout and stderr,
// and its channel for calls if it has one, from the files of the request.
func programFiles(r *runRequest, files []*os.File) ([]*os.File, error) {
	want := 2
	if r.Stdin {
		want++
	}
	if r.Calls {
		want += 2
	}
	if len(files) != want {
		return nil, newFailure(engine.ErrInvalid, "wrong number of open files")
	}
	rest := files[2:]
	if r.Stdin {
		return append([]*os.File{rest[0], files[0], files[1]}, rest[1:]...), nil
	}
	return append([]*os.File{nil, files[0], files[1]}, rest...), nil
}

// openNull opens the stdin of a program without input. Each program gets its own open
// file: programs would otherwise share its flags, locks and owner.
func openNull() (*os.File, error) {
	fd, err := unix.Open(imagePath+"/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "null"), nil
}

func (s *sandbox) receiveInputs(l *link) error {
	if s.workspace.isComplete() {
		return nil
	}
	if s.request.alone() && s.workspace.fillBlank(s.request.Entry, s.request.Code) {
		return nil
	}
	if err := s.workspace.dropBlank(); err != nil {
		return err
	}
	err := l.receiveInputs(s.request.Inputs, func(in input, f *os.File) error {
		if s.workspace.take(in, f) {
			return nil
		}
		return s.workspace.put(in.Path, f, in.Size, in.ReadOnly && s.host.root)
	})
	if err == nil && s.request.Code != nil {
		err = s.workspace.putBytes(s.request.Entry, s.request.Code)
	}
	if err == nil {
		err = s.workspace.borrow()
	}
	return err
}

// furnish creates the sandbox's resources beside its workspace.
func (s *sandbox) furnish(h *host) (err error) {
	if s.tmp, err = newTmpfs(tmpSize, tmpInodes, s.uid, "1777"); err != nil {
		return err
	}
	if err := s.linkFontCache(); err != nil {
		return err
	}
	if h.groups != nil {
		// Pid 1 belongs to Airlock, so one process is added for it.
		limits := cgroup.Limits{Memory: s.request.Memory, Processes: s.request.Processes + 1, CPUs: s.request.CPUs}
		if s.group, err = h.groups.Create(engine.NewID().String(), limits); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return s.makeRules()
}

// linkFontCache links the list of fonts created at setup into the folder where
// matplotlib would write its own. Searching the fonts again would cost each program a
// second.
func (s *sandbox) linkFontCache() error {
	if len(s.host.fontLists) == 0 {
		return nil
	}
	fd := int(s.tmp.Fd())
	if err := unix.Mkdirat(fd, "matplotlib", 0o755); err != nil {
		return err
	}
	for _, name := range s.host.fontLists {
		if err := unix.Symlinkat(path.Join(fontsPath, name), fd, "matplotlib/"+name); err != nil {
			return err
		}
	}
	return unix.Fchownat(fd, "matplotlib", s.uid, s.uid, 0)
}

// makeRules creates the landlock rules that are known before the sandbox exists.
func (s *sandbox) makeRules() (err error) {
	abi := s.host.landlock
	if abi == 0 {
		return nil
	}
	if s.ruleset, err = landlockRules(abi); err != nil {
		return err
	}
	_, write := landlockRights(abi)
	for _, place := range s.host.readable {
		if err := landlockAllow(s.ruleset, place.fd, place.access); err != nil {
			return err
		}
	}
	return errors.Join(
		landlockAllow(s.ruleset, int(s.workspace.root.Fd()), write),
		landlockAllow(s.ruleset, int(s.tmp.Fd()), write),
	)
}

// placeFiles duplicates the program's files, to descriptors above those where the child
// will put them.
func (s *sandbox) placeFiles(files []*os.File) error {
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
		if err != nil {
			return err
		}
		s.files = append(s.files, os.NewFile(uintptr(fd), "program"))
	}
	return nil
}

// closeFiles closes those duplicates and the report, once the child has its own.
func (s *sandbox) closeFiles() {
	closeAll(s.files...)
	closeAll(s.report)
}

// release closes the sandbox's files and removes its group. Its processes have exited.
func (s *sandbox) release() {
	s.closeFiles()
	closeAll(s.tmp, s.network, s.ruleset)
	if s.group != nil {
		s.group.Remove()
	}
}

// supervise starts the sandbox and returns when every process of it has exited.
func (e *executor) supervise(l *link, s *sandbox) (*outcome, error) {
	reports, report, err := reportPipe()
	if err != nil {
		return nil, err
	}
	defer reports.Close()
	s.report = report

	s.group.Idle(false) // the group's last program may have ended idle
	script := s.script()
	weaken(script, e.config.Weaken)
	pid, pidfd, err := script.Start()
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	s.closeFiles()
	w := &watch{executor: e, script: script, link: l, pid: pid, pidfd: pidfd, cold: true}
	return w.supervise(s, reports)
}

// reportPipe creates the pipe over which a sandbox's first processes report. The
// descriptor of its write end is above those where a child puts its files.
func reportPipe() (reading, writing *os.File, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	reading = os.NewFile(uintptr(pipe[0]), "reports")
	high, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_DUPFD_CLOEXEC, firstFree)
	unix.Close(pipe[1])
	if err != nil {
		reading.Close()
		return nil, nil, err
	}
	return reading, os.NewFile(uintptr(high), "report"), nil
}

// stepError returns an error for the step of a child that failed. The last step
// executes the program: its failure is not a fault of the sandbox.
func stepError(s *spawn.Script, r spawn.Report) error {
	name, execute := s.Failed(r)
	if execute {
		return newFailure(engine.ErrNoLanguage, fmt.Sprintf("cannot %s on this host: %v", name, syscall.Errno(r.Value)),
			"install it there with `airlock setup`; `airlock doctor` tells what is missing")
	}
	return fmt.Errorf("%s: %w", name, syscall.Errno(r.Value))
}

// weaken removes protections, for tests.
func weaken(s *spawn.Script, names []string) {
	if slices.Contains(names, weakNetwork) {
		s.Flags &^= unix.CLONE_NEWNET
	}
	if slices.Contains(names, joinStep) {
		s.Group = -1 // otherwise the process would be born in the group
	}
	if slices.Contains(names, filterStep) && s.Wait != nil {
		s.Wait = awaitProgram(spawn.ReadyBare, s.Received)
	}
	for _, list := range []*[]spawn.Step{&s.Setup, &s.Init, &s.Main, &s.Beside} {
		*list = slices.DeleteFunc(*list, func(s spawn.Step) bool { return slices.Contains(names, s.Name) })
	}
}

// weakSpawn names the machine code with which a zygote creates sandboxes. Without it
// the zygote does that in Python, as on other processors.
const weakSpawn = "spawn"

// weakZygote has zygotes end before they are ready, in tests.
const weakZygote = "zygote"

// joinStep names the step of entering the control group, which version 2 does not have.
const joinStep = "join control group"

// weakNotices names the notices of events in namespaces, and weakKept the reuse of
// namespaces. Neither is a step.
const (
	weakNotices = "notices"
	weakKept    = "kept namespaces"
)

// weakNetwork names the network namespace, which is no step.
const weakNetwork = "network namespace"

// answer sends the outputs, in packets of bounded size, then the outcome.
func (s *sandbox) answer(l *link, done *outcome) error {
	r := s.request
	if r.Live || s.workspace.untouched() { // the service requests a live interpreter's outputs
		return l.send(answer{Done: done})
	}
	s.workspace.installs = r.Network
	found := s.workspace.collect(r.Entry, collectLimits{r.Count, r.Bytes, r.Total})
	if r.Folders {
		found.markFolders(s.workspace, r.Count)
	}
	defer found.close()
	if err := found.send(l); err != nil {
		return err
	}
	return l.send(answer{Done: done})
}

// send sends the outputs, in packets of bounded size.
func (found *left) send(l *link) error {
	for batch := range batches(found.files, func(f leftFile) string { return f.path }) {
		var a answer
		files := make([]*os.File, len(batch))
		for i, f := range batch {
			a.Outputs = append(a.Outputs, output{f.path, f.size, f.input, f.respelled})
			files[i] = f.file
		}
		if err := l.send(a, files...); err != nil {
			return err
		}
	}
	for batch := range batches(found.deleted, func(path string) string { return path }) {
		if err := l.send(answer{Deleted: batch}); err != nil {
			return err
		}
	}
	for batch := range batches(found.dropped, func(d dropped) string { return d.Path }) {
		if err := l.send(answer{Dropped: batch}); err != nil {
			return err
		}
	}
	return nil
}

// batches splits a list into parts that fit into a packet each, however long their
// names become as JSON.
func batches[T any](list []T, name func(T) string) iter.Seq[[]T] {
	const perByte = 6 // \u0000
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n, size := 0, 0
			for n < len(list) && n < maxFiles {
				size += len(name(list[n]))*perByte + 128
				if n > 0 && size > maxPacket/2 {
					break
				}
				n++
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}
