package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/volume"
)

// volumesIn returns a folder with volumes that belong to a user that is not root, and their ids.
func volumesIn(t *testing.T, count int) (folder string, ids []engine.ID) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "volumes")
	store, err := volume.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for range count {
		id := engine.NewID()
		if err := store.Create(id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if os.Geteuid() == 0 {
		if err := exec.CommandContext(t.Context(), "chown", "-R", "4321:4321", folder).Run(); err != nil {
			t.Fatal(err)
		}
	}
	return folder, ids
}

// What a program leaves in a volume the next one finds and may change, whatever their users are, and
// none finds more than the volumes that it asks for.
func TestVolumes(t *testing.T) {
	folder, ids := volumesIn(t, 2)
	s := startWith(t, executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), Volumes: folder, WarmFirst: true})
	run := func(code string, places ...engine.VolumePlace) sandboxtest.Result {
		t.Helper()
		spec := sandboxtest.Python("import os\n" + code)
		spec.Volumes = places
		return sandboxtest.Run(t, s, spec)
	}
	check := func(r sandboxtest.Result, want string) {
		t.Helper()
		if r.Stdout != want || r.Stderr != "" {
			t.Errorf("got %s%s, want %s", r.Stdout, r.Stderr, want)
		}
	}
	written := engine.VolumePlace{ID: ids[0], Path: "/volumes/data"}
	read := engine.VolumePlace{ID: ids[0], Path: "/mnt/it", ReadOnly: true}
	other := engine.VolumePlace{ID: ids[1], Path: "/volumes/other"}

	check(run(`os.chdir("/volumes/data")
for name in ("a", "tool"): open(name, "w").write("#!/bin/sh\necho run")
os.chmod("tool", 0o6755)
os.mkfifo("fifo"); os.symlink("/etc/passwd", "link"); os.symlink("../..", "up")
os.mkdir("shut"); open("shut/b", "w").write("b"); os.chmod("shut", 0)
try: os.mknod("device", 0o020666, os.makedev(1, 3)); print("made a device")
except OSError: pass
for place in ("/volumes", "/mnt"):
    try: os.mkdir(place + "/new"); print("made a folder in", place)
    except OSError: pass
print(sorted(os.listdir("/volumes")), sorted(os.listdir("/mnt")))`, written), "['data'] ['data']\n")
	for range 2 { // each has another user
		check(run(`os.chdir("/volumes/data")
own = os.getuid()
print({os.lstat(name).st_uid == own for name in os.listdir(".")}, sorted(os.listdir("/volumes")))
os.chmod("shut", 0o755); open("shut/b", "a").write("b"); os.chmod("shut", 0)
options = [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == "/volumes/data"]
print([o for o in ("rw", "nosuid", "nodev") if o not in options[0].split(",")], os.popen("./tool").read().strip())`,
			written, other), "{True} ['data', 'other']\n[] run\n")
	}
	check(run(`os.chdir("/mnt/it")
print(open("a").read()[:2], sorted(os.listdir("/mnt")))
for do in (lambda: open("new", "w"), lambda: os.remove("a"), lambda: os.chmod("a", 0o777), lambda: os.mkdir("x")):
    try: do(); print("changed")
    except OSError as error: print(error.errno)`, read), "#! ['data', 'it']\n"+strings.Repeat("30\n", 4))
	check(run(`print(os.listdir("/volumes"), os.listdir("/mnt"))`), "[] ['data']\n")
	check(run(`os.chmod("/volumes/data/shut", 0o755)`, written), "") // the test removes it

	// A service that was taken over may name anything, and its folders may be links.
	linked := engine.NewID()
	at := filepath.Join(folder, linked.String())
	if err := errors.Join(os.Mkdir(at, 0o755), os.Symlink("/", filepath.Join(at, "files")),
		os.WriteFile(filepath.Join(at, "lock"), nil, 0o644)); err != nil { //nolint:gosec // of any user
		t.Fatal(err)
	}
	for _, place := range []engine.VolumePlace{
		{ID: linked, Path: "/volumes/x"}, {ID: engine.NewID(), Path: "/volumes/x"}, {ID: ids[0], Path: "/etc"},
		{ID: ids[0], Path: "/volumes/../etc"}, {ID: ids[0], Path: "/mnt/data"}, {ID: ids[0], Path: "/volumes"},
	} {
		spec := sandboxtest.Python("print(1)")
		spec.Volumes = []engine.VolumePlace{place}
		if _, err := s.Run(t.Context(), spec, silent{}); err == nil {
			t.Errorf("a program has a volume at %s", place.Path)
		}
	}
}

