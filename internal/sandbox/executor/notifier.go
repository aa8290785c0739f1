package executor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A notifier reads the events of all watched folders from one inotify instance: a user has
// few of these, and the executor of root shares root's with every other service of the host.
// It hands events on and never waits, so that one watch's many events do not make the
// kernel drop another's.
type notifier struct {
	mu      sync.Mutex
	file    *os.File // nil: there was no instance left yet
	watches map[int32][]*folderWatch
}

// notice is one event of a watched folder.
type notice struct {
	wd     int32
	mask   uint32
	cookie uint32
	name   string
}

// maxNotices bounds the events that wait for one watch. One with more loses them, and its
// folders are not watched until it has caught up.
const maxNotices = 4096

// open creates the inotify instance. The caller holds mu.
func (n *notifier) open() error {
	if n.file != nil {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("this user has as many inotify instances as it may (fs.inotify.max_user_instances): %w", err)
	}
	n.file, n.watches = os.NewFile(uintptr(fd), "inotify"), map[int32][]*folderWatch{}
	go n.read()
	return nil
}

// start creates the instance while there is one left. Otherwise the first watch tries again.
func (n *notifier) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor: files cannot be watched yet:", err)
	}
}

// add watches an open folder for a watch.
func (n *notifier) add(f *folderWatch, folder int) (wd int32, err error) {
	n.mu.Lock() // until the watch is known: its first event may be read at once
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return 0, err
	}
	var number int
	path := fmt.Sprintf("%s/self/fd/%d", image.ProcPath, folder)
	closed := withNumber(n.file, func(fd uintptr) {
		number, err = unix.InotifyAddWatch(int(fd), path, watchMask&^unix.IN_DONT_FOLLOW)
	})
	if err = errors.Join(closed, err); err != nil {
		return 0, err
	}
	wd = int32(number)
	if !slices.Contains(n.watches[wd], f) { // the kernel has one watch of a folder
		n.watches[wd] = append(n.watches[wd], f)
		f.wds[wd] = true
	}
	return wd, nil
}

// drop ends all watches of f.
func (n *notifier) drop(f *folderWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLocked(f)
}

func (n *notifier) dropLocked(f *folderWatch) {
	for wd := range f.wds {
		n.watches[wd] = slices.DeleteFunc(n.watches[wd], func(other *folderWatch) bool { return other == f })
		if len(n.watches[wd]) == 0 {
			delete(n.watches, wd)
			// Its folder may be gone.
			_ = withNumber(n.file, func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
		}
	}
	clear(f.wds)
}

// read hands on the events until the process ends.
func (n *notifier) read() {
	buffer := make([]byte, 64<<10)
	raw, err := n.file.SyscallConn()
	for err == nil {
		var got int
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			got, failed = unix.Read(int(fd), buffer)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if failed == nil {
			n.hand(buffer[:max(got, 0)])
		}
	}
}

// hand hands events to the watches that they are for.
func (n *notifier) hand(buffer []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(buffer) >= unix.SizeofInotifyEvent {
		var event unix.InotifyEvent
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent), buffer)
		end := unix.SizeofInotifyEvent + int(event.Len)
		name := strings.TrimRight(string(buffer[unix.SizeofInotifyEvent:end]), "\x00")
		buffer = buffer[end:]
		if event.Mask&unix.IN_Q_OVERFLOW != 0 { // of any of them
			all := map[*folderWatch]bool{}
			for _, list := range n.watches {
				for _, f := range list {
					all[f] = true
				}
			}
			for f := range maps.Keys(all) {
				f.lose()
			}
			continue
		}
		for _, f := range slices.Clone(n.watches[event.Wd]) {
			if event.Mask&unix.IN_IGNORED != 0 {
				delete(f.wds, event.Wd)
			}
			if !f.note(notice{event.Wd, event.Mask, event.Cookie, name}) {
				n.dropLocked(f)
			}
		}
		if event.Mask&unix.IN_IGNORED != 0 { // its folder is gone, and the kernel's watch with it
			delete(n.watches, event.Wd)
		}
	}
}

// withNumber calls a function with a file's descriptor.
func withNumber(f *os.File, do func(fd uintptr)) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(do)
}
