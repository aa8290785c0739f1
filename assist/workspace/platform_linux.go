package workspace

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAttributes copies the owner and the extended attributes of old to out, as far as the
// process may. An ordinary user cannot change an owner; the file then belongs to the
// process's user.
func copyAttributes(out, old *os.File, n node) error {
	if n.uid != os.Geteuid() || n.gid != os.Getegid() {
		err := out.Chown(n.uid, n.gid)
		if errors.Is(err, unix.EPERM) && n.gid != os.Getegid() {
			err = out.Chown(-1, n.gid)
		}
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		// Changing the owner clears set-user-id bits, which a Fact does not have.
		if err := out.Chmod(n.fact.Mode); err != nil {
			return err
		}
	}
	names := make([]byte, 4096)
	size, err := unix.Flistxattr(int(old.Fd()), names)
	if err != nil || size == 0 {
		return nil //nolint:nilerr // a file system without attributes, or with more of them than anybody uses
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		if strings.HasPrefix(name, "security.capability") || strings.HasPrefix(name, "security.ima") ||
			strings.HasPrefix(name, "security.evm") {
			continue // they certify the old content
		}
		n, err := unix.Fgetxattr(int(old.Fd()), name, value)
		if err != nil {
			continue
		}
		_ = unix.Fsetxattr(int(out.Fd()), name, value[:n], 0) // as far as the process may
	}
	return nil
}

func moveNew(from int, name string, to int, newName string) error {
	err := unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNew(from, name, to, newName)
	}
	return err
}

func exchange(from int, name string, to int, newName string) error {
	err := unix.Renameat2(from, name, to, newName, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errNoExchange
	}
	return err
}
