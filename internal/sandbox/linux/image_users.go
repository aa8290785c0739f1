package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// The interpreter of an image is not the machine's own, and need not be trusted. So the zygote
// of an image does not have the executor's rights, although it makes sandboxes. It has a user
// namespace of its own, with the executor's sandbox users and no others, and there three
// capabilities: it can mount, enter the namespaces that it is given and take another of these
// users. It has its own pid namespace, and a filter of system calls that its sandboxes inherit.
// What a hostile interpreter does there, instead of what it is told to, concerns only the
// programs in that image.
//
// The sandboxes die with their zygote, which is pid 2 of their namespace's parent. So it stays
// until the last one has ended.

// imageUsers is the user namespace of an image's zygote.
type imageUsers struct {
	file       *os.File
	namespaces namespacePool // that belong to it
}

// weakImage lets the zygotes of images have the executor's rights, in tests.
const weakImage = "image users"

func (u *imageUsers) close() {
	u.namespaces.close()
	u.file.Close()
}

// newImageUsers makes a user namespace with the executor's sandbox users, under the same numbers.
func newImageUsers(users image.Users) (*imageUsers, error) {
	file, err := newUsers(users.First, users.First, users)
	if err != nil {
		return nil, fmt.Errorf("make the user namespace of an image: %w", err)
	}
	return &imageUsers{file: file}, nil
}

// Owner implements Wall.
func (l *wall) Owner(uid int) (*os.File, error) {
	return newUsers(0, 0, image.Users{First: uid, Count: 1})
}

// newUsers makes a user namespace with some users, numbered from uid on, and their groups, from gid on.
func newUsers(uid, gid int, users image.Users) (file *os.File, err error) {
	err = besides(&spawn.Script{Flags: unix.CLONE_NEWUSER}, func(folder string) (err error) {
		for name, first := range map[string]int{"uid_map": uid, "gid_map": gid} {
			mapping := fmt.Appendf(nil, "%d %d %d", first, users.First, users.Count)
			if err := os.WriteFile(folder+"/"+name, mapping, 0); err != nil {
				return err
			}
		}
		file, err = os.Open(folder + "/ns/user")
		return err
	})
	return file, err
}

// newNamespaces makes a pair of namespaces that belongs to the user namespace. Its owner cannot
// bring up a device, and so cannot reach the kernel's code for them.
func (u *imageUsers) newNamespaces(loopback []spawn.Step) (*namespaces, error) {
	n := &namespaces{}
	err := besides(&spawn.Script{Setup: join([]spawn.Step{
		spawn.Call("enter the user namespace", unix.SYS_SETNS, u.file, unix.CLONE_NEWUSER),
		spawn.Call("new network and IPC namespaces", unix.SYS_UNSHARE, unix.CLONE_NEWNET|unix.CLONE_NEWIPC),
	}, loopback)}, func(folder string) (err error) {
		if n.network, err = os.Open(folder + "/ns/net"); err != nil {
			return err
		}
		n.ipc, err = os.Open(folder + "/ns/ipc")
		return err
	})
	if err != nil {
		n.close()
		return nil, fmt.Errorf("make the namespaces of a sandbox: %w", err)
	}
	return n, nil
}

// besides calls a function while a copy of this process exists that has made the script's first
// steps, with its folder of /proc.
func besides(script *spawn.Script, do func(folder string) error) error {
	reports, report, err := reportPipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	defer report.Close()
	ready, err := binary.Append(nil, binary.NativeEndian, spawn.Report{Kind: spawn.Started})
	if err != nil {
		return err
	}
	script.Group, script.Alone, script.Report = -1, true, int(report.Fd())
	script.Main = []spawn.Step{
		spawn.Call("say that it is ready", unix.SYS_WRITE, report, ready, len(ready)),
		spawn.Call("wait", unix.SYS_PPOLL, 0, 0, 0, 0, 0), // until it is killed
	}
	pid, pidfd, err := script.Start()
	if err != nil {
		return err
	}
	defer func() {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		unix.Close(pidfd)
	}()
	report.Close()
	r, ok := spawn.ReadReport(reports)
	switch {
	case !ok:
		return errors.New("a process ended too early")
	case r.Kind != spawn.Started:
		return stepError(script, r)
	}
	return do(fmt.Sprintf("%s/%d", image.ProcPath, pid))
}

