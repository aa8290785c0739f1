package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// smallDisk is a disk of one mebibyte.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

func room(t *testing.T, s *Space) engine.Room {
	t.Helper()
	r, err := s.Room()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fill fills the free space of a disk, and returns how many bytes it wrote.
func fill(t *testing.T, at, name string) (n int) {
	t.Helper()
	f, err := os.Create(filepath.Join(at, name))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
		n += 4096
	}
	f.Close()
	return n
}

func TestReserve(t *testing.T) {
	at := smallDisk(t, "size=1m")
	s, err := Open(at, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := room(t, s); r.Low || r.Total != 1<<20 || r.Free > 1<<20-leastReserve {
		t.Fatalf("an empty disk: %+v", r)
	}
	fill(t, at, "others")
	if r := room(t, s); !r.Low || r.Free != 0 {
		t.Fatalf("a full disk: %+v", r)
	}
	giveBack := s.Borrow()
	if r := room(t, s); !r.Low || r.Free < leastReserve {
		t.Errorf("the reserve is lent, to deletions only: %+v", r)
	}
	if err := os.WriteFile(filepath.Join(at, "deletion"), make([]byte, leastReserve/2), 0o600); err != nil {
		t.Errorf("a deletion has no room: %v", err)
	}
	giveBack()
	giveBack()
	if n := fill(t, at, "thief"); n > leastReserve/pieces+4096 {
		t.Errorf("others took %d bytes of what was left of the reserve", n)
	}
	os.Remove(filepath.Join(at, "others"))
	if r := room(t, s); r.Low {
		t.Errorf("there is room again: %+v", r)
	}
	if _, err := Open(at, 1); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

// A full disk is no reason not to start; the reserve is made when there is room.
func TestOpenOnAFullDisk(t *testing.T) {
	for _, options := range []string{"size=1m", "size=1m,nr_inodes=3"} {
		at := smallDisk(t, options)
		fill(t, at, "others")
		for i := range 3 {
			_ = os.WriteFile(filepath.Join(at, "more"+string(rune('0'+i))), nil, 0o600)
		}
		s, err := Open(at, 1)
		if err != nil {
			t.Fatal(err)
		}
		if r := room(t, s); !r.Low {
			t.Errorf("%s: %+v", options, r)
		}
		s.Borrow()()
	}
}

func TestFloor(t *testing.T) {
	at := smallDisk(t, "size=100m,nr_inodes=1000")
	for floor, low := range map[int64]bool{0: false, 90 << 20: false, 101 << 20: true} {
		r, err := Look(at, floor)
		if err != nil || r.Low != low || floor == 0 && r.Floor != 5<<20 {
			t.Errorf("%d: %+v %v", floor, r, err)
		}
	}
	for i := range 960 {
		if err := os.WriteFile(filepath.Join(at, strings.Repeat("i", i%50+1)+string(rune(0x4e00+i))), nil,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := Look(at, 0); err != nil || !r.Low {
		t.Errorf("few inodes: %+v %v", r, err)
	}
}
