package linux

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A program sees the folders of the host that it asks for and no others, and can change nothing there,
// however its sandbox came to be.
func TestMounts(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"a/one.txt": "one", "b/two.txt": "two", "secret": "secret"} {
		at := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"up", "root"} {
		target := map[string]string{"up": "../secret", "root": filepath.Join(folder, "secret")}[link]
		if err := os.Symlink(target, filepath.Join(folder, "a", link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.CommandContext(t.Context(), "chmod", "755", folder, filepath.Dir(folder)).Run(); err != nil {
		t.Fatal(err)
	}
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	const code = `import os
print(open("/mnt/a/one.txt").read(), os.listdir("/mnt/b"))
for name in ("up", "root"): print(os.path.exists("/mnt/a/" + name))
for do in (lambda: open("/mnt/a/new", "w"), lambda: os.remove("/mnt/a/one.txt"),
           lambda: os.chmod("/mnt/a/one.txt", 0o777), lambda: os.mkdir("/mnt/x"),
           lambda: os.rename("/mnt/a/one.txt", "/mnt/a/two")):
    try: do(); print("changed")
    except OSError as error: print(error.errno)
`
	want := "one []\nFalse\nFalse\n" + strings.Repeat("30\n", 5)
	options := executor.LaunchOptions{Runtimes: runtimes, Mounts: executor.Folders{
		"a": {Path: folder + "/a"}, "b": {Path: folder + "/b"}, "gone": {Path: folder + "/gone"}}}
	warm := options
	warm.WarmFirst = true
	coldly, warmly := startWith(t, options), startWith(t, warm)
	for name, s := range map[string]engine.Sandbox{"cold": coldly, "warm": warmly,
		"cold in an image": sandboxtest.InImage(coldly, record), "in an image": sandboxtest.InImage(warmly, record)} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				spec := sandboxtest.Python(code)
				spec.Mounts = []string{"a"}
				r := sandboxtest.Run(t, s, spec)
				if r.Stdout != want || r.Stderr != "" || (r.Start == engine.StartWarm) != (s == warmly || name == "in an image") &&
					os.Geteuid() == 0 {
					t.Errorf("%s start\n%s%swant\n%s", r.Start, r.Stdout, r.Stderr, want)
				}
			}
			r := sandboxtest.Run(t, s, sandboxtest.Python("import os\nprint(os.listdir('/mnt/a'))"))
			if r.Stdout != "[]\n" {
				t.Errorf("a program that does not ask for it sees %s", r.Stdout)
			}
			// A service that was taken over may name what is no folder of the host.
			for _, name := range []string{"gone", "../images", "..", ".", "a/../../images", "/images", ""} {
				spec := sandboxtest.Python("print(1)")
				spec.Mounts = []string{name}
				_, err := s.Run(t.Context(), spec, silent{})
				if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "was not there") {
					t.Errorf("a folder that is not there, %q: %v", name, err)
				}
			}
		})
	}
}