// One program writes to a volume, or several read it, whatever their service says.
func TestVolumesAreLocked(t *testing.T) {
	folder, ids := volumesIn(t, 1)
	coldly := executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), Volumes: folder}
	first, second := startWith(t, coldly), startWith(t, coldly)
	for _, test := range []struct{ has, asks, conflict bool }{ // to write
		{false, false, false}, {false, true, true}, {true, false, true}, {true, true, true},
	} {
		spec := func(writes bool, code string) *engine.Spec {
			spec := sandboxtest.Python(code)
			spec.Volumes = []engine.VolumePlace{{ID: ids[0], Path: "/volumes/data", ReadOnly: !writes}}
			return spec
		}
		begun, ended := make(chan struct{}), make(chan error, 1)
		holder := spec(test.has, "print(input(), flush=True); import time; time.sleep(600)")
		holder.Stdin = []byte("begun\n")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := first.Run(ctx, holder, &notices{begun: begun})
			ended <- err
		}()
		select {
		case <-begun:
		case err := <-ended:
			t.Fatal(err)
		}
		_, err := second.Run(t.Context(), spec(test.asks, "print(1)"), silent{})
		if errors.Is(err, engine.ErrConflict) != test.conflict || err != nil && !test.conflict {
			t.Errorf("%+v: %v", test, err)
		}
		cancel()
		<-ended
		if _, err := second.Run(t.Context(), spec(true, "print(1)"), silent{}); err != nil {
			t.Errorf("after the end of the other: %v", err)
		}
	}
}

// notices tells that the program has written something.
type notices struct {
	silent
	begun chan struct{}
}

func (n *notices) Output(engine.Stream, []byte) {
	select {
	case <-n.begun:
	default:
		close(n.begun)
	}
}

// A program with a volume cannot reserve the disk, nor use the calls of its file system.
func TestVolumeRules(t *testing.T) {
	const code = `import ctypes, fcntl, os, errno
file = os.open("/volumes/data/file", os.O_RDWR | os.O_CREAT)
libc = ctypes.CDLL(None, use_errno=True)
long = ctypes.c_long
done = libc.fallocate(file, 0, long(0), long(1 << 20)) == 0
print(done or errno.errorcode[ctypes.get_errno()])
os.posix_fallocate(file, 0, 1 << 16)
print(os.stat(file).st_size >= 1 << 16)
try: print(len(fcntl.ioctl(file, 0x80086601, b"12345678")))
except OSError as error: print(errno.errorcode[error.errno])
print(fcntl.ioctl(file, 0x5451))
`
	for weak, want := range map[bool]string{false: "ENOTSUP\nTrue\nENOTTY\n0\n", true: "True\nTrue\n8\n0\n"} {
		folder, ids := volumesIn(t, 1)
		options := executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), Volumes: folder}
		if weak {
			options.Weaken = []string{weakAllocation}
		}
		spec := sandboxtest.Python(code)
		spec.Volumes = []engine.VolumePlace{{ID: ids[0], Path: "/volumes/data"}}
		if r := sandboxtest.Run(t, startWith(t, options), spec); r.Stdout != want || r.Stderr != "" {
			t.Errorf("weak %v: got %s%s, want %s", weak, r.Stdout, r.Stderr, want)
		}
	}
}

// TestVolumesWithoutRoot runs the tests of volumes as an ordinary user.
func TestVolumesWithoutRoot(t *testing.T) {
	withoutRoot(t, "^(TestVolumes|TestVolumesAreLocked|TestVolumeRules)$")
}
