package egress

import "golang.org/x/sys/unix"

const hostArch = unix.AUDIT_ARCH_X86_64

// archCalls are those that newer architectures do not have.
var archCalls = []uint32{unix.SYS_ARCH_PRCTL, unix.SYS_EPOLL_WAIT, unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_POLL}
