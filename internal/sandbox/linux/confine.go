package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// shmSize is the size of /dev/shm.
const shmSize = 64 << 20

// sandbox is a sandbox about to be created. script turns it into a script.
type sandbox struct {
	*executor.Box
	wall *wall

	ruleset *os.File    // landlock; nil without
	network *os.File    // a network namespace created for it; nil: the sandbox is born in one
	kept    *namespaces // nil: new ones, which are not reused
	inImage bool        // it has the user namespace of an image's zygote
	forked  bool        // from a zygote, and it has its root
	own     *int32      // open folder of the executor's or the zygote's /proc, for steps that write there late

	// files become the program's files 0, 1, 2 and, if it calls out, those from
	// guest.AnswersFD on.
	files  []*os.File
	report *os.File
}

// firstFree is the lowest descriptor for files handed to a child. The child moves its
// files to 0 to 3, and must not overwrite a file that is still to be moved.
const firstFree = 10

// makeRules creates the landlock rules that are known before the sandbox exists.
func (s *sandbox) makeRules() (err error) {
	abi := s.wall.landlock
	if abi == 0 {
		return nil
	}
	if s.ruleset, err = landlockRules(abi, s.Request.Live); err != nil {
		return err
	}
	_, write := landlockRights(abi)
	for _, place := range slices.Concat(s.Environment.Root.Places, s.wall.shared) {
		if err := landlockAllow(s.ruleset, int(place.Folder.Fd()), placeRights[place.Right]); err != nil {
			return err
		}
	}
	for _, layer := range s.Layers {
		if err := landlockAllow(s.ruleset, int(layer.Fd()), write); err != nil {
			return err
		}
	}
	if err := s.allowMounts(write); err != nil {
		return err
	}
	for i, v := range s.Request.Volumes {
		rights := write
		if v.ReadOnly {
			rights = landlockRead
		}
		if err := landlockAllow(s.ruleset, int(s.Volumes[i].Fd()), rights); err != nil {
			return err
		}
	}
	return errors.Join(
		landlockAllow(s.ruleset, int(s.Workspace.Root.Fd()), write),
		landlockAllow(s.ruleset, int(s.Tmp.Fd()), write),
		s.allowTerminals(),
	)
}

