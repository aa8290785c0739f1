package executor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// The kernel counts pending signals, pipes, locked memory and, where a limit is set, processes by user, whatever
// executor a user belongs to. So no two executors of a machine have the same users: each has a block of its own out of
// the range from firstUID. A lock of the kernel on a byte of a file says which blocks are taken. It ends with the
// process that launched the executor, however that ends. Containers do not see each other's file, so the search
// begins anywhere.
const (
	firstUID    = 0x70000000 // no person, package, container or /etc/subuid uses these
	usersBlock  = 4096       // users of one executor
	firstBlock  = 2          // before it are the users of egress
	mostBlocks  = 1 << 16
	usersFolder = "/run/airlock"
)

// userBlock is a block of users that is taken until Close.
type userBlock struct {
	image.Users
	lock *os.File // nil: there can be none here
}

// takeUsers takes a block of users. folder has the file with the locks.
func takeUsers(folder string) (*userBlock, error) {
	at := firstBlock + rand.IntN(mostBlocks-firstBlock)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return &userBlock{Users: usersOf(at)}, nil // a read-only root
	}
	lock, err := os.OpenFile(filepath.Join(folder, "users.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &userBlock{Users: usersOf(at)}, nil //nolint:nilerr // as above
	}
	for range mostBlocks - firstBlock {
		err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(at), Len: 1})
		switch {
		case err == nil:
			return &userBlock{usersOf(at), lock}, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			lock.Close()
			return nil, fmt.Errorf("lock a block of users in %s: %w", lock.Name(), err)
		}
		if at++; at == mostBlocks {
			at = firstBlock
		}
	}
	lock.Close()
	return nil, &engine.Error{
		Op: "start the sandbox executor", Kind: engine.ErrUnavailable,
		Err:  fmt.Errorf("other executors of this machine have all %d blocks of users", mostBlocks-firstBlock),
		Hint: "stop one of them",
	}
}

func usersOf(block int) image.Users {
	return image.Users{First: firstUID + block*usersBlock, Count: usersBlock}
}

// Close gives the block back.
func (b *userBlock) Close() {
	if b != nil && b.lock != nil {
		b.lock.Close()
	}
}
