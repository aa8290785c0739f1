package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// waitTime is how long anything may take that should take a moment.
const waitTime = 60 * time.Second

// service is the service under test, and what it has on this machine.
type service struct {
	*lab.Service
	binary, data  string
	admin         string // key
	pid, executor int    // of the process that serves, and of its executor
	group         string // that its control groups have in common
	own           []int  // its processes, when it was stopped
	http          *http.Client
}

// startService starts the service on a data directory of its own.
func startService(ctx context.Context, o options, args ...string) (*service, error) {
	data, err := lab.NewData("", o.runtimes)
	if err != nil {
		return nil, err
	}
	s := &service{binary: o.binary, data: data, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if s.admin, err = lab.CreateKey(ctx, s.binary, data, "--admin", "--owner", "operator"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	return s, s.start(ctx, args...)
}

// start starts the process, and waits until it is ready.
func (s *service) start(ctx context.Context, args ...string) (err error) {
	args = append([]string{"--owner-rate", "100000", "--owner-sessions", "100000"}, args...)
	if s.Service, err = lab.Serve(s.binary, s.data, "", nil, args...); err != nil {
		return err
	}
	if err := s.Await(ctx); err != nil {
		return err
	}
	return until(ctx, "an executor", func() bool {
		s.pid, s.executor = s.Server(), s.Executor()
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.executor))
		_, name, _ := strings.Cut(string(groups), "/airlock/")
		s.group, _, _ = strings.Cut(name, "/")
		s.group, _, _ = strings.Cut(s.group, "\n")
		return s.executor > 0 && (s.group != "" || os.Geteuid() != 0) // as root it enters one
	})
}

// as returns a client of an owner's.
func (s *service) as(ctx context.Context, owner string) (*client.Client, string, error) {
	operator, err := client.New(client.Options{Server: s.URL, Key: s.admin, HTTP: s.http})
	if err != nil {
		return nil, "", err
	}
	key, err := operator.CreateKey(ctx, client.NewKey{Owner: owner})
	if err != nil {
		return nil, "", err
	}
	c, err := client.New(client.Options{Server: s.URL, Key: key.Token, HTTP: s.http})
	return c, key.Token, err
}

// stop ends the service as an operator does.
func (s *service) stop() error {
	s.http.CloseIdleConnections()
	s.own = s.below()
	if !s.Alive() {
		return fmt.Errorf("the service had ended before: %w: %s", s.Exit, s.Log)
	}
	return s.Stop()
}

// kill ends the process that serves as kill -9 does, and waits for the rest.
func (s *service) kill() error {
	s.own = s.below()
	// The parent first, if there is one: it would start the service again.
	for _, pid := range []int{s.Cmd.Process.Pid, s.pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	<-s.Ended
	return nil
}

// remove ends what still runs and removes the data.
func (s *service) remove() error {
	s.Kill()
	return os.RemoveAll(s.data)
}

// below lists the processes of the service, itself included.
func (s *service) below() []int {
	pids := []int{s.Cmd.Process.Pid}
	for _, p := range lab.Processes().Below(s.Cmd.Process.Pid) {
		pids = append(pids, p.PID)
	}
	return pids
}

// remains is what is left of a service that has ended.
func (s *service) remains() (left []string) {
	gone := until(context.Background(), "the end", func() bool {
		left = nil
		all := lab.Processes()
		for _, pid := range s.own {
			if _, alive := all[pid]; alive {
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

// until waits for a condition.
func until(ctx context.Context, what string, yes func() bool) error {
	if lab.Until(ctx, waitTime, yes) {
		return nil
	}
	return errors.Join(fmt.Errorf("not within %v: %s", waitTime, what), ctx.Err())
}

// scrape reads the service's metrics.
func (s *service) scrape(ctx context.Context) (map[string]float64, error) {
	text, err := s.do(ctx, http.MethodGet, "/metrics", s.admin, http.NoBody)
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			values[name] = n
		}
	}
	return values, err
}

// do makes a request of a key, and returns the answer, which must be a success.
func (s *service) do(ctx context.Context, method, path, key string, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-API-Key", key)
	resp, err := s.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, resp.Status, text)
	}
	return string(text), err
}
