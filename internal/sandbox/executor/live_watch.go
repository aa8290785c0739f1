package executor

import (
	"errors"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// fileEvent is engine.FileEvent between the processes.
type fileEvent struct {
	Kind       engine.FileEventKind
	Path, From []byte
	Folder     bool
}

// Bounds of one watch, and of the watches of one session. Further folders are not watched,
// which is reported as an overflow, and so are events that a program causes too fast for the
// pauses.
const (
	maxWatched     = 4096
	MaxHeldWatches = 32
	watchPause     = 20 * time.Millisecond
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM |
	unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// folderWatch is a watch of a workspace's folders.
type folderWatch struct {
	notifier  *notifier
	room      *holding // of watched folders
	root      int
	recursive bool
	paths     map[int32]string // of the watched folders; "" is the workspace
	events    []fileEvent
	moved     map[uint32]fileEvent // moved out of a folder, and not yet into another
	waited    map[uint32]bool      // have waited for one pause

	wds map[int32]bool // its folders; guarded by the notifier's mu

	mu      sync.Mutex
	notices []notice
	lost    bool          // some were dropped
	news    chan struct{} // has an element if there is anything of these
}

// note keeps an event for the watch. It returns false if the watch has lost events: it is
// to be dropped until it has caught up.
func (f *folderWatch) note(n notice) bool {
	f.mu.Lock()
	kept := len(f.notices) < maxNotices
	if kept {
		f.notices = append(f.notices, n)
	}
	f.lost = f.lost || !kept
	f.mu.Unlock()
	f.wake()
	return kept
}

// lose records that the kernel has dropped events.
func (f *folderWatch) lose() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.wake()
}

func (f *folderWatch) wake() {
	select {
	case f.news <- struct{}{}:
	default: // it will look anyway
	}
}

// drain returns the events since the last call, and whether some were lost.
func (f *folderWatch) drain() (notices []notice, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	notices, lost = f.notices, f.lost
	f.notices, f.lost = nil, false
	return notices, lost
}

// watch sends events until the service closes its end or the folder is removed.
func (w *openWorkspace) watch(l *Link, name string, recursive bool) error {
	leave, err := w.executor.addWatch(w.held, w.owner)
	if err != nil {
		return err
	}
	defer leave()
	room, err := w.executor.machine.shares.folders.reserve(w.owner, 1)
	if err != nil {
		return err
	}
	defer room.release()
	f := &folderWatch{notifier: &w.executor.notifier, room: room, root: int(w.root.Fd()), recursive: recursive,
		paths: map[int32]string{}, moved: map[uint32]fileEvent{}, waited: map[uint32]bool{}, wds: map[int32]bool{},
		news: make(chan struct{}, 1)}
	defer f.notifier.drop(f)
	if err := w.executor.gate.through(w.owner, func() error { return f.add(name, false) }); err != nil {
		return err
	}
	if err := l.Send(answer{Accepted: true}); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		files, _ := l.Receive(&struct{}{}) // the service has nothing more to say
		CloseAll(files...)
	}()
	defer func() {
		l.SetReadDeadline(time.Now())
		<-left
		l.SetReadDeadline(time.Time{})
	}()
	return f.follow(l, name, left)
}

// follow sends events until the service has left or the folder is removed.
func (f *folderWatch) follow(l *Link, name string, left <-chan struct{}) error {
	for {
		var later <-chan time.Time
		if len(f.moved) > 0 {
			later = time.After(watchPause)
		}
		select {
		case <-left:
			return nil
		case <-f.news:
		case <-later:
		}
		notices, lost := f.drain()
		gone := f.read(notices)
		if lost {
			gone = f.again(name) != nil
		}
		if err := f.send(l); err != nil || gone {
			return err
		}
		select { // events that follow at once are sent together
		case <-left:
			return nil
		case <-time.After(watchPause):
		}
	}
}

// again watches the folders anew after events were lost.
func (f *folderWatch) again(name string) error {
	f.tell(engine.FileOverflow, []byte("."), nil, true)
	f.notifier.drop(f)
	f.drain() // of the old watches
	clear(f.paths)
	return f.add(name, false)
}

// send sends the recorded events.
func (f *folderWatch) send(l *Link) error {
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
		if err := l.Send(answer{Events: batch}); err != nil {
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
	if len(f.paths) >= maxWatched || strings.Count(name, "/") >= MaxDepth {
		f.tell(engine.FileOverflow, []byte(name), nil, true)
		return nil
	}
	if err := f.room.resize(int64(len(f.paths) + 1)); err != nil { // the owner's bound
		f.tell(engine.FileOverflow, []byte(name), nil, true)
		return nil
	}
	wd, err := f.notifier.add(f, fd)
	if errors.Is(err, unix.ENOSPC) { // the user's limit of watches
		f.tell(engine.FileOverflow, []byte(name), nil, true)
		return nil
	}
	if errors.Is(err, unix.EMFILE) {
		return NewFailure(engine.ErrUnavailable, err.Error(), "the operator can raise that limit")
	}
	if err != nil {
		return err
	}
	before, watched := f.paths[wd]
	f.paths[wd] = name
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

// read records events. It reports whether the first folder was removed.
func (f *folderWatch) read(notices []notice) (gone bool) {
	for _, n := range notices {
		folder, known := f.paths[n.wd]
		switch {
		case !known:
		case n.mask&unix.IN_IGNORED != 0:
			delete(f.paths, n.wd)
			_ = f.room.resize(int64(max(len(f.paths), 1))) // less is never refused
			gone = gone || len(f.paths) == 0
		case n.name != "":
			f.one(&n, path.Join(folder, n.name), strings.HasPrefix(n.name, temporary))
		}
	}
	return gone
}

// one records one event of a file. A temporary file will be renamed.
func (f *folderWatch) one(event *notice, name string, temporary bool) {
	folder := event.mask&unix.IN_ISDIR != 0
	at := []byte(name)
	switch {
	case event.mask&unix.IN_MOVED_FROM != 0:
		f.moved[event.cookie] = fileEvent{From: at, Folder: folder}
		if temporary {
			f.moved[event.cookie] = fileEvent{}
		}
		return
	case temporary:
		return
	case event.mask&unix.IN_MOVED_TO != 0:
		before, known := f.moved[event.cookie]
		delete(f.moved, event.cookie)
		delete(f.waited, event.cookie)
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
	case event.mask&unix.IN_CREATE != 0:
		f.tell(engine.FileCreated, at, nil, folder)
		if folder && f.recursive {
			_ = f.add(name, true)
		}
	case event.mask&unix.IN_DELETE != 0:
		f.tell(engine.FileDeleted, at, nil, folder)
	case event.mask&unix.IN_MODIFY != 0 && !f.unnamed(name):
		f.tell(engine.FileModified, at, nil, folder)
	case event.mask&unix.IN_ATTRIB != 0 && !f.unnamed(name):
		f.tell(engine.FileAttributes, at, nil, folder)
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
