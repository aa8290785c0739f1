package linux

import (
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// whichNetwork is the beginning of a program: it prints its network namespace.
// What it imports makes all of them programs of one tier.
const whichNetwork = "import asyncio, os, socket\nprint(os.readlink('/proc/self/ns/net'), flush=True)\n"

// usesOfNetworks leave traces of all kinds, some of which nothing in /proc shows
// when the program has ended.
var usesOfNetworks = map[string]string{
	"TCP": `server = socket.create_server(("127.0.0.1", 7777))
client = socket.create_connection(("127.0.0.1", 7777))
accepted, _ = server.accept()
accepted.close(); client.close(); server.close()`,
	"UDP to a closed port":   "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
	"unreachable":            "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))\nexcept OSError: print('unreachable')",
	"IPv6":                   "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::1', 9))",
	"bound and nothing more": "socket.socket().bind(('127.0.0.1', 7777))",
	"a socket in flight": `one, other = socket.socketpair()
name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name.bind("\0name")
socket.send_fds(one, [b"x"], [one.fileno(), other.fileno(), name.fileno()])`,
	"a multicast group left again": `s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1"))`,
	"a pair in a child": "if os.fork() == 0: socket.socketpair(); os._exit(0)\nos.wait()",
	"asyncio":           "asyncio.run(asyncio.sleep(0))",
	"killed":            "s = socket.create_server(('127.0.0.1', 7777))\nos.kill(os.getpid(), 9)",
}

// A network namespace in which nothing has happened serves again, one in which
// anything has does not.
func TestNetworksServeAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it no network namespace is kept")
	}
	whole := startBare(t, true)
	weak := startWeak(t, weakNotices)
	used := map[string]string{} // by namespace
	for name, code := range usesOfNetworks {
		t.Run(name, func(t *testing.T) {
			for _, s := range []*Sandbox{whole, weak} {
				namespace := networkOf(t, s, code)
				again := 0
				for range 3 * mostWaiting {
					if networkOf(t, s, "") == namespace {
						again++
					}
				}
				if (again > 0) != (s == weak) {
					t.Errorf("the notices of sockets left out: %v; it served %d times again", s == weak, again)
				}
				used[namespace] = name
			}
		})
	}
}

func networkOf(t *testing.T, s *Sandbox, code string) string {
	t.Helper()
	r := sandboxtest.Run(t, s, sandboxtest.Python(whichNetwork+code))
	name, _, _ := strings.Cut(r.Stdout, "\n")
	if !strings.HasPrefix(name, "net:[") || strings.Contains(r.Stderr, "Error") {
		t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
	return name
}
