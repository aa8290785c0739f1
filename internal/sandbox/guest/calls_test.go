package guest

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrepareDoesNotBlock sends messages to a program that does not read, and one while
// an answer is being written.
func TestPrepareDoesNotBlock(t *testing.T) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := NewChannel(nil, ours, true)
	defer c.Close()
	c.writing.Lock()
	c.Prepare()
	c.writing.Unlock()
	fd := int(theirs.Fd())
	read := func() (n int) {
		n, err := unix.Read(fd, make([]byte, 1<<20))
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return max(n, 0)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != 0 {
		t.Errorf("%d bytes in the middle of an answer", n)
	}
	for range (1<<16)/len(prepareMessage) + 2*os.Getpagesize() {
		c.Prepare()
	}
	if n := read(); n == 0 || n%len(prepareMessage) != 0 {
		t.Errorf("a full pipe has %d bytes, of messages of %d", n, len(prepareMessage))
	}
}
