package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory that is no process's, where there are no control groups to count it: what
// waits in sockets, and what is behind shared mappings.

// freeSockets are not counted. Hardly a program has more.
const freeSockets = 16

// Buffers of connections, in bytes: the least, the usual and the most. The kernel's
// own most is several MiB for each.
const connectionBuffers = "4096 65536 131072"

// boundConnections has a new network namespace give each connection no more than
// another socket has.
func boundConnections() []step {
	return join(
		writeTo("bound what connections receive", nil, "/proc/sys/net/ipv4/tcp_rmem", connectionBuffers),
		writeTo("bound what connections send", nil, "/proc/sys/net/ipv4/tcp_wmem", connectionBuffers),
	)
}

// socketMemory is the most that can wait in one socket. The kernel counts sockets of
// a namespace, and not what is in them: those that are on their way in another's
// message, and those that are closed while somebody has yet to read what they sent.
// A program cannot make its buffers larger (withoutGroups).
func socketMemory() int64 {
	const message = 64 << 10 // may be one more than there is room for
	most := int64(0)
	for _, name := range []string{"rmem_default", "wmem_default"} {
		b, _ := os.ReadFile(procPath + "/sys/net/core/" + name)
		most = max(most, parseInt(string(b)))
	}
	return most + message
}

// sockets is the most that the sandbox's sockets can hold.
func (p *poller) sockets() int64 {
	_, used, _ := strings.Cut(readSmall(fmt.Sprintf("%s/%d/net", procPath, p.pid), "sockstat"), "sockets: used ")
	used, _, _ = strings.Cut(used, "\n")
	count, _ := strconv.ParseInt(used, 10, 64)
	return max(0, count-freeSockets) * p.perSocket
}

// replaceZero shows /dev/full as /dev/zero: it reads as endless zeros, too, and cannot
// be mapped. A shared mapping of /dev/zero is memory that is counted in no process
// as soon as that has unmapped all of it but a page.
func replaceZero() error {
	if err := unix.Mount(imagePath+"/dev/full", imagePath+"/dev/zero", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("replace /dev/zero: %w", err)
	}
	return nil
}
