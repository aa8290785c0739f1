package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// world is the bait on this host. A program without a sandbox would take it, and the
// suite checks it afterwards.
type world struct {
	secret string // in files, sockets, memory, environment and an earlier run
	folder string // readable by all users
	file   string

	tcp, unix, abstract net.Listener
	udp                 net.PacketConn
	out                 string // an address of this host that is not loopback, if it has one
	shm                 int    // System V segment
	shmKey              int
	posix               string // file in /dev/shm
	victim              *exec.Cmd
	priority            int
	leaked              int // a file that is open across execve

	reached atomic.Int64 // connections and packets
	lock    sync.Mutex
	how     []string
	serving sync.WaitGroup

	compile sync.Once
	binary  []byte
	failed  error
}

// secretPrefix is the search pattern of programs; they cannot know the rest.
const secretPrefix = "airlock-canary-"

// secretName is the environment variable of this process that holds the secret.
const secretName = "AIRLOCK_HOSTILE_SECRET"

// newWorld creates the bait and removes it when the test ends.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{secret: secretPrefix + engine.NewID().String()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.folder, err = os.MkdirTemp("", "airlock-hostile-")
	must(err)
	t.Cleanup(func() { os.RemoveAll(w.folder) })
	must(os.Chmod(w.folder, 0o755))
	w.file = filepath.Join(w.folder, "secret")
	must(os.WriteFile(w.file, []byte(w.secret), 0o666))
	must(os.Chmod(w.file, 0o666))
	w.posix = "/dev/shm/" + filepath.Base(w.folder)
	must(os.WriteFile(w.posix, []byte(w.secret), 0o666))
	t.Cleanup(func() { os.Remove(w.posix) })
	must(os.Setenv(secretName, w.secret)) // not t.Setenv: the programs run in parallel
	t.Cleanup(func() { os.Unsetenv(secretName) })
	// Opened without O_CLOEXEC, as a parent may have passed it down.
	w.leaked, err = unix.Open(w.file, unix.O_RDONLY, 0)
	must(err)
	t.Cleanup(func() { unix.Close(w.leaked) })
	w.listen(t)
	w.share(t)
	w.victim = exec.Command("sleep", "600")
	must(w.victim.Start())
	t.Cleanup(func() {
		_ = w.victim.Process.Kill()
		_ = w.victim.Wait()
	})
	w.priority, err = unix.Getpriority(unix.PRIO_PROCESS, w.victim.Process.Pid)
	must(err)
	return w
}

// listen serves the secret on every kind of address.
func (w *world) listen(t *testing.T) {
	t.Helper()
	var err error
	for _, l := range []struct {
		listener      *net.Listener
		kind, address string
	}{
		{&w.tcp, "tcp", "127.0.0.1:0"}, {&w.unix, "unix", filepath.Join(w.folder, "socket")},
		{&w.abstract, "unix", "@" + filepath.Base(w.folder)},
	} {
		if *l.listener, err = net.Listen(l.kind, l.address); err != nil {
			t.Fatal(err)
		}
		listener := *l.listener
		w.serving.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				w.note("a connection to " + listener.Addr().String())
				_, _ = conn.Write([]byte(w.secret))
				conn.Close()
			}
		})
	}
	if err := os.Chmod(filepath.Join(w.folder, "socket"), 0o777); err != nil {
		t.Fatal(err)
	}
	if w.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	w.serving.Go(func() {
		var packet [1500]byte
		for {
			_, from, err := w.udp.ReadFrom(packet[:])
			if err != nil {
				return
			}
			w.note("a packet")
			_, _ = w.udp.WriteTo([]byte(w.secret), from)
		}
	})
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{w.tcp, w.unix, w.abstract, w.udp} {
			c.Close()
		}
		w.serving.Wait()
	})
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			w.out = ip.IP.String()
		}
	}
}

// share stores the secret in a segment of System V memory.
func (w *world) share(t *testing.T) {
	t.Helper()
	w.shmKey = 0x41000000 | os.Getpid()
	id, err := unix.SysvShmGet(w.shmKey, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	w.shm = id
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, w.secret)
	if err := unix.SysvShmDetach(memory); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
}

