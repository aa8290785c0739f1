package linux

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// whichNamespaces is the start of a program: it prints the reusable namespaces. Without
// other imports the program is of a tier that reuses them. The kernel reuses the number
// of a deleted namespace, but not its id (NS_GET_ID, since Linux 6.18).
const whichNamespaces = `import os
def namespace(kind):
    name, number = os.readlink('/proc/self/ns/' + kind), bytearray(8)
    try: __import__('fcntl').ioctl(os.open('/proc/self/ns/' + kind, os.O_RDONLY), 0x8008b70d, number)
    except OSError: pass
    return name + number.hex()
print(*map(namespace, ('net', 'ipc')), flush=True)
`

// withSocket imports a module in a way that does not affect the tier.
const withSocket = "socket = __import__('socket')\n"

// withIPC calls libc, also without affecting the tier.
const withIPC = "ctypes = __import__('ctypes')\nlibc = ctypes.CDLL(None, use_errno=True)\n"

// usesOfNamespaces leave state of all kinds. Some of it is not visible in /proc after
// the program has ended, such as a port that stays taken for a minute: none names one,
// because without notifications it may meet what an earlier one left.
var usesOfNamespaces = map[string]string{
	"TCP": `server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
accepted.close(); client.close(); server.close()`,
	"UDP to a closed port": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
	"unreachable": "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))\n" +
		"except OSError: print('unreachable')",
	"IPv6":                   "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::1', 9))",
	"bound and nothing more": "socket.socket().bind(('127.0.0.1', 0))",
	"a socket in flight": `one, other = socket.socketpair()
name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name.bind("\0name")
socket.send_fds(one, [b"x"], [one.fileno(), other.fileno(), name.fileno()])`,
	"a multicast group left again": `s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1"))`,
	"a pair in a child":    "if os.fork() == 0: socket.socketpair(); os._exit(0)\nos.wait()",
	"asyncio":              "asyncio = __import__('asyncio')\nasyncio.run(asyncio.sleep(0))",
	"a filter that allows": ownFilter(unix.SECCOMP_RET_ALLOW) + "socket.socket()",
	"a semaphore":          withIPC + "assert libc.semget(0, 1, 0o600) >= 0",
	"shared memory":        withIPC + "assert libc.shmget(7777, 4096, 0o1600) >= 0",
	"a message queue":      withIPC + "libc.mq_open(b'/queue', 0o102, 0o600, None)",
	"killed":               "s = socket.create_server(('127.0.0.1', 0))\nos.kill(os.getpid(), 9)",
}

// ownFilter returns the start of a program that filters its own socket calls.
func ownFilter(verdict uint32) string {
	return fmt.Sprintf(`ctypes, struct = map(__import__, ('ctypes', 'struct'))
rules = ctypes.create_string_buffer(struct.pack("=" + "HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, %d, 6, 0, 0, %d, 6, 0, 0,
	0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", 4, ctypes.addressof(rules)))
assert ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0
`, unix.SYS_SOCKET, verdict)
}