// allowTerminals lets processes control terminals that they open by their names.
func (s *sandbox) allowTerminals() error {
	if s.Terminals == nil {
		return nil
	}
	const file = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	handled, _ := landlockRights(s.wall.landlock)
	if err := landlockAllow(s.ruleset, int(s.Terminals.Fd()), landlockDevice|handled&landlockIoctl); err != nil {
		return err
	}
	own, err := os.OpenFile(s.Environment.Root.Path+"/dev/tty", unix.O_PATH, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer own.Close()
	return landlockAllow(s.ruleset, int(own.Fd()), file|handled&landlockIoctl)
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
	executor.CloseAll(s.files...)
	executor.CloseAll(s.report)
}

// script lists the steps of the sandbox's first two processes. The order matters:
// privileged steps come first, then the privilege is dropped, then the program starts.
// No byte of the program is read before that.
func (s *sandbox) script() *spawn.Script {
	root, layers := s.layers(s.Environment.Root.At(s.Request.Live))
	return &spawn.Script{
		Group: s.Group.Folder(),
		Flags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | s.networkFlag(),
		Setup: join(s.joinGroup(), sliceOfInit(), s.networkSteps(), s.beforeProc(), layers, s.mounts(root),
			enter(root), s.users(), s.limits(), s.dropBounding(), s.dropPrivilege(), s.landlock(),
			s.limitFiles()),
		Init:   s.becomeInit(int(s.report.Fd())),
		Main:   s.becomeProgram(),
		Report: int(s.report.Fd()),
	}
}

// forkedScript returns the script of a sandbox that is forked from a zygote. The zygote
// is already in the image, has created the new pid namespace, and does not execute
// another program. Only a live session moves on, into the layers over that root.
func (s *sandbox) forkedScript(socket, ofInit *os.File) *spawn.Script {
	var bounding []spawn.Step
	if !s.wall.Root {
		bounding = s.dropBounding()
	}
	filter := spawn.Call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		s.wall.filter)
	filter.Result = new(int32)
	keep := spawn.Call(filterStep, unix.SYS_DUP3, 0, spawn.ListenerFile, unix.O_CLOEXEC)
	keep.From, keep.Result = filter.Result, new(int32)
	received := new(int32)
	root, layers := s.layers("")
	move := []spawn.Step{leaveTerminal()}
	if root != "" {
		move = enter(root)
	}
	init := []spawn.Step{closeFrom(0, spawn.ReportFile-1), closeFrom(spawn.ReportFile+1, spawn.NewcomersFile-1)}
	var place []spawn.Step
	if ofInit != nil {
		place = []spawn.Step{spawn.Call("place the socket of pid 1", unix.SYS_DUP3, ofInit, spawn.NewcomersFile, 0)}
		init = append(init, closeFrom(spawn.NewcomersFile+1, lastFile))
	} else {
		init = append(init, closeFrom(spawn.NewcomersFile, lastFile))
	}
	if len(spawn.InitProgram()) > 0 {
		init = append(init, spawn.Call("execute init", unix.SYS_EXECVE, initPath, spawn.InitArgv, spawn.InitArgv+8))
	}
	return &spawn.Script{
		// Both processes share one filter, so that the kernel compiles it once.
		Setup: join([]spawn.Step{
			spawn.Call("place the pipe for reports", unix.SYS_DUP3, s.report, spawn.ReportFile, 0),
			spawn.Call("place the socket", unix.SYS_DUP3, socket, spawn.ControlFile, unix.O_CLOEXEC),
			spawn.Call("reset SIGCHLD", unix.SYS_RT_SIGACTION, int(unix.SIGCHLD), make([]byte, 32), 0, 8), // a zygote ignores it
		}, place, s.enterGroup(), s.joinGroup(), sliceOfInit(),
			[]spawn.Step{spawn.Call("new namespaces", unix.SYS_UNSHARE, unix.CLONE_NEWNS|unix.CLONE_NEWUTS)},
			s.enterNamespaces(),
			s.beforeProc(), layers, s.mounts(root), move, s.users(), s.limits(), bounding, s.dropPrivilege(), s.landlock(),
			s.limitFiles(),
			[]spawn.Step{filter, keep}),
		Init: init,
		Main: append(s.ownSession(), []spawn.Step{
			// execve would do this: a program may inspect itself. Pid 1 stays protected.
			spawn.Call("allow inspection", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0),
			spawn.Call("set umask", unix.SYS_UMASK, 0o022),
			spawn.Call("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, make([]byte, 8), 0, 8),
			closeFrom(3, spawn.ReportFile), closeFrom(spawn.ListenerFile+1, lastFile),
			reserve(guest.AnswersFD), reserve(guest.CallsFD),
			spawn.Call("go to the workspace", unix.SYS_CHDIR, image.RootWorkspace),
		}...),
		Wait:     awaitProgram(spawn.Ready, received),
		Received: received,
	}
}

// reserve opens a descriptor, so that no file opened before the program arrives takes
// it: packages that plot in advance keep their fonts open.
func reserve(number int) spawn.Step {
	return spawn.Call("reserve the channel for calls", unix.SYS_DUP3, 0, number, unix.O_CLOEXEC)
}

// awaitProgram tells the executor that a forked sandbox waits, and hands over the
// filter's listener if the message has it. Then it receives a program, whose files take
// the lowest descriptors: up to guest.CallsFD all are free.
func awaitProgram(ready spawn.Offset, length *int32) []spawn.Step {
	receive := spawn.Call("receive a program", unix.SYS_RECVMSG, spawn.ControlFile, spawn.Receive, 0)
	receive.Result = length
	return []spawn.Step{
		spawn.Call("say that it waits", unix.SYS_SENDMSG, spawn.ControlFile, ready, 0),
		closeFrom(spawn.ListenerFile, spawn.ListenerFile), closeFrom(0, guest.CallsFD),
		receive,
		closeFrom(spawn.ControlFile, spawn.ControlFile),
	}
}

func leaveTerminal() spawn.Step { return spawn.Call("leave the terminal", unix.SYS_SETSID) }

func join(lists ...[]spawn.Step) []spawn.Step { return slices.Concat(lists...) }

// joinGroup enters the control group before the sandbox uses any resource that the
// group counts. It also hides the executor's own place among the host's groups.
func (s *sandbox) joinGroup() []spawn.Step { return joinTasks(s.Group.Tasks()) }

func joinTasks(files []*os.File) (steps []spawn.Step) {
	for _, tasks := range files {
		steps = append(steps, spawn.Call(joinStep, unix.SYS_WRITE, tasks, "0", 1))
	}
	return append(steps, spawn.Call("new cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP))
}

// enterGroup joins the group of a sandbox that a zygote forked: on version 2 it was
// born in the zygote's group.
func (s *sandbox) enterGroup() []spawn.Step {
	procs := s.Group.Procs()
	if procs == nil {
		return nil
	}
	return []spawn.Step{spawn.Call(joinStep, unix.SYS_WRITE, procs, "0", 1)}
}

// loopback is the network of a sandbox.
func (s *sandbox) loopback() []spawn.Step {
	if s.Group == nil {
		return append(boundConnections(), bringUpLoopback()...)
	}
	return bringUpLoopback()
}

// bringUpLoopback brings up the loopback device of a fresh network namespace, its
// only one, so that a program can reach nothing but itself.
func bringUpLoopback() []spawn.Step {
	socket := new(int32)
	lo := make([]byte, 40) // struct ifreq
	copy(lo, "lo")
	binary.NativeEndian.PutUint16(lo[unix.IFNAMSIZ:], unix.IFF_UP)
	open := spawn.Call("open a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	open.Result = socket
	up := spawn.Call("bring up loopback", unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, lo)
	up.From = socket
	shut := spawn.Call("close the socket", unix.SYS_CLOSE, 0)
	shut.From = socket
	return []spawn.Step{open, up, shut}
}

func moveMount(name string, f *os.File, target string) spawn.Step {
	at := unix.AT_FDCWD
	return spawn.Call(name, unix.SYS_MOVE_MOUNT, f, "", at, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func mount(name, source, target, kind string, flags uintptr, data string) spawn.Step {
	return spawn.Call(name, unix.SYS_MOUNT, source, target, kind, flags, data)
}

func bind(name, source, target string) spawn.Step {
	return mount(name, source, target, "", unix.MS_BIND, "")
}

// mounts mounts the sandbox's own file systems into the image at a path.
func (s *sandbox) mounts(root string) []spawn.Step {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	workspace := moveMount("mount the workspace", s.Workspace.Root, root+image.RootWorkspace)
	if s.HeldAt != "" {
		workspace = bind("mount the held workspace", s.HeldAt, root+image.RootWorkspace)
	}
	steps := append(s.volumeFolders(root),
		spawn.Call("set the host name", unix.SYS_SETHOSTNAME, image.Hostname, len(image.Hostname)),
		workspace,
		bind("mount the workspace again", root+image.RootWorkspace, root+image.RootData),
		moveMount("mount /tmp", s.Tmp, root+"/tmp"),
		mount("mount /dev/shm", "airlock", root+"/dev/shm", "tmpfs", quiet,
			fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", shmSize, executor.TmpInodes)),
		mount("mount /proc", "proc", root+"/proc", "proc", quiet|unix.MS_NOEXEC, s.procOptions()),
	)
	if s.Terminals != nil {
		steps = append(steps, moveMount("mount /dev/pts", s.Terminals, root+"/dev/pts"),
			mount("hide /dev/pts", "airlock", root+"/dev/pts", "tmpfs", quiet|unix.MS_RDONLY, "mode=555,size=4k,nr_inodes=1"))
	}
	for _, f := range s.Mounts {
		steps = append(steps, moveMount("mount the host's "+f.Name(), f, root+image.SharedIn(f.Name())))
	}
	steps = append(steps, s.volumeMounts(root)...)
	if s.Request.Live {
		steps = append(steps, bind("hide pid 1", root+image.EmptyPath, root+"/proc/1"))
		steps = append(steps, bind("mount the workspace a third time", root+image.RootWorkspace, root+image.RootHome))
	}
	if !s.forked { // a zygote has its set already
		steps = append(steps, s.wall.bindPackages(s.Environment.Set, root)...)
	}
	return append(steps, hiding(root, s.wall.masks)...)
}

// procOptions returns the options of /proc. Where pid 1 does not start them, the processes
// of a live session have several landlock domains, and with hidepid the kernel would hide
// them from one another. So in sessions a folder covers pid 1 instead.
func (s *sandbox) procOptions() string {
	if s.Request.Live {
		return ""
	}
	return "hidepid=2"
}

// bindPackages mounts a set over the default one in the image at a path, and the set's
// interpreter over the usual one. It does nothing if name is empty.
func (l *wall) bindPackages(name, root string) []spawn.Step {
	if name == "" {
		return nil
	}
	steps := []spawn.Step{bind("mount the package set "+name, root+image.SetsPath+"/"+name, root+image.PackagesPath)}
	if python := l.Sets.All[name].Python; python != "" {
		steps = append(steps, bind("mount "+python, root+python, root+image.UsualPython()))
	}
	return steps
}

// hiding covers each of masks, which are names of /proc, in the image at a path, and
// makes all of /proc read-only. For root inside a container /proc/sys could be
// writable. A program could also use the files of its processes to change how soon pid
// 1 gets a processor, or which process the kernel kills when memory is short.
func hiding(root string, masks []hiddenPlace) (steps []spawn.Step) {
	for _, m := range masks {
		by := image.NothingPath
		if m.folder {
			by = image.EmptyPath
		}
		steps = append(steps, bind("hide "+m.path, root+by, root+m.path))
	}
	const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return append(steps, mount("make /proc read-only", "", root+"/proc", "", flags, ""))
}

// beforeProc returns the steps that write to /proc or open it, before the sandbox has
// its own /proc.
func (s *sandbox) beforeProc() []spawn.Step {
	steps := raiseOOMScore()
	if !s.wall.Root {
		open := spawn.Call("open its folder of /proc", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc/self",
			unix.O_PATH|unix.O_CLOEXEC)
		s.own = new(int32)
		open.Result = s.own
		steps = append(steps, open)
	}
	return steps
}

// enter permanently leaves the executor's root for an image.
func enter(root string) []spawn.Step {
	return []spawn.Step{
		spawn.Call("go to the image", unix.SYS_CHDIR, root),
		spawn.Call("pivot_root", unix.SYS_PIVOT_ROOT, ".", "."),
		spawn.Call("detach the old root", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH),
		spawn.Call("go to the new root", unix.SYS_CHDIR, "/"),
		leaveTerminal(),
	}
}

// users gives a sandbox its own user namespace if all sandboxes have one user. There
// the kernel counts processes, signals and locked memory separately, so no sandbox can
// exhaust another's. The limits are set afterwards, so that those of the namespace
// itself are the executor's.
func (s *sandbox) users() []spawn.Step {
	if s.wall.Root {
		return nil
	}
	itself := fmt.Sprintf("%d %d 1", s.UID, s.UID)
	return join(
		[]spawn.Step{
			// The kernel keeps this limit for all processes of the executor's user together: a sandbox
			// cannot start one that would be too many with those of the others.
			limit("processes of all", unix.RLIMIT_NPROC, uint64(max(s.wall.MostTasks(), int64(s.Request.Processes+1)))),
			spawn.Call("new user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		},
		writeTo("no groups", s.own, "setgroups", "deny"),
		writeTo("map the user", s.own, "uid_map", itself),
		writeTo("map the group", s.own, "gid_map", itself),
	)
}

// writeTo writes a file of /proc. If folder is not nil, the path is relative to it.
func writeTo(name string, folder *int32, path, content string) []spawn.Step {
	file := new(int32)
	open := spawn.Call(name, unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_CLOEXEC)
	open.From, open.Result = folder, file
	write := spawn.Call(name, unix.SYS_WRITE, 0, content, len(content))
	write.From = file
	shut := spawn.Call(name, unix.SYS_CLOSE, 0)
	shut.From = file
	return []spawn.Step{open, write, shut}
}

// dropBounding ensures that no program executed later gains a capability. A zygote
// drops them for all its forks. A user namespace starts with all of them again.
func (s *sandbox) dropBounding() (steps []spawn.Step) {
	for c := 0; c <= s.wall.lastCapability; c++ {
		steps = append(steps, spawn.Call("drop from the bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0))
	}
	return steps
}

// dropPrivilege permanently drops every capability, for this process and for all
// programs that it executes, and switches to the sandbox's user.
func (s *sandbox) dropPrivilege() (steps []spawn.Step) {
	steps = append(steps, spawn.Call("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT,
		unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	if s.wall.Root {
		steps = append(steps,
			spawn.Call("drop groups", unix.SYS_SETGROUPS, 0, 0),
			spawn.Call("set group", unix.SYS_SETRESGID, s.UID, s.UID, s.UID),
			spawn.Call("set user", unix.SYS_SETRESUID, s.UID, s.UID, s.UID))
	}
	header := binary.NativeEndian.AppendUint64(nil, unix.LINUX_CAPABILITY_VERSION_3) // and pid 0: this process
	none := make([]byte, 24)
	return append(steps,
		spawn.Call("drop capabilities", unix.SYS_CAPSET, header, none),
		spawn.Call("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		forbidInspection())
}

// forbidInspection makes pid 1 undumpable, so that the program cannot read its memory
// and files.
func forbidInspection() spawn.Step {
	return spawn.Call("forbid inspection", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func (s *sandbox) landlock() []spawn.Step {
	if s.ruleset == nil {
		return nil
	}
	_, write := landlockRights(s.wall.landlock)
	return join(
		landlockSteps(s.ruleset, "/proc", landlockDevice),
		landlockSteps(s.ruleset, "/dev/shm", write),
		[]spawn.Step{spawn.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, s.ruleset, 0)},
	)
}

const filterStep = "system-call filter"

func (s *sandbox) seccomp() spawn.Step {
	filter := s.wall.filter
	switch {
	case slices.ContainsFunc(s.Mounts, func(f *os.File) bool { return !s.wall.sealed[f.Name()] }):
		filter = s.wall.mountFilter
	case len(s.Request.Volumes) > 0:
		filter = s.wall.volumeFilter
	}
	return spawn.Call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, filter)
}

// closeFrom closes the files numbered first to last.
func closeFrom(first, last int) spawn.Step {
	return spawn.Call("close files", unix.SYS_CLOSE_RANGE, first, last, 0)
}

const lastFile = 1<<32 - 1

// becomeInit leaves pid 1 with one open file, the report, and the filter.
func (s *sandbox) becomeInit(report int) []spawn.Step {
	return []spawn.Step{closeFrom(0, report-1), closeFrom(report+1, lastFile), s.seccomp()}
}

// becomeProgram puts the files in place, resets the signals that the executor's runtime
// changed, and executes the program.
func (s *sandbox) becomeProgram() []spawn.Step {
	steps := s.ownSession()
	for number, f := range s.files {
		steps = append(steps, spawn.Call("place the program's files", unix.SYS_DUP3, f, number, 0))
	}
	report := int(s.report.Fd())
	steps = append(steps, closeFrom(len(s.files), report-1), closeFrom(report+1, lastFile))
	return append(append(steps, resetInherited()...),
		spawn.Call("set umask", unix.SYS_UMASK, 0o022),
		spawn.Call("go to the workspace", unix.SYS_CHDIR, s.Request.Root),
		s.seccomp(),
		spawn.Call("execute "+s.Request.Argv[0], unix.SYS_EXECVE, s.Request.Argv[0], spawn.Strings(s.Request.Argv),
			spawn.Strings(s.Request.Env)),
	)
}

// usualSlack is the kernel's default timer slack.
const usualSlack = 50 * time.Microsecond

func usualTimerSlack() spawn.Step {
	return spawn.Call("set timer slack", unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, int(usualSlack), 0, 0, 0)
}

// resetInherited resets the signals that the executor's runtime changed, and the timer
// slack.
func resetInherited() (steps []spawn.Step) {
	const signals, maskSize = 64, 8
	steps = append(steps, usualTimerSlack())
	byDefault := make([]byte, 64) // struct sigaction, all zero
	for signal := 1; signal <= signals; signal++ {
		if signal == int(unix.SIGKILL) || signal == int(unix.SIGSTOP) {
			continue
		}
		steps = append(steps, spawn.Call("reset a signal", unix.SYS_RT_SIGACTION, signal, byDefault, 0, maskSize))
	}
	return append(steps, spawn.Call("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, byDefault, 0, maskSize))
}

// hiddenPlace is a file or a folder that no program sees.
type hiddenPlace struct {
	path   string
	folder bool
}

// hidden are files and folders of /proc that reveal facts about the host, or have
// revealed facts about the kernel.
var hidden = []string{
	"/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/fs", "/proc/interrupts", "/proc/iomem",
	"/proc/ioports",
	"/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags",
	"/proc/locks",
	"/proc/modules", "/proc/partitions", "/proc/pressure", "/proc/sched_debug", "/proc/schedstat", "/proc/slabinfo",
	"/proc/softirqs",
	"/proc/sys/fs", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/vmallocinfo",
}

// present returns those of paths that this kernel has.
func present(paths []string) (there []hiddenPlace) {
	for _, p := range paths {
		if info, err := os.Lstat(image.ProcPath + strings.TrimPrefix(p, "/proc")); err == nil {
			there = append(there, hiddenPlace{p, info.IsDir()})
		}
	}
	return there
}
