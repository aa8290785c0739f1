package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// server is a process that answers over HTTP, Airlock or a peer.
type server struct {
	address string
	cmd     *exec.Cmd
	log     *tail
	began   time.Time // just before it was started
	ended   chan struct{}
}

// startTime is how long a service may take to answer for the first time, and
// stopTime to end.
const (
	startTime = 30 * time.Second
	stopTime  = 10 * time.Second
)

// startServer starts a service that listens on address.
func startServer(address string, env []string, argv ...string) (*server, error) {
	s := &server{address: address, cmd: exec.Command(argv[0], argv[1:]...), log: &tail{}, ended: make(chan struct{})}
	s.cmd.Dir = "/"
	s.cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"},
		env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.began = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // how it ended shows in its log
		close(s.ended)
	}()
	return s, nil
}

// await waits until the service takes connections.
func (s *server) await(ctx context.Context) error {
	deadline := time.Now().Add(startTime)
	for {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended:\n%s", filepath.Base(s.cmd.Path), s.log)
		default:
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen on %s:\n%s", filepath.Base(s.cmd.Path), s.address, s.log)
		}
		pause(ctx, time.Millisecond)
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		return
	case <-time.After(stopTime):
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// freeAddress returns an address on which no process listens at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startAirlock starts an Airlock service with a data directory of its own.
func (b *bench) startAirlock(args ...string) (*server, error) {
	data, err := b.newData()
	if err != nil {
		return nil, err
	}
	return b.serve(data, nil, args...)
}

// startWarm is startAirlock, and waits until all zygotes are ready.
func (b *bench) startWarm(ctx context.Context, args ...string) (*server, error) {
	s, err := b.startAirlock(args...)
	return s.warmed(ctx, err)
}

// awaited returns a server that was started, unless err is set, once it answers.
func (s *server) awaited(ctx context.Context, err error) (*server, error) {
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// warmed is awaited, and waits until all zygotes are ready.
func (s *server) warmed(ctx context.Context, err error) (*server, error) {
	if s, err = s.awaited(ctx, err); err != nil {
		return nil, err
	}
	if _, err := zygotesReady(ctx, s); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// newData makes a data directory.
func (b *bench) newData() (string, error) {
	data, err := os.MkdirTemp(b.scratch, "data-")
	if err != nil {
		return "", err
	}
	if err := os.Symlink(b.options.runtimes, filepath.Join(data, "runtimes")); err != nil {
		return "", err
	}
	return data, giveToService(data)
}

// serve starts a service on a data directory.
func (b *bench) serve(data string, env []string, args ...string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.options.airlock, "serve", "--listen", address, "--log-level", "warn"}, args...)
	return startServer(address, append(env, "AIRLOCK_DATA="+data, "AIRLOCK_CONFIG=none"), argv...)
}

// giveToService makes a folder the service's: as root that is the user
// airlock.
func giveToService(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := user.Lookup("airlock")
	if err != nil {
		return errors.New("as root this needs the user airlock: run airlock setup")
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	return os.Chown(dir, uid, gid)
}

const runsPath, filesPath = "/api/v1/runs", "/api/v1/files"

// airlock is an Airlock service as a contestant. Inputs are uploaded once, and
// outputs stay in the service's store, as they do for a client that hands on
// their addresses.
func airlock(name string, s *server) contestant {
	return contestant{name: name, open: func(_ context.Context, w *workload) (*client, error) {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		request, err := c.runRequest(s.address, w)
		if err != nil {
			c.close()
			return nil, err
		}
		check := newAirlockCheck(w)
		return &client{
			attempt: func(context.Context) error {
				if err := c.do(request); err != nil {
					return err
				}
				return check(c.body)
			},
			close: c.close,
		}, nil
	}}
}

// runRequest uploads a workload's input, if it has one, and writes the request
// that runs it.
func (c *connection) runRequest(host string, w *workload) ([]byte, error) {
	body := map[string]any{"language": cmp.Or(w.language, "python"), "code": w.code}
	if w.image != "" {
		body["image"] = w.image
	}
	if w.wall != "" {
		body["wall"] = w.wall
	}
	if w.memory != 0 {
		body["limits"] = map[string]int64{"memory_bytes": w.memory}
	}
	if w.input != "" {
		id, err := c.upload(host, w)
		if err != nil {
			return nil, err
		}
		body["files"] = []map[string]string{{"id": id, "path": w.input}}
	}
	text, err := json.Marshal(body)
	return newRequest("POST", runsPath, host, text, asJSON), err
}

func (c *connection) upload(host string, w *workload) (string, error) {
	if err := c.do(newUpload(host, w)); err != nil {
		return "", err
	}
	var file struct{ ID string }
	err := json.Unmarshal(c.body, &file)
	return file.ID, err
}

func newUpload(host string, w *workload) []byte {
	return newRequest("POST", filesPath+"?name="+url.QueryEscape(w.input), host, w.data, asBytes)
}

// newAirlockCheck looks for a few words in an answer, which costs less than to
// read it.
func newAirlockCheck(w *workload) func(body []byte) error {
	stdout, _ := json.Marshal(w.stdout)
	words := [][]byte{[]byte(`"status":"ok"`), append([]byte(`"stdout":`), stdout[:len(stdout)-1]...)}
	if w.output != "" {
		words = append(words, []byte(`"path":"`+w.output+`"`))
	}
	return func(body []byte) error {
		for _, word := range words {
			if !bytes.Contains(body, word) {
				return fmt.Errorf("the answer has no %s: %.400s", word, body)
			}
		}
		return nil
	}
}

// airlockTransfer is the same with the input sent each time and the output
// fetched: all that a client can do.
func airlockTransfer(name string, s *server) contestant {
	return contestant{name: name, open: func(_ context.Context, w *workload) (*client, error) {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		check := newAirlockCheck(w)
		return &client{close: c.close, attempt: func(context.Context) error {
			request, err := c.runRequest(s.address, w)
			if err != nil {
				return err
			}
			if err := c.do(request); err != nil {
				return err
			}
			if err := check(c.body); err != nil {
				return err
			}
			id, err := outputOf(c.body, w.output)
			if err != nil {
				return err
			}
			return c.do(newRequest("GET", filesPath+"/"+id+"/content", s.address, nil))
		}}, nil
	}}
}

// outputOf finds the id of a file that a run left, in its answer.
func outputOf(body []byte, path string) (id string, err error) {
	var run struct{ Files []struct{ ID, Path string } }
	err = json.Unmarshal(body, &run)
	for _, file := range run.Files {
		if file.Path == path {
			return file.ID, nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("%s is not among the outputs: %.400s", path, body))
}
