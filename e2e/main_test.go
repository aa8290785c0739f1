package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// binary is the airlock that all tests run, built once.
var binary string

// liveRuntimes are the runtimes of live interpreters alone.
var liveRuntimes string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	// A server that never answers fails its test, not all tests by their time limit.
	http.DefaultTransport.(*http.Transport).ResponseHeaderTimeout = 5 * time.Minute
	dir, err := os.MkdirTemp("", "airlock-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "airlock")
	build := exec.Command("go", "build", "-o", binary, "github.com/airlock-run/airlock/cmd/airlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")         // as it is released
	if made := os.Getenv("AIRLOCK_TEST_BINARY"); made != "" { // where others can reach it
		build = exec.Command("cp", made, binary)
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building airlock:", err)
		return 1
	}
	if made := os.Getenv("AIRLOCK_TEST_BINARY"); made != "" { // tests of that wall say if it is not there
		_ = exec.Command("cp", made+"-gvisor", binary+"-gvisor").Run()
	}
	// Other users execute it too.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if liveRuntimes, err = sandboxtest.LiveRuntimes(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// skip ends a test that lacks something, and says what.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
		t.Fatalf("AIRLOCK_NO_SKIP=1, but "+format, args...)
	}
	t.Skipf(format, args...)
}

// person is somebody who uses airlock on this machine.
type person struct {
	name       string
	credential *syscall.Credential            // nil: who runs the tests
	service    *syscall.Credential            // who owns the data of a service that they start; nil: they
	files      int                            // that each of their processes may have open; 0: as many as we
	start      func(args ...string) *exec.Cmd // their airlock; nil: the one that all tests run
}

const nobody = 65534

// forEachPerson runs a test as everybody that this machine allows, side by side:
// each has services and folders of their own.
func forEachPerson(t *testing.T, test func(t *testing.T, who person)) {
	eachPerson(t, func(t *testing.T, who person) {
		t.Parallel()
		test(t, who)
	})
}

// eachPerson is forEachPerson one after the other, for tests with a second or
// less for something: nobody else starts a service in it.
func eachPerson(t *testing.T, test func(t *testing.T, who person)) {
	t.Run("root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			skip(t, "this needs root")
		}
		test(t, root(t))
	})
	t.Run("user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			test(t, person{name: "user"})
			return
		}
		test(t, person{name: "user", credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	})
}

// root is root, whose service runs as a user of its own.
func root(t *testing.T) person {
	t.Helper()
	found, err := user.Lookup("airlock")
	if err != nil {
		skip(t, "as root this needs the user airlock: run airlock setup")
	}
	uid, _ := strconv.Atoi(found.Uid)
	gid, _ := strconv.Atoi(found.Gid)
	return person{name: "root", service: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// folder makes a directory that belongs to an owner and that can be reached.
func folder(t *testing.T, owner *syscall.Credential) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	give(t, dir, owner)
	return dir
}

// writeProgram writes a program or script that is then started. No other test starts a process meanwhile: that one
// would have the file open for writing until its own exec, and Linux refuses to start such a file (ETXTBSY).
func writeProgram(t *testing.T, name, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// give makes everything below dir an owner's.
func give(t *testing.T, dir string, owner *syscall.Credential) {
	t.Helper()
	if owner == nil {
		return
	}
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dataWithPackages makes a data directory for a service or a command of somebody,
// with the runtimes that setup made for the tests. A service imports NumPy, pandas and
// Matplotlib at once, which takes seconds of a processor: tests whose programs import
// none of them take dataFolder, those without live interpreters dataWithoutPackages.
func dataWithPackages(t *testing.T, who person) string {
	t.Helper()
	return dataWith(t, who, testRuntimes())
}

// dataFolder makes a data directory with what live interpreters are made of, and no
// packages for programs.
func dataFolder(t *testing.T, who person) string {
	t.Helper()
	return dataWith(t, who, liveRuntimes)
}

func dataWith(t *testing.T, who person, runtimes string) string {
	t.Helper()
	dir := dataWithoutPackages(t, who)
	if runtimes != "" {
		if err := os.Symlink(runtimes, filepath.Join(dir, "runtimes")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dataWithoutPackages makes an empty data directory.
func dataWithoutPackages(t *testing.T, who person) string {
	t.Helper()
	owner := who.credential
	if who.service != nil {
		owner = who.service
	}
	return folder(t, owner)
}

func testRuntimes() string {
	data := os.Getenv("AIRLOCK_TEST_DATA")
	if data == "" {
		return ""
	}
	return filepath.Join(data, "runtimes")
}

// packagesMissing says why what needs the Python packages cannot be tested.
func packagesMissing() error {
	if _, err := os.Stat(filepath.Join(testRuntimes(), "python", "manifest.json")); err != nil {
		return errors.New("this needs the Python packages: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	return nil
}

func needPackages(t *testing.T) {
	t.Helper()
	if err := packagesMissing(); err != nil {
		skip(t, "%v", err)
	}
}

// command prepares airlock for somebody, with nothing in the environment but
// their home and what is given.
func (who person) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, args...)
	if who.files > 0 {
		cmd = exec.Command("/bin/sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(who.files), binary},
			args...)...)
	}
	if who.start != nil {
		cmd = who.start(args...)
	}
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + folder(t, who.credential)}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// ended is how a command ended.
type ended struct {
	code           int
	stdout, stderr string
}

func (who person) run(t *testing.T, env []string, args ...string) ended {
	t.Helper()
	cmd := who.command(t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
