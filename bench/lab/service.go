// Package lab is what bench, bench/cluster and bench/soak have in common: it starts services as an operator does, looks
// at their processes, has contestants take turns or many clients call, summarizes times, and writes tables and pictures
// into documents.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// StartTime is how long a service may take to answer for the first time, and StopTime to end.
const (
	StartTime = time.Minute
	StopTime  = 10 * time.Second
)

// Service is a process that answers over HTTP, Airlock or a peer.
type Service struct {
	Address string // host and port
	Data    string // directory of an Airlock
	URL     string
	Cmd     *exec.Cmd
	Log     *Tail
	Began   time.Time     // just before it was started
	Ended   chan struct{} // closed when the process has ended
	Exit    error         // how, once it has
}

// Start starts a service that listens on an address. It ends with this process.
func Start(address string, env []string, argv ...string) (*Service, error) {
	s := &Service{Address: address, URL: "http://" + address, Cmd: exec.Command(argv[0], argv[1:]...), Log: &Tail{},
		Ended: make(chan struct{})}
	s.Cmd.Dir = "/"
	s.Cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"},
		env...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Began = time.Now()
	if err := s.Cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.Ended)
		s.Exit = s.Cmd.Wait()
	}()
	return s, nil
}

// Serve starts Airlock on a data directory. An empty address is a free one.
func Serve(binary, data, address string, env []string, args ...string) (*Service, error) {
	if address == "" {
		var err error
		if address, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	argv := append([]string{binary, "serve", "--listen", address, "--data", data, "--log-level", "warn"}, args...)
	s, err := Start(address, append(env, "AIRLOCK_CONFIG=none"), argv...)
	if err == nil {
		s.Data = data
	}
	return s, err
}

// Await waits until the service takes connections. It stops one that does not.
func (s *Service) Await(ctx context.Context) error {
	open := func() bool {
		conn, err := net.Dial("tcp", s.Address)
		if err == nil {
			conn.Close()
		}
		return err == nil || !s.Alive()
	}
	if Until(ctx, StartTime, open) && s.Alive() {
		return nil
	}
	return errors.Join(fmt.Errorf("%s does not answer on %s:\n%s", filepath.Base(s.Cmd.Path), s.Address, s.Log),
		s.Stop(), ctx.Err())
}

// Alive reports whether the process has not ended.
func (s *Service) Alive() bool {
	select {
	case <-s.Ended:
		return false
	default:
		return true
	}
}

// Stop ends the service as an operator does. One that does not end in time is killed, which is an error.
func (s *Service) Stop() error {
	if !s.Alive() {
		return nil
	}
	_ = s.Cmd.Process.Signal(syscall.SIGTERM) // it may end meanwhile
	select {
	case <-s.Ended:
		return s.Exit
	case <-time.After(StopTime):
	}
	s.Kill()
	return fmt.Errorf("%s does not end within %v:\n%s", filepath.Base(s.Cmd.Path), StopTime, s.Log)
}

// Signal reaches all processes of the service, the first one first: it would start others again.
func (s *Service) Signal(sig syscall.Signal) {
	below := Processes().Below(s.Cmd.Process.Pid)
	_ = syscall.Kill(s.Cmd.Process.Pid, sig)
	for _, p := range below {
		_ = syscall.Kill(p.PID, sig)
	}
}

// Kill ends all processes of the service as kill -9 does.
func (s *Service) Kill() {
	if s.Alive() {
		s.Signal(syscall.SIGKILL)
		<-s.Ended
	}
}

// NewData makes a data directory below dir, with the packages that airlock setup installed, if any.
func NewData(dir, runtimes string) (string, error) {
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return "", err
	}
	if runtimes != "" {
		absolute, err := filepath.Abs(runtimes)
		if err != nil {
			return "", err
		}
		if err := os.Symlink(absolute, filepath.Join(data, "runtimes")); err != nil {
			return "", err
		}
	}
	return data, errors.Join(os.Chmod(data, 0o711), GiveToService(data))
}

// GiveToService makes a file or folder the service's: as root that is the user airlock.
func GiveToService(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := user.Lookup("airlock")
	if err != nil {
		return errors.New("as root this needs the user airlock: run airlock setup")
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	return os.Chown(path, uid, gid)
}

// CreateKey creates a key in a data directory.
func CreateKey(ctx context.Context, binary, data string, args ...string) (string, error) {
	made, err := exec.CommandContext(ctx, binary, append([]string{"keys", "create", "--data", data}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("keys create: %w", err)
	}
	return strings.TrimSpace(string(made)), nil
}

// FreeAddress returns an address on which no process listens at the moment.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Until asks again until the answer is yes, and reports whether it was in time.
func Until(ctx context.Context, most time.Duration, yes func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(most)
	for !yes() {
		select {
		case <-tick.C:
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Pause waits, or less if ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Tail keeps the end of what a process says.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 32 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
