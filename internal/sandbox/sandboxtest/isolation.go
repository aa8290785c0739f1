package sandboxtest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// isolation tests that a program can see and reach only its own resources.
func isolation(t *testing.T, b *bench) {
	t.Run("privileges", func(t *testing.T) {
		r := b.run(t, Python(`import os
status = dict(l.rstrip('\n').split(':\t', 1) for l in open('/proc/self/status') if ':\t' in l)
print(os.getuid() != 0, os.getgid() != 0, status['CapEff'], status['CapPrm'], status['CapBnd'], status['CapAmb'], status['NoNewPrivs'], status['Seccomp'])`))
		const none = "0000000000000000"
		filter := 2
		if b.backend.Kernel { // the filter is around that kernel
			filter = 0
		}
		wantOutput(t, r, fmt.Sprintf("True True %s %s %s %s 1 %d\n", none, none, none, none, filter))
	})
	if b.backend.Root && !b.backend.Kernel { // each kernel of its own knows one user, the machine another one each time
		t.Run("users differ", func(t *testing.T) {
			id := func() string { return b.run(t, Python("import os, time; print(os.getuid())")).Stdout }
			if one, two := id(), id(); one == two {
				t.Errorf("two sandboxes in a row ran as user %s", strings.TrimSpace(one))
			}
		})
	}
	if b.backend.Root {
		t.Run("groups", func(t *testing.T) {
			wantOutput(t, b.run(t, Python("import os; print(os.getgroups())")), "[]\n")
		})
	}
	if !b.backend.Image {
		t.Run("files", func(t *testing.T) { isolationFiles(t, b) })
	}
	t.Run("nothing can be written elsewhere", func(t *testing.T) {
		own := "'/proc/self/oom_score_adj'"
		if b.backend.Kernel { // of which the machine's knows nothing
			own = ""
		}
		wantOutput(t, b.run(t, Python(`import os
for folder in ('/', '/usr', '/usr/bin', '/usr/local', '/etc', '/dev', '/opt', '/opt/airlock', '/var', '/run', '/mnt', '/proc', '/proc/sys/kernel'):
    try: open(folder + '/x', 'w'); print('wrote', folder)
    except OSError: pass
for file in ('/etc/passwd', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', `+own+`):
    try: open(file, 'rb+', 0).write(b'-1000'); print('wrote', file)
    except OSError: pass
for folder in ('/workspace', '/mnt/data', '/tmp', '/dev/shm', '/var/tmp'): open(folder + '/x', 'w')
`)), "")
	})
	t.Run("other processes", func(t *testing.T) {
		if b.backend.Kernel {
			wantOutput(t, b.run(t, Python("import os; print([p for p in os.listdir('/proc') if p.isdigit()], os.getpid())")),
				"['1'] 1\n")
			return
		}
		wantOutput(t, b.run(t, Python(`import os, signal
print([p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())], os.getpid())
os.kill(1, signal.SIGKILL)
for what in (lambda: os.listdir('/proc/1/fd'), lambda: open('/proc/1/mem'), lambda: os.readlink('/proc/1/exe'), lambda: open('/proc/1/environ').read()):
    try: print('saw', what())
    except OSError: pass
`)), "[] 2\n")
	})
	t.Run("open files", func(t *testing.T) {
		// 3 is the listing itself
		wantOutput(t, b.run(t, Python("import os; print(os.listdir('/proc/self/fd'))")), "['0', '1', '2', '3']\n")
	})
	t.Run("kernel doors", func(t *testing.T) {
		if b.backend.Kernel { // it has doors of its own, which lead nowhere else
			return
		}
		wantOutput(t, b.run(t, Python(`import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, args in dict(mount=(b'x', b'/tmp', b'tmpfs', 0, 0), unshare=(0x10000000,), ptrace=(0, 0, 0, 0), setns=(0, 0), chroot=(b'/tmp',),
                       umount2=(b'/tmp', 2), sethostname=(b'x', 1), swapon=(b'x', 0), reboot=(0,), personality=(0x40000,)).items():
    if getattr(libc, name)(*args) == 0: print('could', name)
for nr in (321, 425, 248, 250, 101, 310, 323, 272, 435): # bpf, io_uring, keys, ptrace, process_vm_readv, userfaultfd, unshare, clone3
    if libc.syscall(nr, 0, 0, 0, 0, 0) != -1: print('could', nr)
for family in (16, 17, 38, 40, 33, 15, 31): # netlink, packet, alg, vsock, rxrpc, key, bluetooth
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind); print('socket', family, kind)
        except OSError: pass
`)), "")
	})
	t.Run("network", func(t *testing.T) { isolationNetwork(t, b) })
	t.Run("nothing of the run before", func(t *testing.T) {
		wantOK(t, b.run(t, Python(`import os, ctypes
for f in ('/tmp/x', '/dev/shm/x', '/workspace/x'): open(f, 'w').write('left')
libc = ctypes.CDLL(None); print(libc.shmget(1234, 4096, 0o1666))`)))
		wantOutput(t, b.run(t, Python(`import os, ctypes
print(os.listdir('/dev/shm'), [f for f in os.listdir('/tmp') if f != 'matplotlib'], sorted(os.listdir('.')), ctypes.CDLL(None).shmget(1234, 4096, 0))`)),
			"[] [] ['main.py'] -1\n")
	})
}

// isolationNetwork listens on this host in every way that a program might reach. It
// checks that the listeners answer on the host, and not in the sandbox.
func isolationNetwork(t *testing.T, b *bench) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@airlock-suite")
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	for _, l := range []net.Listener{tcp, abstract} {
		conn, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatalf("the listener does not answer even here: %v", err)
		}
		conn.Close()
	}
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	wantOutput(t, b.run(t, Python(fmt.Sprintf(`import socket
def tries(what, f):
    try: f(); print('reached', what)
    except OSError: pass
for address in ('127.0.0.1', '10.0.0.1', '169.254.169.254', '192.0.2.1'):
    tries(address, lambda: socket.create_connection((address, %s), timeout=1))
tries('v6', lambda: socket.create_connection(('2001:db8::1', 80), timeout=1))
tries('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.53', 53)))
tries('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0airlock-suite'))
tries('names', lambda: socket.getaddrinfo('example.org', 80))
print(sorted(l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]))
`, port))), "['lo']\n")
}

// isolationFiles tests that of the machine's files only those of its programs are in sight.
func isolationFiles(t *testing.T, b *bench) {
	r := b.run(t, Python(
		"import os; print(*sorted(os.listdir('/'))); print(*[os.path.exists(p) for p in ('/home','/root','/var/lib','/sys','/boot','/srv','/etc/shadow','/etc/machine-id','/etc/resolv.conf','/run/user','/proc/1/root')])"))
	wantOK(t, r)
	out := lines(r.Stdout)
	if b.backend.Kernel { // its own /sys, and pid 1 is the program
		out[0] = strings.Replace(out[0], " sys ", " ", 1)
		out[1] = strings.Replace(strings.TrimSuffix(out[1], "True")+"False", "False False False True", "False False False False", 1)
	}
	for _, name := range strings.Fields(out[0]) {
		if !strings.Contains(" bin dev etc lib lib32 lib64 libx32 mnt opt proc run sbin tmp usr var volumes workspace ",
			" "+name+" ") {
			t.Errorf("/%s is in sight", name)
		}
	}
	if strings.Contains(out[1], "True") {
		t.Errorf("something of the host is in sight: %s", out[1])
	}
}
