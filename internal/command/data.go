package command

import (
	"errors"
	"io/fs"
	"os/user"
	"syscall"

	"github.com/airlock-run/airlock/internal/setup"
)

// DataError gives an error of the data directory an exit code and a hint.
func DataError(data string, err error) error {
	f := &Failure{Code: ExitUnavailable, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		f.Word, f.Hint = "data_not_writable",
			"this user must be able to write to "+data+"; --data DIR names another directory"
		if who, err := user.Current(); err == nil && who.Username == setup.User {
			f.Hint = "the service runs as the user " + setup.User + ", which must be able to write to " + data +
				": `airlock setup --data " + QuoteForShell(data) + "` sees to that; --data DIR names another directory"
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.Word, f.Hint = "disk_full", "make room on the disk that holds "+data
	case errors.Is(err, syscall.ENOTDIR):
		f.Hint = data + " is no directory; --data DIR names another one"
	}
	return f
}
