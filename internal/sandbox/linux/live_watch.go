package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// fileEvent is engine.FileEvent between the processes.
type fileEvent struct {
	Kind       engine.FileEventKind
	Path, From []byte
	Folder     bool
}

// Bounds of one watch. Further folders are not watched, which is reported as an
// overflow. If a program changes files too fast for the pauses, the kernel's queue
// overflows, which is also reported.
const (
	maxWatched = 4096
	watchPause = 20 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_MOVED_FROM |
	unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// folderWatch is an inotify watch of a workspace's folders.
type folderWatch struct {
	root      int
	notify    *os.File
	recursive bool
	paths     map[int32]string // of the watched folders; "" is the workspace
	events    []fileEvent
	moved     map[uint32]fileEvent // moved out of a folder, and not yet into another
	waited    map[uint32]bool      // have waited for one pause
}

// watch sends events until the service closes its end or the folder is removed.
func (w *openWorkspace) watch(l *link, name string, recursive bool) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return newFailure(engine.ErrBusy, "too many folders are watched: "+err.Error())
	}
	f := &folderWatch{root: int(w.root.Fd()), notify: os.NewFile(uintptr(fd), "watch"), recursive: recursive,
		paths: map[int32]string{}, moved: map[uint32]fileEvent{}, waited: map[uint32]bool{}}
	defer f.notify.Close()
	if err := f.add(name, false); err != nil {
		return err
	}
	if err := l.send(answer{Accepted: true}); err != nil {
		return err
	}
	service, err := l.number()
	if err != nil {
		return err
	}
	list := []unix.PollFd{{Fd: int32(service), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
	buffer := make([]byte, 64<<10)
	for {
		var deadline time.Time
		if len(f.moved) > 0 {
			deadline = time.Now().Add(watchPause)
		}
		if _, err := pollUntil(list, deadline); err != nil || list[0].Revents != 0 {
			return err
		}
		n, err := unix.Read(fd, buffer)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return err
		}
		gone := f.read(buffer[:max(n, 0)])
		if err := f.send(l); err != nil || gone {
			return err
		}
		// Events that follow at once are sent together.
		if n, err := pollUntil(list[:1], time.Now().Add(watchPause)); n > 0 || err != nil {
			return err
		}
	}
}

// send sends the recorded events.
func (f *folderWatch) send(l *link) error {
	for cookie, e := range f.moved {
		if !f.waited[cookie] { // the other half may follow
			f.waited[cookie] = true
			continue
		}
		if e.From != nil { // it was moved out of the watched folders
			f.tell(engine.FileDeleted, e.From, nil, e.Folder)
		}
		delete(f.moved, cookie)
		delete(f.waited, cookie)
	}
	defer func() { f.events = nil }()
	for batch := range batches(f.events, func(e fileEvent) string { return string(e.Path) + string(e.From) }) {
		if err := l.send(answer{Events: batch}); err != nil {
			return err
		}
	}
	return nil
}

// tell records an event, unless it equals the previous one.
func (f *folderWatch) tell(kind engine.FileEventKind, path, from []byte, folder bool) {
	last := len(f.events) - 1
	if last >= 0 && f.events[last].Kind == kind && string(f.events[last].Path) == string(path) &&
		kind != engine.FileMoved {
		return
	}
	f.events = append(f.events, fileEvent{kind, path, from, folder})
}

