// Package disk watches the room on the disk that holds the data directory, and
// keeps a reserve there that only deletions may use: forgetting a file takes a
// few writes, and a disk without a free byte would never have room again.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// The reserve is a folder of files, so that giving it up frees inodes too. It
// is small: the index needs room for a few transactions.
const (
	pieces       = 16
	reservePart  = 32 // of the disk
	leastReserve = 256 << 10
	mostReserve  = 32 << 20
)

// The floor where none is set.
const (
	floorPart      = 20 // of the disk, for bytes and for inodes
	mostFloor      = 512 << 20
	mostFloorNodes = 1000
)

// Space is the disk of one data directory. Its methods may be called at once
// from many goroutines.
type Space struct {
	data  string
	floor int64 // 0: a part of the disk

	mu       sync.Mutex
	borrowed int  // deletions that use the reserve
	short    bool // the reserve is not whole, for want of room
}

// Open watches the disk of a data directory, which is there, and makes the
// reserve as far as there is room. Below minFree bytes the disk counts as full;
// 0 is a twentieth of it, at most 512 MiB.
func Open(data string, minFree int64) (*Space, error) {
	s := &Space{data: data, floor: minFree}
	if err := os.Mkdir(s.reserve(), 0o700); err != nil && !errors.Is(err, os.ErrExist) && !noRoom(err) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.refill()
}

func (s *Space) reserve() string { return filepath.Join(s.data, "reserve") }

// Look returns how much room there is in a data directory, and changes nothing.
func Look(data string, minFree int64) (engine.Room, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(data, &fs); err != nil {
		return engine.Room{}, &os.PathError{Op: "statfs", Path: data, Err: err}
	}
	size := cmp.Or(fs.Frsize, fs.Bsize)
	room := engine.Room{Free: int64(fs.Bavail) * size, Total: int64(fs.Blocks) * size, Floor: minFree}
	if minFree == 0 {
		room.Floor = min(room.Total/floorPart, mostFloor)
	}
	// Some file systems make inodes as they go, and count none.
	nodes := min(fs.Files/floorPart, mostFloorNodes)
	room.Low = room.Free < room.Floor || fs.Files > 0 && fs.Ffree < nodes
	return room, nil
}

// Room implements engine.Space. The disk is low, too, as long as there is no
// room for all of the reserve.
func (s *Space) Room() (engine.Room, error) {
	s.mu.Lock()
	var err error
	if s.short && s.borrowed == 0 {
		err = s.refill()
	}
	short := s.short || s.borrowed > 0
	s.mu.Unlock()
	if err != nil {
		return engine.Room{}, err
	}
	room, err := Look(s.data, s.floor)
	room.Low = room.Low || short
	return room, err
}

// Borrow frees the reserve for a deletion that found no room, until the caller calls
// giveBack.
func (s *Space) Borrow() (giveBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.borrowed++
	for i := range pieces {
		_ = os.Remove(s.piece(i)) // a missing piece was released before
	}
	s.short = true
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.borrowed--; s.borrowed == 0 {
			_ = s.refill() // Room retries and reports the error
		}
	})
}

func (s *Space) piece(i int) string { return filepath.Join(s.reserve(), fmt.Sprint(i)) }

// refill creates the missing pieces of the reserve, as far as there is space.
func (s *Space) refill() error {
	size, err := s.pieceSize()
	if err != nil {
		return err
	}
	s.short = false
	if err := os.Mkdir(s.reserve(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return s.failed(err)
	}
	for i := range pieces {
		if info, err := os.Stat(s.piece(i)); err == nil && info.Size() == size {
			continue
		}
		if err := makePiece(s.piece(i), size); err != nil {
			_ = os.Remove(s.piece(i)) // a partial piece is no use as a reserve, and others may need its space
			return s.failed(err)
		}
	}
	return nil
}

// failed records that the disk is full, which is no error.
func (s *Space) failed(err error) error {
	if noRoom(err) {
		s.short = true
		return nil
	}
	return fmt.Errorf("keep a reserve on the disk: %w", err)
}

func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func (s *Space) pieceSize() (int64, error) {
	room, err := Look(s.data, s.floor)
	return min(max(room.Total/reservePart, leastReserve), mostReserve) / pieces, err
}

// makePiece makes a file whose bytes are allocated on the disk.
func makePiece(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	return f.Sync()
}
