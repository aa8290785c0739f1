// Package kernelfile reads the small files in which the kernel shows what it knows:
// those of control groups and of /proc. Each fits into a page and is read by one call.
package kernelfile

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read returns what is in a file; "" if it is not there.
func Read(folder, name string) string {
	fd, err := unix.Open(folder+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return ReadFD(fd)
}

// ReadOpen reads a file that is open from its start; "" if it is not.
func ReadOpen(f *os.File) string {
	if f == nil {
		return ""
	}
	return ReadFD(int(f.Fd()))
}

// ReadFD reads a file that is open from its start; "" if it is not.
func ReadFD(fd int) string {
	var page [4096]byte
	n, _ := unix.Pread(fd, page[:], 0)
	return string(page[:max(n, 0)])
}

// Value returns the number behind a key, in a text of lines "key value"; 0 without one.
func Value(text, key string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return Int(fields[1])
		}
	}
	return 0
}

// Int returns the number that a text is; 0 if it is none.
func Int(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