func (w *world) note(what string) {
	w.reached.Add(1)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.how = append(w.how, what)
}

// targets returns environment variables that tell a program where the bait is.
func (w *world) targets(nonce string) map[string]string {
	_, tcp, _ := net.SplitHostPort(w.tcp.Addr().String())
	_, udp, _ := net.SplitHostPort(w.udp.LocalAddr().String())
	return map[string]string{
		"H_NONCE": nonce, "H_TCP": tcp, "H_UDP": udp, "H_ADDRESS": w.out, "H_UNIX": w.unix.Addr().String(),
		"H_ABSTRACT": filepath.Base(w.folder), "H_FILE": w.file, "H_SHM": w.posix, "H_KEY": fmt.Sprint(w.shmKey),
		"H_PID": fmt.Sprint(w.victim.Process.Pid), "H_UID": fmt.Sprint(os.Getuid()),
	}
}

// touched returns which bait was taken or changed.
func (w *world) touched() (marks []string) {
	if w.reached.Load() > 0 {
		w.lock.Lock()
		marks = append(marks, fmt.Sprintf("the network was reached: %v", w.how))
		w.lock.Unlock()
	}
	for _, file := range []string{w.file, w.posix} {
		if b, err := os.ReadFile(file); err != nil || string(b) != w.secret {
			marks = append(marks, fmt.Sprintf("%s was changed (%v)", file, err))
		}
	}
	entries, err := os.ReadDir(w.folder)
	if err != nil || len(entries) != 2 {
		marks = append(marks, fmt.Sprintf("%s holds %v (%v)", w.folder, entries, err))
	}
	memory, err := unix.SysvShmAttach(w.shm, 0, unix.SHM_RDONLY)
	if err != nil || !bytes.HasPrefix(memory, []byte(w.secret)) {
		marks = append(marks, fmt.Sprintf("the shared memory was changed (%v)", err))
	}
	if err == nil {
		_ = unix.SysvShmDetach(memory)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.victim.Process.Pid))
	if _, state, _ := strings.Cut(string(stat), ") "); err != nil || !strings.Contains("SRD", state[:min(1, len(state))]) {
		marks = append(marks, fmt.Sprintf("the process beside it does not live any more: %s (%v)", stat, err))
	}
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, w.victim.Process.Pid); err != nil || p != w.priority {
		marks = append(marks, fmt.Sprintf("the process beside it has another priority: %d (%v)", p, err))
	}
	return marks
}

// attack returns the executable with all C programs.
func (w *world) attack(t *testing.T) engine.Input {
	t.Helper()
	w.compile.Do(func() { w.binary, w.failed = compile() })
	if errors.Is(w.failed, exec.ErrNotFound) {
		sandboxtest.Skip(t, "needs gcc and libc6-dev: run scripts/test-deps")
	}
	if w.failed != nil {
		t.Fatal(w.failed)
	}
	return sandboxtest.Input(t, "attack", string(w.binary))
}

// compile builds one static executable of all C programs: one translation unit, which
// takes the compiler a second.
func compile() ([]byte, error) {
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "airlock-hostile-c-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	all, err := programs()
	if err != nil {
		return nil, err
	}
	var source, table strings.Builder
	source.WriteString(prelude(".h"))
	for _, p := range all {
		if p.is(".c") {
			fmt.Fprintf(&source, "#line 1 %q\n%s\n", p.label(), p.code)
			fmt.Fprintf(&table, "\tif (!strcmp(argv[1], %q)) { %s(); done(); }\n", p.symbol(), p.symbol())
		}
	}
	fmt.Fprintf(&source, "int main(int argc, char **argv) {\n\tbegin(argc);\n%s\treturn 98;\n}\n", table.String())
	file, binary := filepath.Join(folder, "attack.c"), filepath.Join(folder, "attack")
	if err := os.WriteFile(file, []byte(source.String()), 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-static", "-O1", "-w", "-pthread", "-o", binary,
		file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return os.ReadFile(binary)
}
