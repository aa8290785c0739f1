package index

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ErrLocked says that another process holds the index.
var ErrLocked = errors.New("index is locked")

// acquire takes the lock of the index at path: an flock, which the kernel
// gives back however its holder ends. The file stays, with the pid of its last
// holder in it; removing it would let two processes lock two files.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is in use by %s: stop that process, or use another data directory", ErrLocked, path,
				holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// holder names the process that has written its pid into the lock file.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parsed != nil || pid <= 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}