// imageRights are the capabilities of an image's zygote.
var imageRights = []int{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID}

// confine gives up the executor's rights, after the steps that need them.
func (u *imageUsers) confine(w *wall) (steps []spawn.Step) {
	if w.Root {
		steps = append(steps, spawn.Call("drop groups", unix.SYS_SETGROUPS, 0, 0))
	}
	first := w.Users.First
	steps = append(steps,
		spawn.Call("enter the user namespace", unix.SYS_SETNS, u.file, unix.CLONE_NEWUSER),
		spawn.Call("new mount namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		spawn.Call("set group", unix.SYS_SETRESGID, first, first, first),
		spawn.Call("set user", unix.SYS_SETRESUID, first, first, first))
	// A capability that is to be inherited must be in the bounding set, and one is needed to empty that.
	steps = append(steps, setCapabilities(append([]int{unix.CAP_SETPCAP}, imageRights...), imageRights))
	steps = append(steps, (&sandbox{wall: w}).dropBounding()...)
	steps = append(steps, setCapabilities(imageRights, imageRights))
	for _, c := range imageRights {
		steps = append(steps, spawn.Call("keep a capability", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT,
			unix.PR_CAP_AMBIENT_RAISE, c, 0, 0))
	}
	return append(steps,
		spawn.Call("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		spawn.Call(filterStep, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, w.imageFilter))
}

// ownProc lets a new sandbox write to its files of /proc. It has the memory of its zygote until it
// executes init, and the one before it has made that undumpable: its files are root's.
func ownProc() []spawn.Step {
	return []spawn.Step{spawn.Call("allow inspection", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)}
}

// setCapabilities sets the effective and permitted, and the inheritable capabilities.
func setCapabilities(permitted, inheritable []int) spawn.Step {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range permitted {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	for _, c := range inheritable {
		data[c/32].Inheritable |= 1 << (c % 32)
	}
	return spawn.Call("drop capabilities", unix.SYS_CAPSET, &header, &data)
}

// imageCalls are the calls that make a sandbox, beside those that its program may make.
var imageCalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_MOVE_MOUNT, unix.SYS_PIVOT_ROOT, unix.SYS_UMOUNT2,
	unix.SYS_SETNS, unix.SYS_SETHOSTNAME, unix.SYS_CAPSET, unix.SYS_SECCOMP,
	unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_SCHED_SETATTR,
	unix.SYS_FTRUNCATE, unix.SYS_PRLIMIT64, unix.SYS_SETRLIMIT, finishCall, // their rules are for programs
}

// imageRules are the rules of an image's zygote: no process makes another user namespace, in
// which it would have all capabilities, unless each sandbox has one. It may make huge pages of its
// own memory, as every zygote.
func imageRules(root bool) []argumentRule {
	users := uint32(unix.CLONE_NEWUSER)
	if !root {
		users = 0
	}
	return []argumentRule{{unix.SYS_UNSHARE, noBits(0, users)}, {unix.SYS_CLONE, noBits(0, unix.CLONE_NEWUSER)},
		{unix.SYS_MADVISE, noneOf(2, unix.EINVAL, unix.MADV_MERGEABLE, unix.MADV_PAGEOUT)}}
}

// makeImageFilter makes the filter of an image's zygote and all of its sandboxes, which have
// the filter of programs too.
func (l *wall) makeImageFilter() (err error) {
	others := imageRules(l.Root)
	for _, nr := range imageCalls {
		others = append(others, argumentRule{nr, []bpf.Instruction{allow}})
	}
	l.imageFilter, err = hostFilter(true, others...) // what only groups can limit is a program's matter
	return err
}

// pidOf returns the number, in the executor's pid namespace, of the process that a pidfd refers to.
func pidOf(pidfd *os.File) (int, error) {
	info := kernelfile.Read(image.ProcPath+"/self/fdinfo", fmt.Sprint(pidfd.Fd()))
	pid := kernelfile.Value(info, "Pid:")
	if pid <= 0 {
		return 0, errors.New("its first process has ended")
	}
	return int(pid), nil
}

// isListener reports whether a file reports the calls that a filter hands over. The zygote of
// an image could send another one.
func isListener(f *os.File) bool {
	name, err := os.Readlink(fmt.Sprintf("%s/self/fd/%d", image.ProcPath, f.Fd()))
	return err == nil && name == "anon_inode:seccomp notify"
}
