package linux

import "golang.org/x/sys/unix"

const hostArch = unix.AUDIT_ARCH_X86_64

// hostAllowed adds the calls that newer architectures dropped. The numbers of
// the x32 table, which have bit 30 set, are not among them and so do not exist.
func hostAllowed() []uint32 {
	return append([]uint32{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_CREAT,
		unix.SYS_DUP2, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_FORK,
		unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT,
		unix.SYS_MKDIR, unix.SYS_OPEN, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK,
		unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SIGNALFD, unix.SYS_STAT, unix.SYS_SYMLINK,
		unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
	}, allowed...)
}

func hostRules() []argumentRule {
	return append([]argumentRule{
		{unix.SYS_MKNOD, fileTypes(1)},
	}, argumentRules...)
}

// hostModeRules are those of mountRules for calls that newer architectures dropped.
func hostModeRules() []argumentRule {
	return []argumentRule{
		{unix.SYS_CHMOD, noSetID(1, allow)},
		{unix.SYS_CREAT, noSetID(1, allow)},
		{unix.SYS_MKNOD, noSetID(1, fileTypes(1)...)},
		{unix.SYS_OPEN, openRule(1)},
	}
}
