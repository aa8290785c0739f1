// Package regular opens files of a person's folder. Whatever else has the name there, such as a
// named pipe, a device or a socket, is refused at once: to open a pipe waits until somebody
// writes to it, and to read a device may never end.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotFile is the error for a directory, a named pipe, a device, or a socket.
var ErrNotFile = errors.New("it is not a file")

// Open opens a regular file for reading.
func Open(name string) (*os.File, error) {
	return check(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// OpenIn opens a regular file below a folder for reading.
func OpenIn(folder *os.Root, name string) (*os.File, error) {
	return check(folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// check looks at what was opened, since the name may have become another file's.
func check(f *os.File, err error) (*os.File, error) {
	if at, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, syscall.ENXIO) { // a socket cannot be opened
		return nil, &fs.PathError{Op: "open", Path: at.Path, Err: ErrNotFile}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrNotFile}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
