package browser

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitTime is how long a test waits for what must come soon, on a machine that
// is busy with other tests.
const waitTime = 2 * time.Minute

// service is a running `airlock serve`.
type service struct {
	t    *testing.T
	log  io.Writer
	url  string // of the page: "http://127.0.0.1:1234/ui"
	data string
	args []string
	env  []string // more of it
	cmd  *exec.Cmd
	dead chan struct{}
}

// serve starts a service on a free port, without the Python packages, which it would
// import at once: shared has them.
func serve(t *testing.T, args ...string) *service {
	t.Helper()
	s := &service{t: t, log: t.Output(), data: dataFolder(t), args: args}
	t.Cleanup(func() { os.RemoveAll(s.data) })
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	return s
}

// common is the service of all tests that change nothing for others.
var common *service

// shared is a service that other tests use too: it has runs and files of
// theirs, is never stopped, and needs no key.
func shared(t *testing.T) *service {
	t.Helper()
	if common == nil {
		s := &service{t: t, log: os.Stderr, data: packagesFolder(t)}
		s.start("127.0.0.1:0")
		common = s
	}
	s := *common
	s.t = t
	return &s
}

// packagesFolder makes a data directory with the Python packages.
func packagesFolder(t *testing.T) string {
	t.Helper()
	runtimes := filepath.Join(os.Getenv("AIRLOCK_TEST_DATA"), "runtimes")
	if _, err := os.Stat(filepath.Join(runtimes, "python", "manifest.json")); err != nil {
		skip(t, "this needs the Python packages: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	dir := dataFolder(t)
	if err := os.Symlink(runtimes, filepath.Join(dir, "runtimes")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ownFolder makes a data directory with packages for one test.
func ownFolder(t *testing.T) string {
	dir := packagesFolder(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// dataFolder makes a data directory for a service of the user who runs the tests.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-browser-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return dir
	}
	owner, err := user.Lookup("airlock")
	if err != nil {
		skip(t, "as root this needs the user airlock: run airlock setup")
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *service) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stderr = s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

func (s *service) start(listen string) {
	s.t.Helper()
	s.cmd, s.dead = s.command(append([]string{"serve", "--data", s.data, "--listen", listen, "--log-level", "warn"},
		s.args...)...), make(chan struct{})
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	found := make(chan string, 1)
	cmd, dead := s.cmd, s.dead
	go func() {
		defer close(dead)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url := address.FindString(lines.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		_ = cmd.Wait() // ProcessState says how
	}()
	select {
	case url := <-found:
		s.url = url + "/ui"
	case <-s.dead:
		s.t.Fatal("the service ended at once")
	case <-time.After(waitTime):
		s.t.Fatal("the service does not say where it listens")
	}
}

// stop ends the service and waits for its end.
func (s *service) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.dead:
	case <-time.After(waitTime):
		_ = s.cmd.Process.Kill()
		<-s.dead
	}
}

// kill ends it in mid-sentence: first the process that speaks, which else may
// hear of the executor's end, and say so, before its own.
func (s *service) kill() {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			command, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if pid, err := strconv.Atoi(child); err == nil && strings.Contains(string(command), "--launcher-socket") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	_ = s.cmd.Process.Kill()
	<-s.dead
}

// restart starts it again under the same address.
func (s *service) restart() {
	s.t.Helper()
	s.start(strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/ui"))
}

// key makes a key while the service runs.
func (s *service) key(args ...string) string {
	s.t.Helper()
	out, err := s.command(append([]string{"keys", "create", "--data", s.data}, args...)...).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	token := regexp.MustCompile(`ak_[a-z0-9]{12}_[A-Za-z0-9_-]{43}`).FindString(string(out))
	if token == "" {
		s.t.Fatalf("no key in %q", out)
	}
	return token
}

// fetch asks for a page without a browser.
func (s *service) fetch(path string) (int, http.Header, string) {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}