// add watches a folder and its subfolders. Entries of a new folder are reported as created.
func (f *folderWatch) add(name string, fresh bool) error {
	fd, err := beneath(f.root, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	if len(f.paths) >= maxWatched || strings.Count(name, "/") >= maxDepth {
		f.tell(engine.FileOverflow, []byte(name), nil, true)
		return nil
	}
	wd, err := unix.InotifyAddWatch(int(f.notify.Fd()), fmt.Sprintf("%s/self/fd/%d", procPath, fd),
		watchMask&^unix.IN_DONT_FOLLOW)
	if errors.Is(err, unix.ENOSPC) { // the user's limit of watches
		f.tell(engine.FileOverflow, []byte(name), nil, true)
		return nil
	}
	if err != nil {
		return err
	}
	before, watched := f.paths[int32(wd)]
	f.paths[int32(wd)] = name
	if !f.recursive || watched && before == name { // its entries were seen, or an event will follow
		return nil
	}
	names, _ := folder.Readdirnames(maxListed)
	for _, base := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		inner, isFolder := path.Join(name, base), st.Mode&unix.S_IFMT == unix.S_IFDIR
		if fresh && !strings.HasPrefix(base, temporary) {
			f.tell(engine.FileCreated, []byte(inner), nil, isFolder)
		}
		if isFolder {
			_ = f.add(inner, fresh) // it may have been removed
		}
	}
	return nil
}

// read records the kernel's events. It reports whether the first folder was removed.
func (f *folderWatch) read(buffer []byte) (gone bool) {
	for len(buffer) >= unix.SizeofInotifyEvent {
		var event unix.InotifyEvent
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent), buffer)
		end := unix.SizeofInotifyEvent + int(event.Len)
		name := strings.TrimRight(string(buffer[unix.SizeofInotifyEvent:end]), "\x00")
		buffer = buffer[end:]
		folder, known := f.paths[event.Wd]
		switch {
		case event.Mask&unix.IN_Q_OVERFLOW != 0:
			f.tell(engine.FileOverflow, []byte("."), nil, true)
		case !known:
		case event.Mask&unix.IN_IGNORED != 0:
			delete(f.paths, event.Wd)
			gone = gone || len(f.paths) == 0
		case name != "":
			f.one(&event, path.Join(folder, name), strings.HasPrefix(name, temporary))
		}
	}
	return gone
}

// one records one event of a file. A temporary file will be renamed.
func (f *folderWatch) one(event *unix.InotifyEvent, name string, temporary bool) {
	folder := event.Mask&unix.IN_ISDIR != 0
	at := []byte(name)
	switch {
	case event.Mask&unix.IN_MOVED_FROM != 0:
		f.moved[event.Cookie] = fileEvent{From: at, Folder: folder}
		if temporary {
			f.moved[event.Cookie] = fileEvent{}
		}
		return
	case temporary:
		return
	case event.Mask&unix.IN_MOVED_TO != 0:
		before, known := f.moved[event.Cookie]
		delete(f.moved, event.Cookie)
		delete(f.waited, event.Cookie)
		switch {
		case !known:
			f.tell(engine.FileCreated, at, nil, folder)
		case before.From == nil:
			f.tell(engine.FileModified, at, nil, folder)
		default:
			f.tell(engine.FileMoved, at, before.From, folder)
			f.rename(string(before.From), name)
		}
		if folder && f.recursive {
			_ = f.add(name, !known) // it may have been removed
		}
	case event.Mask&unix.IN_CREATE != 0:
		f.tell(engine.FileCreated, at, nil, folder)
		if folder && f.recursive {
			_ = f.add(name, true)
		}
	case event.Mask&unix.IN_DELETE != 0:
		f.tell(engine.FileDeleted, at, nil, folder)
	case event.Mask&unix.IN_MODIFY != 0 && !f.unnamed(name):
		f.tell(engine.FileModified, at, nil, folder)
	}
}

// unnamed reports whether an event is for a file that is being written and has no name
// yet. The kernel names it by its number.
func (f *folderWatch) unnamed(name string) bool {
	if !unnamed.MatchString(path.Base(name)) {
		return false
	}
	fd, err := beneath(f.root, name, unix.O_PATH, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err != nil
}

var unnamed = regexp.MustCompile(`^#\d+$`)

// rename updates the path of a renamed folder, which the kernel continues to watch.
func (f *folderWatch) rename(from, to string) {
	for wd, name := range f.paths {
		if rest, ok := strings.CutPrefix(name+"/", from+"/"); ok {
			f.paths[wd] = strings.TrimSuffix(to+"/"+rest, "/")
		}
	}
}
