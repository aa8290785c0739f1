package linux

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// Landlock is the second barrier around files: even a mount left in the sandbox by
// mistake would be unusable. The rules name the contents of the sandbox's own root.

// landlockABI returns the version that this kernel supports, 0 for none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// landlockWrite has all rights except creating device nodes.
	landlockWrite = landlockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockAll = landlockWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	landlockRefer    = unix.LANDLOCK_ACCESS_FS_REFER     // version 2
	landlockTruncate = unix.LANDLOCK_ACCESS_FS_TRUNCATE  // version 3
	landlockIoctl    = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV // version 5
)

// landlockRights returns the rights that a version handles, and those of a writable
// folder.
func landlockRights(abi int) (handled, write uint64) {
	handled, write = landlockAll, landlockWrite
	if abi >= 2 {
		handled, write = handled|landlockRefer, write|landlockRefer
	}
	if abi >= 3 {
		handled, write = handled|landlockTruncate, write|landlockTruncate
	}
	if abi >= 5 {
		handled |= landlockIoctl
	}
	return handled, write
}

// landlockRules creates a ruleset. Scopes for signals and abstract sockets need version
// 6; shared leaves them out.
func landlockRules(abi int, shared bool) (*os.File, error) {
	handled, _ := landlockRights(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	if abi >= 6 && !shared {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if abi < 4 {
		size = unsafe.Sizeof(attr.Handled_access_fs)
	} else if abi < 6 {
		size = unsafe.Offsetof(attr.Scoped)
	}
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock ruleset: %w", errno)
	}
	return os.NewFile(n, "landlock"), nil
}

// placeRights are the rights in the places of a root.
var placeRights = map[image.Right]uint64{image.List: unix.LANDLOCK_ACCESS_FS_READ_DIR, image.Read: landlockRead,
	image.Devices: landlockDevice}

// landlockAllow grants rights beneath an open folder or file.
func landlockAllow(ruleset *os.File, fd int, access uint64) error {
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock rule: %w", errno)
	}
	return nil
}

// landlockSteps do the same in a child, for a folder that exists only there.
func landlockSteps(ruleset *os.File, path string, access uint64) []spawn.Step {
	attr := make([]byte, 12) // struct landlock_path_beneath_attr: the rights, and the open folder
	binary.NativeEndian.PutUint64(attr, access)
	open := spawn.Call("open "+path, unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	open.Result = (*int32)(unsafe.Pointer(&attr[8]))
	add := spawn.Call("landlock rule for "+path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		attr, 0)
	add.Filled = spawn.Filled{Argument: 2, Offset: 8, With: open.Result}
	return []spawn.Step{open, add}
}
