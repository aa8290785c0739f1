package executor

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func here(t *testing.T) *poller {
	t.Helper()
	device, err := sharedDevice()
	if err != nil {
		t.Fatal(err)
	}
	return &poller{pid: os.Getpid(), most: uncounted{device: device, socket: socketMemory()}}
}

// A shared mapping counts with its whole size, even if little of it is still mapped,
// and under any name.
func TestSharedMappingsAreCounted(t *testing.T) {
	p, own := here(t), []int{os.Getpid()}
	const count, size = 2 * freeMappings, 1 << 20
	for range count {
		m, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.MunmapPtr(m, size-uintptr(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.mappings(own); got < (count-freeMappings)*MostShared {
		t.Errorf("%d mappings count as %d MiB", count, got>>20)
	}
	if once, twice := p.mappings(own), p.mappings(append(own, own...)); twice != once {
		t.Errorf("what two processes share counts as %d MiB, of one as %d", twice>>20, once>>20)
	}
}

// A socket counts with all the data that it may hold, even if it is closed and in
// transit in a message.
func TestSocketsAreCounted(t *testing.T) {
	p := here(t)
	before := p.sockets()
	var held []int
	for range freeSockets {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, pair[0])
		if err := unix.Sendto(pair[1], []byte("x"), 0, nil); err != nil {
			t.Fatal(err)
		}
		unix.Close(pair[1])
	}
	after := p.sockets()
	for _, fd := range held {
		unix.Close(fd)
	}
	// Other sockets in this network namespace come and go.
	if least := freeSockets / 2 * p.most.socket; after-before < least || p.most.socket < 128<<10 {
		t.Errorf("%d pairs of sockets count as %d KiB more, of %d each", freeSockets, (after-before)>>10, p.most.socket>>10)
	}
}

// Page tables count, and so does swapped-out memory, if there is any.
func TestPageTablesAreCounted(t *testing.T) {
	before := memoryOf(os.Getpid())
	const size, stride = 4 << 30, 2 << 20
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	for at := 0; at < size; at += stride {
		sum += m[at]
	}
	after := memoryOf(os.Getpid())
	if tables := after.tables - before.tables; sum != 0 || tables < size/stride*4096 || before.pages == 0 {
		t.Errorf("%d tables count as %d KiB; %d KiB of pages", size/stride, tables>>10, before.pages>>10)
	}
}
