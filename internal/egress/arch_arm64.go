package egress

import "golang.org/x/sys/unix"

const hostArch = unix.AUDIT_ARCH_AARCH64

var archCalls []uint32
