package linux

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrepareWaitsForNobody sends notices to a program that does not read, and one while an
// answer is being written.
func TestPrepareWaitsForNobody(t *testing.T) {
	c, theirs, err := newCallChannel(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close(); closeAll(theirs) })
	c.writing.Lock()
	c.prepare()
	c.writing.Unlock()
	read := func() (n int) {
		n, err := unix.Read(int(theirs[0].Fd()), make([]byte, 1<<20))
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return max(n, 0)
	}
	if err := unix.SetNonblock(int(theirs[0].Fd()), true); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != 0 {
		t.Errorf("%d bytes in the middle of an answer", n)
	}
	for range (1<<16)/len(notice) + 2*os.Getpagesize() {
		c.prepare()
	}
	if n := read(); n == 0 || n%len(notice) != 0 {
		t.Errorf("a full pipe has %d bytes, of notices of %d", n, len(notice))
	}
}
