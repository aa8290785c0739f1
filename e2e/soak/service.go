package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/client"
)

// waitTime is how long anything may take that should take a moment.
const waitTime = 60 * time.Second

// service is the service under test, and what it has on this machine.
type service struct {
	binary, data, url string
	admin             string // key
	cmd               *exec.Cmd
	log               *tail
	ended             chan struct{} // closed when the process has ended
	exit              error         // how, once it has
	pid, executor     int           // of the process that serves, and of its executor
	group             string        // that its control groups have in common
	own               []int         // its processes, when it was stopped
	http              *http.Client
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 64<<10 {
		t.text = append([]byte(nil), t.text[len(t.text)-32<<10:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// startService starts the service on a data directory of its own.
func startService(ctx context.Context, o options, args ...string) (*service, error) {
	data, err := os.MkdirTemp("", "airlock-soak-")
	if err != nil {
		return nil, err
	}
	s := &service{binary: o.binary, data: data, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if err := s.prepare(o.runtimes); err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	made, err := exec.CommandContext(ctx, s.binary, "keys", "create", "--admin", "--owner", "operator", "--data",
		data).Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keys create: %w", err), os.RemoveAll(data))
	}
	s.admin = strings.TrimSpace(string(made))
	return s, s.start(ctx, args...)
}

// prepare gives the data directory to the service's user: as root that is a user
// of its own.
func (s *service) prepare(runtimes string) error {
	if runtimes != "" {
		path, err := filepath.Abs(runtimes)
		if err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(s.data, "runtimes")); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("airlock")
	if err != nil {
		return fmt.Errorf("as root the service runs as the user airlock: run airlock setup first: %w", err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return errors.Join(os.Chmod(s.data, 0o711), os.Chown(s.data, uid, gid))
}

// start starts the process, and waits until it is ready and warm.
func (s *service) start(ctx context.Context, args ...string) error {
	s.log, s.ended = &tail{}, make(chan struct{})
	s.cmd = exec.Command(s.binary, append([]string{"serve", "--data", s.data, "--listen", "127.0.0.1:0", "--log-level",
		"warn",
		"--owner-rate", "100000", "--owner-sessions", "100000"}, args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	found, ended := make(chan string, 1), s.ended
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url := address.FindString(lines.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		s.exit = s.cmd.Wait()
	}()
	select {
	case s.url = <-found:
	case <-s.ended:
		return fmt.Errorf("the service did not start: %w: %s", s.exit, s.log)
	case <-time.After(waitTime):
		return fmt.Errorf("the service does not say where it listens: %s", s.log)
	}
	return s.locate(ctx)
}

// locate finds the processes of the service.
func (s *service) locate(ctx context.Context) error {
	s.pid = s.cmd.Process.Pid
	return until(ctx, "an executor", func() bool {
		for _, p := range processes() {
			if p.parent == s.cmd.Process.Pid && p.word(1) == "serve" {
				s.pid = p.pid
			}
		}
		for _, p := range processes() {
			if p.word(1) == "executor" && (p.parent == s.cmd.Process.Pid || p.parent == s.pid) {
				s.executor = p.pid
				groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
				_, name, _ := strings.Cut(string(groups), "/airlock/")
				s.group, _, _ = strings.Cut(name, "/")
				s.group, _, _ = strings.Cut(s.group, "\n")
				return true
			}
		}
		return false
	})
}

// as returns a client of an owner's.
func (s *service) as(ctx context.Context, owner string) (*client.Client, string, error) {
	operator, err := client.New(client.Options{Server: s.url, Key: s.admin, HTTP: s.http})
	if err != nil {
		return nil, "", err
	}
	key, err := operator.CreateKey(ctx, client.NewKey{Owner: owner})
	if err != nil {
		return nil, "", err
	}
	c, err := client.New(client.Options{Server: s.url, Key: key.Token, HTTP: s.http})
	return c, key.Token, err
}

// stop ends the service as an operator does.
func (s *service) stop() error {
	s.http.CloseIdleConnections()
	s.own = s.below()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the service had ended before: %w: %s", err, s.log)
	}
	select {
	case <-s.ended:
		if s.exit != nil {
			return fmt.Errorf("the service ended with %w: %s", s.exit, s.log)
		}
		return nil
	case <-time.After(waitTime):
		return errors.New("the service does not end")
	}
}

// kill ends the process that serves as kill -9 does, and waits for the rest.
func (s *service) kill() error {
	s.own = s.below()
	// The parent first, if there is one: it would start the service again.
	for _, pid := range []int{s.cmd.Process.Pid, s.pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	<-s.ended
	return nil
}

// remove ends what still runs and removes the data.
func (s *service) remove() error {
	select {
	case <-s.ended:
	default:
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	return os.RemoveAll(s.data)
}

// below lists the processes of the service, itself included.
func (s *service) below() []int {
	all := processes()
	in := map[int]bool{s.cmd.Process.Pid: true}
	for range 8 {
		for _, p := range all {
			if in[p.parent] {
				in[p.pid] = true
			}
		}
	}
	var pids []int
	for _, p := range all {
		if in[p.pid] {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// remains is what is left of a service that has ended.
func (s *service) remains() (left []string) {
	gone := until(context.Background(), "the end", func() bool {
		left = nil
		for _, pid := range s.own {
			if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
				!bytes.Contains(state, []byte(") Z ")) {
				left = append(left, fmt.Sprint("process ", pid))
			}
		}
		for _, folder := range s.groups() {
			left = append(left, "control group "+folder)
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), s.data) {
			left = append(left, "a mount below the data")
		}
		return len(left) == 0
	})
	if gone == nil {
		return nil
	}
	return left
}

// groups lists the control groups of the service.
func (s *service) groups() (found []string) {
	if s.group == "" {
		return nil
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/airlock/"+s.group) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// process is one of this machine's.
type process struct {
	pid, parent int
	argv        []string
}

func (p process) word(i int) string {
	if i < len(p.argv) {
		return p.argv[i]
	}
	return ""
}

func processes() (all []process) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		p := process{}
		p.pid, _ = strconv.Atoi(filepath.Base(entry))
		stat, err := os.ReadFile(filepath.Join(entry, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		p.parent, _ = strconv.Atoi(fields[1])
		line, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		p.argv = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// until waits for a condition.
func until(ctx context.Context, what string, yes func() bool) error {
	limit := time.NewTimer(waitTime)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("not within %v: %s", waitTime, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// scrape reads the service's metrics.
func (s *service) scrape(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", s.admin)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			values[name] = n
		}
	}
	return values, nil
}
