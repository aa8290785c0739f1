package guest_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// enterTree builds a file tree with the /usr of another system ($1) and the files of
// this package ($2), and executes a command in it.
const enterTree = `set -e
root=$1 files=$2; shift 2
mount -t tmpfs tree /mnt; cd /mnt
mkdir usr proc dev tmp workspace opt opt/airlock
for name in bin sbin lib lib64; do ln -s usr/$name $name; done
mount --rbind "$root/usr" usr; mount --rbind /proc proc; mount --rbind "$files" opt/airlock
for name in null urandom; do : > dev/$name; mount --bind /dev/$name dev/$name; done
cp opt/airlock/main.py workspace
PATH=$PATH:/usr/sbin exec chroot . "$@"`

// program prints what it can see of what runs it.
const program = `import sys, traceback
print(1, sys.argv, sys.path[0], __name__, __file__, sorted(globals()))
traceback.print_stack(file=sys.stdout)
frame, depth = sys._getframe(), 0
while frame:
    frame, depth = frame.f_back, depth + 1
print(depth, sys._current_frames()[__import__("_thread").get_ident()].f_code.co_name)

class Child(dict):
    def __init__(self):
        super().__init__(module=type(self).__module__, names=sorted(locals()))

def fails():
    try:
        sys._getframe(2)
    except ValueError as error:
        print(error)
    import warnings
    warnings.warn("seen", stacklevel=2)
    raise LookupError(Child(), eval("depth"), list(map(lambda n: n * n, range(3))))

try:
    fails()
except LookupError:
    traceback.print_exc(file=sys.stdout)
import atexit
atexit.register(print, "at the end")
fails()
`

// pythonRoot returns the system of a name: this one, or one of which make test has
// fetched the CPython.
func pythonRoot(t *testing.T, name string) string {
	t.Helper()
	if name == "host" {
		return "/"
	}
	root := filepath.Join(os.Getenv("AIRLOCK_TEST_PYTHONS"), name)
	if _, err := os.Stat(filepath.Join(root, "usr/bin/python3")); err != nil {
		t.Skip("make test fetches this CPython into the folder AIRLOCK_TEST_PYTHONS:", err)
	}
	return root
}

// TestZygoteOfEachPython runs a program with each CPython twice: as the interpreter
// does, and in a sandbox that a zygote forked. The zygote changes internals of CPython
// that differ between versions, and the program must not notice.
func TestZygoteOfEachPython(t *testing.T) {
	for _, name := range []string{"host", "bookworm", "trixie", "sid"} { // the latter: CPython 3.11, 3.13, 3.14
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := pythonRoot(t, name)
			files := supportFiles(t)
			cold := inTree(root, files, "/usr/bin/python3", "/workspace/main.py")
			var stdout, stderr strings.Builder
			cold.Stdout, cold.Stderr = &stdout, &stderr
			if err := cold.Run(); cold.ProcessState.ExitCode() != 1 {
				t.Fatalf("the interpreter itself: %v\n%s%s", err, stdout.String(), stderr.String())
			}
			z := startZygote(t, root, files)
			for range 2 { // the second sandbox comes from machine code
				out, errs, code := z.run(t, program)
				if out != stdout.String() || errs != stderr.String() || code != 1 {
					t.Errorf("warm: exit code %d\n%s%s\ncold: 1\n%s%s", code, out, errs, stdout.String(), stderr.String())
				}
			}
			const numbers = "import random\nprint(random.random())"
			first, errs, _ := z.run(t, numbers)
			if second, _, _ := z.run(t, numbers); first == second || first == "" {
				t.Errorf("two programs have the same random numbers: %q, %q, %s", first, second, errs)
			}
		})
	}
}

// supportFiles writes the files that a zygote needs into a folder.
func supportFiles(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, guest.Files()); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"main.py": []byte(program), "init": spawn.InitProgram()} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o755); err != nil { //nolint:gosec // a command
			t.Fatal(err)
		}
	}
	return folder
}

func inTree(root, files string, command ...string) *exec.Cmd {
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-Urm"
	}
	c := exec.Command("unshare", append([]string{flags, "sh", "-c", enterTree, "sh", root, files}, command...)...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "LANG=C.UTF-8"}
	return c
}

// A zygote runs in a tree, without the confinement that the executor adds.
type zygote struct {
	socket int
	stderr strings.Builder
}

