package linux

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A read-only mount keeps no program from connecting to a socket in it, behind which is a process of the
// host: for that a right to write to the socket's file is enough. Who has a file that belongs to a user
// whom the mount does not map has none. So a mount is sealed where the kernel can: none of its users is
// mapped. Where it cannot, because its file system does not map users or Airlock runs without root,
// programs with the mount have no unix sockets but pairs, and start cold.
//
// So do those with a mount that is made to be written to. What they leave there must not harm who finds it: it
// belongs to the owner of the folder, is a folder or a regular file, and has no set-user-ID bit.

// weakSockets lets programs connect to the sockets in mounts, in tests.
const weakSockets = "sockets in mounts"

// weakModes lets programs set any mode, and weakLinks make any kind of file in mounts, in tests.
const (
	weakModes = "modes in mounts"
	weakLinks = "links in mounts"
)

// nobody is a user, and a group, to whom no file belongs.
const nobody = 1<<32 - 2

// sealMounts seals the mounts of which it is possible.
func (l *wall) sealMounts() {
	l.sealed = map[string]bool{}
	for name, folder := range l.Mounts {
		l.sealed[name] = !folder.Write && (slices.Contains(l.weaken, weakSockets) || l.Root && seal(name) == nil)
	}
}

// seal shows a mount with no user mapped, from now on.
func seal(name string) error {
	f, err := image.OpenShared(name, true)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := mapUsers(f, nobody, nobody, nobody); err != nil {
		return err
	}
	return image.ReplaceShared(f)
}

// mapMounts lets the sandbox's user own what belongs to the owner of a mount that is made to be written to,
// also if it asks for it read-only: it may have written it.
func (s *sandbox) mapMounts() error {
	for _, f := range s.Mounts {
		if !s.wall.Mounts[f.Name()].Write {
			continue
		}
		if s.wall.landlock == 0 {
			return executor.NewFailure(engine.ErrUnavailable, fmt.Sprintf("the mount %q cannot be written to: this "+
				"kernel has no landlock, which keeps programs from leaving links there", f.Name()),
				"whoever runs the service starts a kernel with landlock, or names the folder without :rw")
		}
		if !s.wall.Root {
			continue // it is the service's user
		}
		if err := s.mapVolume(f); err != nil {
			return executor.NewFailure(engine.ErrUnavailable,
				fmt.Sprintf("the mount %q cannot be given to a program: %v", f.Name(), err),
				"its file system, and what is mounted in it, must know idmapped mounts (ext4, xfs, btrfs; not NFS or "+
					"overlayfs), which an Airlock that runs without root does not need")
		}
	}
	return nil
}

// allowMounts adds the landlock rules of mounts that are written to. Those for reading are there.
func (s *sandbox) allowMounts(write uint64) error {
	if !slices.Contains(s.wall.weaken, weakLinks) {
		write &^= unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	}
	for i, f := range s.Mounts {
		if _, readOnly := engine.MountName(s.Request.Mounts[i]); readOnly || !s.wall.Mounts[f.Name()].Write {
			continue
		}
		if err := landlockAllow(s.ruleset, int(f.Fd()), write); err != nil {
			return err
		}
	}
	return nil
}

// mountRules are the rules of programs with mounts that are not sealed.
func mountRules(weaken []string) []argumentRule {
	rules := append(volumeRules(nil), argumentRule{unix.SYS_SOCKET, append([]bpf.Instruction{
		argument(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 1}, refuse(unix.EACCES),
	}, socketRule()...)})
	if slices.Contains(weaken, weakModes) {
		return rules
	}
	return slices.Concat(rules, hostModeRules(), []argumentRule{
		{unix.SYS_FCHMOD, noSetID(1, allow)},
		{unix.SYS_FCHMODAT, noSetID(2, allow)},
		{unix.SYS_FCHMODAT2, noSetID(2, allow)},
		{unix.SYS_MKNODAT, noSetID(2, fileTypes(2)...)},
		{unix.SYS_OPENAT, openRule(2)},
		{unix.SYS_OPENAT2, unconditional(noSyscal)}, // its mode is behind a pointer; all do without it
	})
}

// noSetID refuses a mode with a set-user-ID or set-group-ID bit. To all others then applies.
func noSetID(mode uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{argument(mode), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.S_ISUID | unix.S_ISGID,
		SkipFalse: 1}, refuse(unix.EPERM)}, then...)
}

// openRule refuses such a mode, which is the argument after flags, where a file is made: else there is none.
func openRule(flags uint32) []bpf.Instruction {
	return append([]bpf.Instruction{argument(flags), bpf.JumpIf{Cond: bpf.JumpBitsSet,
		Val: unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY, SkipTrue: 1}, allow}, noSetID(flags+1, allow)...)
}
