package linux

import "golang.org/x/sys/unix"

const hostArch = unix.AUDIT_ARCH_AARCH64

func hostAllowed() []uint32 { return append([]uint32(nil), allowed...) }

func hostRules() []argumentRule { return append([]argumentRule(nil), argumentRules...) }

// hostModeRules are those of mountRules for calls that newer architectures dropped.
func hostModeRules() []argumentRule { return nil }
