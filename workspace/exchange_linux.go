package workspace

import (
	"errors"

	"golang.org/x/sys/unix"
)

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
