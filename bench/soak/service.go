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
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// waitTime bounds everything that should take a moment.
const waitTime = 60 * time.Second

// service is the service under test.
type service struct {
	*lab.Service
	binary, data  string
	admin         string // key
	pid, executor int    // of the process that serves, and of its executor
	group         string // that its control groups have in common
	http          *http.Client
}

// startService starts the service on a data directory of its own.
func startService(ctx context.Context, o options, args ...string) (*service, error) {
	data, err := lab.NewData("", o.runtimes)
	if err != nil {
		return nil, err
	}
	s := &service{Service: &lab.Service{}, binary: o.binary, data: data,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if s.admin, err = lab.CreateKey(ctx, s.binary, data, "--admin", "--owner", "operator"); err == nil {
		err = s.start(ctx, args...)
	}
	if err != nil {
		err = errors.Join(err, s.remove())
	}
	return s, err
}

// start starts the process, and waits until it is ready.
func (s *service) start(ctx context.Context, args ...string) error {
	args = append([]string{"--owner-rate", "100000", "--owner-sessions", "100000"}, args...)
	started, err := lab.Serve(s.binary, s.data, "", nil, args...)
	if err != nil {
		return err
	}
	s.Service = started
	if err := s.Await(ctx); err != nil {
		return err
	}
	return until(ctx, "an executor", func() bool {
		s.pid, s.executor = s.Server(), s.Executor()
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.executor))
		_, name, _ := strings.Cut(string(groups), "/airlock/")
		s.group = name[:max(0, strings.IndexAny(name, "/\n"))]
		return s.executor > 0 && (s.group != "" || os.Geteuid() != 0) // as root it enters one
	})
}

// tenant is an owner that clients act for.
type tenant struct {
	*client.Client
	key string
}

// tenant returns an owner with a new key.
func (s *service) tenant(ctx context.Context, owner string) (tenant, error) {
	key, err := lab.CreateKey(ctx, s.binary, s.data, "--owner", owner)
	if err != nil {
		return tenant{}, err
	}
	return s.as(key)
}

func (s *service) as(key string) (tenant, error) {
	c, err := client.New(client.Options{Server: s.URL, Key: key, HTTP: s.http})
	return tenant{c, key}, err
}

// stop ends the service as an operator does, and returns what it left on the machine.
func (s *service) stop() (left []string, err error) {
	own := s.processes()
	if err := s.Stop(); err != nil {
		return nil, err
	}
	_ = until(context.Background(), "the end of everything", func() bool { // or it is said what is left
		left = s.groups()
		all := lab.Processes()
		for _, p := range own {
			if _, alive := all[p.PID]; alive {
				left = append(left, fmt.Sprint("process ", p))
			}
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), s.data) {
			left = append(left, "a mount below the data")
		}
		return len(left) == 0
	})
	return left, nil
}

// remove ends what still runs and removes the data.
func (s *service) remove() error {
	if s.Cmd != nil {
		s.Kill()
	}
	return os.RemoveAll(s.data)
}

// processes returns the processes of the service, the first one included.
func (s *service) processes() []lab.Process {
	all := lab.Processes()
	return append(all.Below(s.Cmd.Process.Pid), all[s.Cmd.Process.Pid])
}

// groups returns the control groups of the service.
func (s *service) groups() (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && s.group != "" && strings.Contains(path, "/airlock/"+s.group) {
			found = append(found, path)
		}
		return nil // one that goes meanwhile is none
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

// metrics returns the service's metrics.
func (s *service) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := s.do(ctx, http.MethodGet, "/metrics", s.admin, http.NoBody)
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	return values, err
}

// do makes a request with a key, and returns the answer, which must be a success.
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
		err = &client.Error{Status: resp.StatusCode, Message: fmt.Sprintf("%s: %.200s", path, text)}
	}
	return string(text), err
}
