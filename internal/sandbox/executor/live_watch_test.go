package executor

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// A folder found while its parent is listed is not listed again for its creation event:
// nested folders would be reported once for each parent.
func TestWatchOnce(t *testing.T) {
	at := t.TempDir()
	if err := os.MkdirAll(at+"/a/b/c", 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	n := newTestNotifier(t)
	f := newTestWatch(n, int(root.Fd()))
	defer n.drop(f)
	for _, name := range []string{"a", "a", "a/b"} {
		if err := f.add(name, true); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.events) != 2 || string(f.events[1].Path) != "a/b/c" {
		t.Errorf("%+v", f.events)
	}
}

// newTestNotifier returns a notifier that ends with the test.
func newTestNotifier(t *testing.T) *notifier {
	t.Helper()
	n := &notifier{}
	n.start()
	if n.file == nil {
		t.Fatal("no inotify instance")
	}
	t.Cleanup(func() { n.file.Close() })
	return n
}

func newTestWatch(n *notifier, root int) *folderWatch {
	return &folderWatch{notifier: n, root: root, recursive: true, paths: map[int32]string{}, wds: map[int32]bool{},
		moved: map[uint32]fileEvent{}, waited: map[uint32]bool{}, news: make(chan struct{}, 1)}
}

// An overflow of the kernel's queue is reported to all watches.
func TestWatchOverflow(t *testing.T) {
	f := newTestWatch(nil, -1)
	n := &notifier{watches: map[int32][]*folderWatch{7: {f}}}
	event := unix.InotifyEvent{Wd: -1, Mask: unix.IN_Q_OVERFLOW}
	n.hand(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent))
	if _, lost := f.drain(); !lost {
		t.Error("it is not reported")
	}
}

// A watch that does not read its events loses them, and no other watch does. It sees those
// that happen after it has caught up.
func TestWatchesAreApart(t *testing.T) {
	n := newTestNotifier(t)
	var watches [2]*folderWatch
	var at [2]string
	for i := range watches {
		at[i] = t.TempDir()
		root, err := os.Open(at[i])
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		watches[i] = newTestWatch(n, int(root.Fd()))
		defer n.drop(watches[i])
		if err := watches[i].add(".", false); err != nil {
			t.Fatal(err)
		}
	}
	loud, calm := watches[0], watches[1]
	seen := func(f *folderWatch) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.lost
	}
	for i := 0; !seen(loud); i++ {
		name := fmt.Sprintf("%s/%d", at[0], i)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
	}
	if len(loud.notices) > maxNotices {
		t.Errorf("%d events are kept", len(loud.notices))
	}
	if err := os.WriteFile(at[1]+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-calm.news
	if notices, lost := calm.drain(); lost || len(notices) == 0 || notices[0].name != "x" {
		t.Errorf("the other watch has %v, %v", notices, lost)
	}
	if loud.drain(); loud.again(".") != nil || len(loud.events) != 1 || loud.events[0].Kind != engine.FileOverflow {
		t.Errorf("it is told %+v", loud.events)
	}
	for len(loud.news) > 0 {
		<-loud.news
	}
	if err := os.WriteFile(at[0]+"/y", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-loud.news
	if notices, _ := loud.drain(); len(notices) == 0 || notices[0].name != "y" {
		t.Errorf("afterwards it has %v", notices)
	}
}