// TestMountsWithoutRoot runs the test of mounts as an ordinary user.
func TestMountsWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("this is an ordinary user: the other test is it")
		return
	}
	out, err := asNobody(t, "^(TestMounts|TestSocketsInMounts|TestWritableMounts)$", func(command *exec.Cmd) {
		command.Env = append(command.Env, "AIRLOCK_TEST_PYTHONS="+os.Getenv("AIRLOCK_TEST_PYTHONS"))
	})
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A program reaches no process of the host by a socket or a pipe in a mount, wherever it started.
func TestSocketsInMounts(t *testing.T) {
	folder := t.TempDir()
	if err := exec.CommandContext(t.Context(), "chmod", "755", folder, filepath.Dir(folder)).Run(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(folder, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := errors.Join(unix.Mkfifo(folder+"/f", 0), os.Chmod(at, 0o777), os.Chmod(folder+"/f", 0o666)); err != nil {
		t.Fatal(err)
	}
	const code = `import os, socket
def reach():
    with socket.socket(socket.AF_UNIX) as s: s.connect("/mnt/a/s")
for do in (reach, lambda: os.open("/mnt/a/f", os.O_RDWR | os.O_NONBLOCK)):
    try: do(); print("reached")
    except OSError as error: print(error.errno)
socket.socketpair()
`
	for weak, want := range map[bool]string{false: "13\n13\n", true: "reached\n13\n"} {
		for _, warm := range []bool{false, true} {
			options := executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), WarmFirst: warm,
				Mounts: executor.Folders{"a": {Path: folder}}}
			if weak {
				options.Weaken = []string{weakSockets}
			}
			spec := sandboxtest.Python(code)
			spec.Mounts = []string{"a"}
			if r := sandboxtest.Run(t, startWith(t, options), spec); r.Stdout != want || r.Stderr != "" {
				t.Errorf("weak %v, %s start: got %s%s, want %s", weak, r.Start, r.Stdout, r.Stderr, want)
			}
		}
	}
}

