package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A program in an image finds the image's files, interpreter and environment, and Airlock's
// own /etc, devices and folders.
func TestImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	code := `import os, sys, pwd
print(sys.version.split()[0][:4], os.environ["IMAGE_OF"], os.environ["HOME"], os.getcwd())
print(pwd.getpwuid(os.getuid()).pw_name[:7], open("/etc/hostname").read().strip())
print([name for name in sorted(os.listdir("/")) if name != "lib64"])
`
	want := "3.13 trixie /workspace /workspace\nsandbox airlock\n" +
		"['bin', 'dev', 'etc', 'home', 'lib', 'mnt', 'opt', 'proc', 'run', 'sbin', 'sys', 'tmp', 'usr', 'var', " +
		"'volumes', 'workspace']\n"
	warm := executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true}
	if os.Geteuid() != 0 { // nothing bounds the memory of the interpreter there
		warm.WarmImages = []string{record.ID}
	}
	for name, s := range map[string]*executor.Sandbox{
		"cold": startWith(t, executor.LaunchOptions{Runtimes: runtimes}), "warm": startWith(t, warm)} {
		for range 3 {
			r := sandboxtest.Run(t, sandboxtest.InImage(s, record), sandboxtest.Python(code))
			if r.Stdout != want || r.Stderr != "" || (r.Start == engine.StartWarm) != (name == "warm") {
				t.Errorf("%s: %s start,\n%s%swant\n%s", name, r.Start, r.Stdout, r.Stderr, want)
			}
		}
	}
}

// TestSuiteInImage runs the parts of the suite that depend on the root.
func TestSuiteInImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			return sandboxtest.InImage(startWarmWith(t, runtimes), record)
		},
		Root: os.Geteuid() == 0, Image: true,
	})
}

// A session in an image has the image's interpreter and IPython's shell.
func TestLiveInImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	c := newCells(t, sandboxtest.InImage(startWarmWith(t, runtimes), record))
	for lang, cells := range map[string][][2]string{
		"python": {{"x = 1", ""}, {"import sys\nprint(x, sys.version[:4])\n%time y = 2", "1 3.13\n"},
			{"!cat /etc/debian_version", "13"}},
		"bash": {{"x=1", ""}, {"echo $x $IMAGE_OF", "1 trixie\n"}},
	} {
		made, err := c.live.Create(t.Context(), c.caller, live.Request{Language: lang})
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range cells {
			got := c.cell(t.Context(), t, made.ID, cell[0], time.Minute)
			if got.Status != live.StatusOK || !strings.HasPrefix(said(got, live.Stdout), cell[1]) {
				t.Errorf("%s, %q: %s, %q %q, want %q", lang, cell[0], got.Status, said(got, live.Stdout),
					said(got, live.Stderr), cell[1])
			}
		}
	}
}

// The files of an image stay while a program runs in it, and go after that. The image is
// unmounted when it has been idle, and what follows its removal is said.
func TestImageInUse(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	s := startWith(t, executor.LaunchOptions{Runtimes: runtimes, Weaken: []string{executor.WeakIdleTime}})
	folder, err := os.Open(filepath.Join(runtimes, "images", record.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	free := func() bool { return unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
	in := sandboxtest.InImage(s, record)
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		host := &started{began: began}
		_, err := in.Run(ctx, sandboxtest.Python("print(1, flush=True)\nimport time\ntime.sleep(60)"), host)
		running <- err
	}()
	<-began
	if free() {
		t.Error("the files of an image may be deleted under a running program")
	}
	cancel()
	if err := <-running; err != nil {
		t.Error(err)
	}
	if !sandboxtest.Await(free) {
		t.Error("the files of an image that is not used any more may not be deleted")
	}
	// The exclusive lock is that of a removal.
	_, err = in.Run(t.Context(), sandboxtest.Python("print(1)"), silent{})
	if !errors.Is(err, engine.ErrNotFound) || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("in an image that is being removed: %v", err)
	}
	record.ID = "sha256-unknown"
	if _, err = in.Run(t.Context(), sandboxtest.Python("print(1)"), silent{}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("in an image that is not there: %v", err)
	}
	for _, id := range []string{"../../etc", "sha256-/../..", ".", "names"} {
		record.ID = id
		if _, err = in.Run(t.Context(), sandboxtest.Python("print(1)"), silent{}); err == nil {
			t.Errorf("an image called %q: no error", id)
		}
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
		t.Errorf("after them in the machine's own environment: %q", r.Stdout)
	}
}

// started is a host that tells that a program has written.
type started struct {
	silent
	began chan struct{}
	once  sync.Once
}

func (h *started) Output(engine.Stream, []byte) { h.once.Do(func() { close(h.began) }) }

// A hostile image harms nothing: links of it lead nowhere else, and it has no part of Airlock's.
func TestHostileImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	rootfs := filepath.Join(runtimes, "images", record.ID, "rootfs")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{"leak", secret}, {"tmp", "/usr"}, {"proc", "/etc"}, {"workspace", "/"},
		{"mnt", "/usr"},
		{"opt", "../../../../.."}, {"home", "/usr"}, {"dev", "/etc"}, {"images", "/images"}, {"up", "/../../.."}} {
		at := filepath.Join(rootfs, link[0])
		if err := errors.Join(os.RemoveAll(at), os.Symlink(link[1], at)); err != nil {
			t.Fatal(err)
		}
	}
	sandbox := sandboxtest.InImage(startWith(t, executor.LaunchOptions{Runtimes: runtimes}), record)
	r := sandboxtest.Run(t, sandbox, sandboxtest.Python(`import os
print(os.path.exists("/leak"), os.path.exists("/images/x"), sorted(os.listdir("/up")) == sorted(os.listdir("/")))
print([os.path.islink(p) for p in ("/tmp", "/proc", "/workspace", "/mnt", "/opt", "/home", "/dev")])
open("/tmp/x", "w"); open("/workspace/x", "w"); open("/dev/null", "w")
for folder in ("/", "/usr", "/etc", "/opt/airlock", "/run", "/home/user"):
    try: open(folder + "/x", "w"); print("wrote", folder)
    except OSError: pass
lines = open("/proc/self/mountinfo").read()
print("`+runtimes+`" in lines)
`))
	const want = "False False True\n[False, False, False, False, False, False, False]\nFalse\n"
	if r.Stdout != want || r.Stderr != "" {
		t.Errorf("%s%swant\n%s", r.Stdout, r.Stderr, want)
	}
}

// TestImageWithoutRoot runs the tests of images as an ordinary user.
func TestImageWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("this is an ordinary user: the other tests are it")
		return
	}
	out, err := asNobody(t, "^(TestImage|TestImageInUse|TestHostileImage)$", func(command *exec.Cmd) {
		command.Env = append(command.Env, "AIRLOCK_TEST_PYTHONS="+os.Getenv("AIRLOCK_TEST_PYTHONS"))
	})
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