// A program cannot hide a socket from the executor: its own notification has no
// listener, and then the call fails.
func TestOwnNoticesReachNobody(t *testing.T) {
	needsKeptNamespaces(t)
	r := sandboxtest.Run(t, startBare(t, true), sandboxtest.Python(withSocket+ownFilter(unix.SECCOMP_RET_USER_NOTIF)+`
try: socket.socket()
except OSError as e: print(e.strerror)`))
	if r.Stdout != "Function not implemented\n" {
		t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
}

// Unused namespaces are reused, used ones are not.
func TestNamespacesServeAgain(t *testing.T) {
	needsKeptNamespaces(t)
	whole, weak := startBare(t, true), startWeak(t, weakNotices)
	for name, code := range usesOfNamespaces {
		t.Run(name, func(t *testing.T) {
			if servesAgain(t, whole, withSocket+code) {
				t.Error("its namespaces served again")
			}
			again := false
			for try := 0; try < 20 && !again; try++ { // there may be enough spare ones
				again = servesAgain(t, weak, withSocket+code)
			}
			if !again {
				t.Error("without notifications its namespaces were not reused either")
			}
		})
	}
	again := false
	for try := 0; try < 20 && !again; try++ {
		again = servesAgain(t, whole, "print(1)")
	}
	if !again {
		t.Error("one in which nothing happened was not reused")
	}
}

// servesAgain reports whether a later program gets a namespace of an earlier one.
func servesAgain(t *testing.T, s *executor.Sandbox, code string) bool {
	t.Helper()
	used := namespacesOf(t, s, code)
	for range 2 * executor.MostWaiting {
		if namespacesOf(t, s, "") == used {
			return true
		}
	}
	return false
}

// Two sandboxes that exist at the same time have different namespaces.
func TestNamespacesAreNotShared(t *testing.T) {
	needsKeptNamespaces(t)
	s := startBare(t, true)
	for range 5 {
		var (
			running sync.WaitGroup
			mu      sync.Mutex
			seen    = map[string]int{}
		)
		for range 8 {
			running.Go(func() {
				r := sandboxtest.Run(t, s, sandboxtest.Python(whichNamespaces+"import time\ntime.sleep(1)"))
				mu.Lock()
				defer mu.Unlock()
				seen[r.Stdout]++
			})
		}
		running.Wait()
		if len(seen) != 8 {
			t.Errorf("namespaces of eight programs: %v", seen)
		}
	}
}

// Used namespaces are closed.
func TestUsedNamespacesAreClosed(t *testing.T) {
	needsKeptNamespaces(t)
	s := startBare(t, true)
	for range 4 * mostNamespaces {
		sandboxtest.Run(t, s, sandboxtest.Python(withSocket+"socket.socketpair()"))
	}
	for _, left := range settled(t, executors(t)[0]) {
		if left == "file net" || left == "file ipc" {
			t.Error("more namespaces are open than may be spare")
		}
	}
}

// A program's view of its network reveals nothing about earlier programs.
func TestNetworkLooksNew(t *testing.T) {
	needsKeptNamespaces(t)
	const look = `import os, re
for name in "dev igmp ip6_flowlabel netstat snmp snmp6 sockstat sockstat6 tcp tcp6 udp unix".split():
    if os.path.exists("/proc/net/" + name):
        print(name, re.sub("orphan [0-9]+|(alloc|mem) .*", "", open("/proc/net/" +
	name).read()))  # these are the machine's
`
	for weakened, s := range map[bool]*executor.Sandbox{false: startBare(t, true), true: startWeak(t, weakNotices)} {
		seen := map[string]bool{}
		for range 4 * executor.MostWaiting {
			seen[sandboxtest.Run(t, s, sandboxtest.Python(look)).Stdout] = true
			namespacesOf(t, s, withSocket+usesOfNamespaces["TCP"])
		}
		delete(seen, "")
		if weak := len(seen) > 1; weak != weakened {
			for text := range seen {
				t.Log(text)
			}
			t.Errorf("there are %d looks", len(seen))
		}
	}
}

// A program that creates sockets in a loop is ended in time, and costs the executor
// little work.
func TestSocketStorm(t *testing.T) {
	needsKeptNamespaces(t)
	s := startBare(t, true)
	executorPID := executors(t)[0]
	spec := sandboxtest.Python(withSocket + `
import os
for i in range(8):
    try: os.fork()
    except OSError: pass  # there are as many as it may have
while True: socket.socket().close()`)
	spec.Limits.Timeout = 2 * time.Second
	before, began := usedBy(t, executorPID), time.Now()
	r := sandboxtest.Run(t, s, spec)
	took := time.Since(began)
	if !r.TimedOut || took > spec.Limits.Timeout+30*time.Second {
		t.Errorf("timed out: %v, after %v", r.TimedOut, took)
	}
	// An eighth of a processor, and its own work: on a busy machine the storm lasts longer than its limit.
	if used := usedBy(t, executorPID) - before; used > took*3/10 {
		t.Errorf("the executor computed for %v of %v", used, took)
	}
}

// Programs that create sockets and programs that report their end do not interfere.
func TestSocketsAndTheEnd(t *testing.T) {
	needsKeptNamespaces(t)
	r := sandboxtest.Run(t, startBare(t, true), sandboxtest.Python(withSocket+`
import os, sys
if os.fork() == 0:
    while True: socket.socket().close()
for i in range(1000): socket.socketpair()[0].close()
print("made")
sys.exit(7)`))
	if r.Code() != 7 || r.Stdout != "made\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
	}
}

// Pooled namespaces are bounded, used once, and closed at the end.
func TestSpareNamespaces(t *testing.T) {
	var spare namespacePool
	given := map[*namespaces]bool{}
	pair := func() *namespaces {
		var files [2]*os.File
		for i := range files {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			files[i] = f
		}
		return &namespaces{files[0], files[1]}
	}
	for range mostNamespaces + 1 {
		n := pair()
		given[n] = true
		spare.put(n)
	}
	if len(spare.list) != mostNamespaces {
		t.Errorf("%d are spare", len(spare.list))
	}
	for range 3 {
		n := spare.get()
		if !given[n] {
			t.Error("one came twice")
		}
		delete(given, n)
		n.close()
	}
	spare.close()
	spare.put(pair())
	if spare.get() != nil {
		t.Error("one is left after the end")
	}
	for n := range given {
		for _, f := range []*os.File{n.network, n.ipc} {
			if err := f.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("one stays open: %v", err)
			}
		}
	}
}

func needsKeptNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it no namespaces are kept")
	}
}

func namespacesOf(t *testing.T, s *executor.Sandbox, code string) string {
	t.Helper()
	r := sandboxtest.Run(t, s, sandboxtest.Python(whichNamespaces+code))
	name, _, _ := strings.Cut(r.Stdout, "\n")
	if !strings.HasPrefix(name, "net:[") || strings.Contains(r.Stderr, "Traceback") {
		t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
	return name
}
