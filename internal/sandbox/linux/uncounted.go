package linux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// Memory that is no process's, where there are no control groups to count it: what
// waits in sockets, and what is behind shared mappings.

// uncounted is what the executor has to know of this machine to bound it.
type uncounted struct {
	device string // of shared mappings
	socket int64  // bytes that one may hold
}

// newUncounted is for an executor without control groups, in its own root.
func newUncounted() (u uncounted, err error) {
	if err := replaceZero(); err != nil {
		return u, err
	}
	u.socket = socketMemory()
	u.device, err = sharedDevice()
	return u, err
}

// freeSockets and freeMappings are not counted. Hardly a program has more.
const (
	freeSockets  = 16
	freeMappings = 16
)

// mostShared is how large a shared mapping of no file may be, in bytes. It stays whole
// as long as one page of it is mapped somewhere, resident or not.
const mostShared = 4 << 20

// sharedDevice is the file system behind shared mappings of no file, as lists of
// mappings call it: by its number, because a program can give a mapping another name.
func sharedDevice() (string, error) {
	probe, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return "", fmt.Errorf("map shared memory: %w", err)
	}
	defer unix.Munmap(probe) //nolint:errcheck // it is mapped
	start := fmt.Sprintf("%08x-", uintptr(unsafe.Pointer(&probe[0])))
	maps, err := os.ReadFile(procPath + "/self/maps")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, start) && len(fields) > inodeField {
			return fields[inodeField-1], nil
		}
	}
	return "", errors.New("a shared mapping is in no list of mappings")
}

const inodeField = 4 // of a line of /proc/PID/maps; the device is before it

// Looking at all mappings of many processes takes long. It is done in a part of the
// time, but often enough.
const (
	mappingsPart  = 8
	mappingsPause = 100 * time.Millisecond
)

// mapped is what mappings has found, a moment ago at most.
func (p *poller) mapped(pids []int) int64 {
	if now := time.Now(); !now.Before(p.lookNext) {
		p.shared = p.mappings(pids)
		p.lookNext = now.Add(min(mappingsPart*time.Since(now), mappingsPause))
	}
	return p.shared
}

// mappings is the most that the sandbox's shared mappings of no file can hold.
func (p *poller) mappings(pids []int) int64 {
	inodes := map[string]bool{}
	device := " " + p.most.device + " "
	for _, pid := range pids {
		maps, _ := os.ReadFile(fmt.Sprintf("%s/%d/maps", procPath, pid)) // it may have ended
		for line := range bytes.Lines(maps) {
			if bytes.Contains(line, []byte(device)) {
				if fields := bytes.Fields(line); len(fields) > inodeField {
					inodes[string(fields[inodeField])] = true
				}
			}
		}
	}
	return max(0, int64(len(inodes))-freeMappings) * mostShared
}

// Buffers of connections, in bytes: the least, the usual and the most. The kernel's
// own most is several MiB for each.
const connectionBuffers = "4096 65536 131072"

// boundConnections has a new network namespace give each connection no more than
// another socket has.
func boundConnections() []spawn.Step {
	return join(
		writeTo("bound what connections receive", nil, "/proc/sys/net/ipv4/tcp_rmem", connectionBuffers),
		writeTo("bound what connections send", nil, "/proc/sys/net/ipv4/tcp_wmem", connectionBuffers),
	)
}

// socketMemory is the most that can wait in one socket. The kernel counts sockets of
// a namespace, and not what is in them: those that are on their way in another's
// message, and those that are closed before what they sent is read.
// A program cannot make its buffers larger (withoutGroups).
func socketMemory() int64 {
	const message = 64 << 10 // may be one more than there is room for
	most := int64(0)
	for _, name := range []string{"rmem_default", "wmem_default"} {
		b, _ := os.ReadFile(procPath + "/sys/net/core/" + name)
		most = max(most, kernelfile.Int(string(b)))
	}
	return most + message
}

// sockets is the most that the sandbox's sockets can hold.
func (p *poller) sockets() int64 {
	_, used, _ := strings.Cut(kernelfile.Read(fmt.Sprintf("%s/%d/net", procPath, p.pid), "sockstat"), "sockets: used ")
	used, _, _ = strings.Cut(used, "\n")
	count, _ := strconv.ParseInt(used, 10, 64)
	return max(0, count-freeSockets) * p.most.socket
}

// replaceZero shows /dev/full as /dev/zero: it reads as endless zeros, too, and cannot
// be mapped. A shared mapping of /dev/zero is memory that is counted in no process
// as soon as that has unmapped all of it but a page.
func replaceZero() error {
	for _, image := range []string{imagePath, homePath} {
		if err := unix.Mount(image+"/dev/full", image+"/dev/zero", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("replace /dev/zero: %w", err)
		}
	}
	return nil
}