func startZygote(t *testing.T, root, files string) *zygote {
	t.Helper()
	ours, theirs := socketPair(t)
	z := &zygote{socket: ours}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	command := inTree(root, files, "/usr/bin/python3", guest.ZygotePath)
	command.Stdin, command.Stdout, command.Stderr, command.ExtraFiles = null, null, &z.stderr, []*os.File{theirs}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		unix.Close(ours)
		<-ended
	})
	hello := guest.Hello{
		Clone: unix.SYS_CLONE, Flags: unix.CLONE_NEWPID | unix.CLONE_PIDFD | int(unix.SIGCHLD), Finish: unix.SYS_EXIT_GROUP,
		Rseq: unix.SYS_RSEQ, Madvise: unix.SYS_MADVISE, Getrandom: unix.SYS_GETRANDOM, Sigaction: unix.SYS_RT_SIGACTION,
		Preload: []string{"json", "random", "traceback", "warnings", "multiprocessing"},
		Env:     []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}, Spawn: hex.EncodeToString(spawn.Code()),
	}
	if hello.Spawn != "" {
		hello.Flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	message, err := json.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	confine, _ := (&spawn.Request{}).Encode()
	for _, part := range [][]byte{message, confine} {
		if _, err := unix.Write(ours, part); err != nil {
			t.Fatal(err)
		}
	}
	answer := make([]byte, 1<<16)
	n, err := unix.Read(ours, answer)
	if n <= 0 {
		<-ended
		ended <- nil
		t.Fatalf("the zygote ended while it got ready (%v):\n%s", err, z.stderr.String())
	}
	var ready guest.Ready
	if err := json.Unmarshal(answer[:n], &ready); err != nil || len(ready.LeftOut) > 0 || ready.Threads != 1 {
		t.Fatalf("ready: %s, %v", answer[:n], err)
	}
	return z
}

// run has the zygote fork a sandbox and runs a program in it.
func (z *zygote) run(t *testing.T, source string) (stdout, stderr string, code int) {
	t.Helper()
	control, theirs := socketPair(t)
	defer unix.Close(control)
	reports, report := pipe(t)
	received := new(int32)
	const lastFile = 1<<32 - 1
	init := []spawn.Step{spawn.Call("close", unix.SYS_CLOSE_RANGE, 0, spawn.ReportFile-1, 0)}
	if len(spawn.InitProgram()) > 0 {
		init = append(init, spawn.Call("init", unix.SYS_EXECVE, guest.Folder+"/init", spawn.InitArgv, spawn.InitArgv+8))
	}
	request, files := (&spawn.Request{
		Setup: []spawn.Step{
			spawn.Call("report", unix.SYS_DUP3, report, spawn.ReportFile, 0),
			spawn.Call("control", unix.SYS_DUP3, theirs, spawn.ControlFile, 0),
			spawn.Call("SIGCHLD", unix.SYS_RT_SIGACTION, int(unix.SIGCHLD), make([]byte, 32), 0, 8),
		},
		Init: init,
		Main: []spawn.Step{
			spawn.Call("signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, make([]byte, 8), 0, 8),
			spawn.Call("close", unix.SYS_CLOSE_RANGE, spawn.ControlFile+1, lastFile, 0),
			spawn.Call("workspace", unix.SYS_CHDIR, "/workspace"),
		},
		Wait: []spawn.Step{
			spawn.Call("ready", unix.SYS_SENDMSG, spawn.ControlFile, spawn.ReadyBare, 0),
			spawn.Call("close", unix.SYS_CLOSE_RANGE, 0, guest.CallsFD, 0),
			{Name: "receive", Nr: unix.SYS_RECVMSG, Given: []any{spawn.ControlFile, spawn.Receive, 0}, Result: received},
		},
		Received: received,
	}).Encode()
	send(t, z.socket, request, files...)
	answer, rights := make([]byte, 4), make([]byte, unix.CmsgSpace(4))
	if n, _, _, _, err := unix.Recvmsg(z.socket, answer, rights, 0); n != 4 || err != nil {
		t.Fatalf("the zygote died in a fork: %v\n%s", err, z.stderr.String())
	}
	if pid := int32(binary.NativeEndian.Uint32(answer)); pid <= 0 {
		t.Fatalf("the zygote cannot fork: %v", unix.Errno(-pid))
	}
	theirs.Close()
	report.Close()
	if n, err := unix.Read(control, make([]byte, 16)); n <= 0 {
		t.Fatalf("the sandbox ended before it had a program: %v\n%s", err, z.stderr.String())
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, outEnd := pipe(t)
	errs, errsEnd := pipe(t)
	send(t, control, append(make([]byte, 4), source...), null, outEnd, errsEnd)
	outEnd.Close()
	errsEnd.Close()
	written, _ := io.ReadAll(out)
	said, _ := io.ReadAll(errs)
	for {
		r, ok := spawn.ReadReport(reports)
		if !ok {
			t.Fatalf("no report of the program's end\n%s%s", said, z.stderr.String())
		}
		if r.Kind == spawn.Exited {
			return string(written), string(said), unix.WaitStatus(r.Value).ExitStatus()
		}
	}
}

func send(t *testing.T, socket int, message []byte, files ...*os.File) {
	t.Helper()
	var numbers []int
	for _, f := range files {
		numbers = append(numbers, int(f.Fd()))
	}
	if err := unix.Sendmsg(socket, message, unix.UnixRights(numbers...), nil, 0); err != nil {
		t.Fatal(err)
	}
}

func socketPair(t *testing.T) (int, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "socket")
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}
