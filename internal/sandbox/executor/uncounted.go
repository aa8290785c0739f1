package executor

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

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// This file bounds memory that belongs to no process, without control groups to count
// it: socket buffers, and shared mappings.

// uncounted holds the facts about this machine that are needed to bound it.
type uncounted struct {
	device string // of shared mappings
	socket int64  // bytes that one may hold
}

// newUncounted must be called in the executor's own root, if there are no control groups.
func newUncounted() (u uncounted, err error) {
	if err := replaceZero(); err != nil {
		return u, err
	}
	u.socket = socketMemory()
	u.device, err = sharedDevice()
	return u, err
}

// freeSockets and freeMappings are not counted. Few programs have more.
const (
	freeSockets  = 16
	freeMappings = 16
)

// MostShared limits the size of a shared anonymous mapping, in bytes. Its memory stays
// allocated as long as one page of it is mapped, resident or not.
const MostShared = 4 << 20

// sharedDevice returns the number of the file system behind shared anonymous mappings, as in
// lists of mappings. The name would not do, because a program can change a mapping's name.
func sharedDevice() (string, error) {
	probe, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return "", fmt.Errorf("map shared memory: %w", err)
	}
	defer unix.Munmap(probe) //nolint:errcheck // it is mapped
	start := fmt.Sprintf("%08x-", uintptr(unsafe.Pointer(&probe[0])))
	maps, err := os.ReadFile(image.ProcPath + "/self/maps")
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

// Reading all mappings of many processes takes long. These bound the share of time for
// it, and the pause between two readings.
const (
	mappingsPart  = 8
	mappingsPause = 100 * time.Millisecond
)

// mapped returns a recent result of mappings.
func (p *poller) mapped(pids []int) int64 {
	if now := time.Now(); !now.Before(p.lookNext) {
		p.shared = p.mappings(pids)
		p.lookNext = now.Add(min(mappingsPart*time.Since(now), mappingsPause))
	}
	return p.shared
}

// mappings returns the most memory that the sandbox's shared anonymous mappings can hold.
func (p *poller) mappings(pids []int) int64 {
	inodes := map[string]bool{}
	device := " " + p.most.device + " "
	for _, pid := range pids {
		maps, _ := os.ReadFile(fmt.Sprintf("%s/%d/maps", image.ProcPath, pid)) // it may have ended
		for line := range bytes.Lines(maps) {
			if bytes.Contains(line, []byte(device)) {
				if fields := bytes.Fields(line); len(fields) > inodeField {
					inodes[string(fields[inodeField])] = true
				}
			}
		}
	}
	return max(0, int64(len(inodes))-freeMappings) * MostShared
}

// socketMemory returns the most memory that one socket can hold. The kernel counts the
// sockets of a namespace, but not two kinds: sockets in transit in another's message,
// and sockets closed before their data is read. A program cannot enlarge its buffers
// (withoutGroups).
func socketMemory() int64 {
	const message = 64 << 10 // one message may exceed the buffer
	most := int64(0)
	for _, name := range []string{"rmem_default", "wmem_default"} {
		b, _ := os.ReadFile(image.ProcPath + "/sys/net/core/" + name)
		most = max(most, kernelfile.Int(string(b)))
	}
	return most + message
}

// sockets returns the most memory that the sandbox's sockets can hold.
func (p *poller) sockets() int64 {
	list := kernelfile.Read(fmt.Sprintf("%s/%d/net", image.ProcPath, p.pid), "sockstat")
	_, used, _ := strings.Cut(list, "sockets: used ")
	used, _, _ = strings.Cut(used, "\n")
	count, _ := strconv.ParseInt(used, 10, 64)
	return max(0, count-freeSockets) * p.most.socket
}

// replaceZero mounts /dev/full over /dev/zero. It also reads as endless zeros, but
// cannot be mapped. A shared mapping of /dev/zero would be counted in no process once a
// process has unmapped all but one page of it.
func replaceZero() error {
	for _, root := range []string{image.Path, image.HomePath} {
		if err := unix.Mount(root+"/dev/full", root+"/dev/zero", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("replace /dev/zero: %w", err)
		}
	}
	return nil
}
