package executor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// No two executors have the same users, a block that is given back can be taken again, and when none is left the
// error says so.
func TestUsersAreTaken(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "airlock")
	taken := map[int]*userBlock{}
	for range 100 {
		b, err := takeUsers(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if other := taken[b.First]; other != nil || b.lock == nil {
			t.Fatalf("the users from %d are taken twice", b.First)
		}
		if b.First < firstUID+firstBlock*usersBlock || b.First+b.Count > 1<<31 {
			t.Errorf("the users from %d are out of range", b.First)
		}
		taken[b.First] = b
	}
	all, err := os.OpenFile(filepath.Join(folder, "users.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	lock := func(kind int16, start, length int) {
		if length == 0 {
			return // to the end of the file, for the kernel
		}
		if err := unix.FcntlFlock(all.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{
			Type: kind, Start: int64(start), Len: int64(length)}); err != nil {
			t.Fatal(err)
		}
	}
	at := firstBlock // the next that is not looked at
	for block := firstBlock; block < mostBlocks; block++ {
		if taken[usersOf(block).First] != nil {
			lock(unix.F_WRLCK, at, block-at)
			at = block + 1
		}
	}
	lock(unix.F_WRLCK, at, mostBlocks-at)
	if b, err := takeUsers(folder); err == nil {
		t.Fatalf("the users from %d are taken twice", b.First)
	} else {
		t.Log(err)
	}
	for first, b := range taken { // the only one that is free
		b.Close()
		again, err := takeUsers(folder)
		if err != nil || again.First != first {
			t.Fatalf("%v, %v", again, err)
		}
		defer again.Close()
		break
	}
}

// Where no file can be, as on a read-only root, executors begin anywhere.
func TestUsersWithoutFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := takeUsers(filepath.Join(file, "a"))
	if err != nil || a.Count != usersBlock {
		t.Fatal(a, err)
	}
	a.Close()
}
