// Package kernelfile reads small files of the kernel: those of control groups and of
// /proc. Each fits into a page and is read by one call.
package kernelfile

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read returns the content of a file, "" if the file does not exist.
func Read(folder, name string) string {
	fd, err := unix.Open(folder+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return ReadFD(fd)
}

// ReadOpen reads an open file from its start. It returns "" if f is nil.
func ReadOpen(f *os.File) string {
	if f == nil {
		return ""
	}
	return ReadFD(int(f.Fd()))
}

// ReadFD reads an open file from its start. It returns "" on failure.
func ReadFD(fd int) string {
	var page [4096]byte
	n, _ := unix.Pread(fd, page[:], 0)
	return string(page[:max(n, 0)])
}

// Value returns the number after a key, in a text of lines "key value", 0 if there is none.
func Value(text, key string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return Int(fields[1])
		}
	}
	return 0
}

// Int returns the number in a text, 0 if it is not a number.
func Int(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