// What a program writes to a mount belongs to the owner of the folder, also as its next program finds it, and is
// nothing that could harm who else finds it there.
func TestWritableMounts(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(folder+"/out/old", 0o755); err != nil { //nolint:gosec // others list it
		t.Fatal(err)
	}
	owned := "chmod 755 . .. && mkfifo out/pipe && echo mine >out/foreign && chmod 644 out/foreign"
	if os.Geteuid() == 0 {
		owned += " && chown -R 4321:4322 out && chown 4444:4444 out/foreign"
	}
	prepare := exec.CommandContext(t.Context(), "sh", "-c", owned)
	prepare.Dir = folder
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want unix.Stat_t
	if err := unix.Stat(folder+"/out", &want); err != nil {
		t.Fatal(err)
	}
	options := executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), WarmFirst: true, Mounts: executor.Folders{
		"out": {Path: folder + "/out", Write: true}, "in": {Path: folder + "/out"}}}
	s := startWith(t, options)
	run := func(s engine.Sandbox, asked, code string) string {
		t.Helper()
		spec := sandboxtest.Python("import os, errno, socket, subprocess\nos.umask(0)\ndef tell(*all):\n" +
			"  for do in all:\n    try: print(do())\n    except OSError as e: print(errno.errorcode[e.errno])\n" + code)
		spec.Mounts = []string{asked}
		r := sandboxtest.Run(t, s, spec)
		return r.Stdout + r.Stderr
	}
	const write = `os.chdir("/mnt/out")
for name in ("a", "tool"): open(name, "w").write("#!/bin/sh\necho run")
os.chmod("tool", 0o755); os.chmod("a", 0o600)
os.makedirs("new/below"); os.rename("a", "new/below/a"); os.rename("new/below/a", "a"); os.link("a", "b")
print(os.stat("a").st_uid == os.getuid(), os.stat("tool").st_gid == os.getgid())
options = [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == "/mnt/out"][0].split(",")
print([o for o in ("rw", "nosuid", "nodev", "noexec") if o not in options])
tell(lambda: subprocess.run("./tool"), lambda: os.mknod("dev", 0o020666, os.makedev(1, 3)))
`
	const harm = `os.chdir("/mnt/out")
os.symlink("/etc", "/workspace/link"); os.mkfifo("/workspace/fifo")
tell(lambda: os.symlink("/etc/passwd", "link"), lambda: os.mkfifo("fifo"), lambda: os.rename("/workspace/link", "x"))
`
	const modes = `import ctypes
os.chdir("/mnt/out")
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) < 0: raise OSError(ctypes.get_errno(), "")
open("f", "w")
fd = os.open("f", os.O_RDONLY)
tell(lambda: os.chmod("f", 0o4755), lambda: os.fchmod(fd, 0o2755),
     lambda: os.close(os.open("s", os.O_CREAT | os.O_WRONLY, 0o4755)),
     lambda: os.mknod("n", 0o104755), lambda: call(452, -100, b"f", 0o4755, 0),
     lambda: call(437, -100, b"z", (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24))
os.chmod("f", 0o644)
for name in "snz":
    if os.path.exists(name): os.remove(name)
`
	const refused = "EPERM\n"
	if got, want := run(s, "out", write), "True True\n[]\nEACCES\nEPERM\n"; got != want {
		t.Errorf("writing: got %s, want %s", got, want)
	}
	if got, want := run(s, "out", harm), "EACCES\nEACCES\nEXDEV\n"; got != want {
		t.Errorf("links and pipes: got %s, want %s", got, want)
	}
	if got, want := run(s, "out", modes), strings.Repeat(refused, 5)+"ENOSYS\n"; got != want {
		t.Errorf("modes: got %s, want %s", got, want)
	}
	for _, name := range []string{"a", "tool", "new/below", "f"} {
		var st unix.Stat_t
		if err := unix.Lstat(folder+"/out/"+name, &st); err != nil || st.Uid != want.Uid || st.Gid != want.Gid {
			t.Errorf("%s belongs to %d:%d, %v, want %d:%d", name, st.Uid, st.Gid, err, want.Uid, want.Gid)
		}
	}
	if os.Geteuid() == 0 {
		const code = `tell(lambda: open("/mnt/out/foreign").read(), lambda: open("/mnt/out/foreign", "a"),
	lambda: os.chmod("/mnt/out/foreign", 0o666))`
		if got, want := run(s, "out", code), "mine\n\nEACCES\nEOVERFLOW\n"; got != want {
			t.Errorf("a file of another user: got %s, want %s", got, want)
		}
	}
	const read = `tell(*[lambda at=at: open(at + "/a").read()[:2] for at in ("/mnt/out", "/mnt/in") if os.path.exists(at + "/b")])
tell(*[lambda at=at: open(at + "/new/c", "w") for at in ("/mnt/out", "/mnt/in") if os.path.exists(at + "/b")])`
	if got, want := run(s, "out:ro", read), "#!\nEROFS\n"; got != want {
		t.Errorf("read-only: got %s, want %s", got, want)
	}
	unreadable := "EACCES\n"
	if os.Geteuid() != 0 {
		unreadable = "#!\n" // it is the same user
	}
	for _, asked := range []string{"in", "in:ro"} {
		if got, want := run(s, asked, read), unreadable+"EROFS\n"; got != want {
			t.Errorf("the mount for reading, as %s: got %s, want %s", asked, got, want)
		}
	}
	if err := os.Chmod(folder+"/out", 0o500); err != nil { //nolint:gosec // of this test
		t.Fatal(err)
	}
	if got, want := run(s, "out", `tell(lambda: open("/mnt/out/x", "w"))`), "EACCES\n"; got != want {
		t.Errorf("a folder that its owner may not write to: got %s, want %s", got, want)
	}
	if err := os.Chmod(folder+"/out", 0o755); err != nil { //nolint:gosec // of this test
		t.Fatal(err)
	}
	options.Weaken, options.WarmFirst = []string{weakLinks}, false
	if got, want := run(startWith(t, options), "out", harm), "None\nNone\nEXDEV\n"; got != want {
		t.Errorf("links and pipes without the rule: got %s, want %s", got, want)
	}
	options.Weaken = []string{weakModes}
	if got, want := run(startWith(t, options), "out", modes), strings.Repeat("None\n", 6); got != want {
		t.Errorf("modes without the rule: got %s, want %s", got, want)
	}
	other, err := unix.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	bare := &sandbox{wall: &wall{Machine: &executor.Machine{Mounts: options.Mounts}}, Box: &executor.Box{
		Mounts: []*os.File{os.NewFile(uintptr(other), "out")}}}
	if err := bare.mapMounts(); err == nil || !strings.Contains(err.Error(), "no landlock") {
		t.Errorf("without landlock: %v", err)
	}
}
