package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a service of its own, with storage that goes when it ends.
type server struct {
	cmd  *exec.Cmd
	url  string
	data string
	dead chan struct{}
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// start starts a service and waits until it says where it is.
func start(ctx context.Context, binary, runtimes string) (_ *server, err error) {
	s := &server{dead: make(chan struct{})}
	if s.data, err = os.MkdirTemp("", "airlock-bench-"); err != nil {
		return nil, err
	}
	if runtimes, err = filepath.Abs(runtimes); err == nil {
		err = os.Symlink(runtimes, filepath.Join(s.data, "runtimes"))
	}
	if err == nil {
		err = giveToService(s.data)
	}
	if err != nil {
		os.RemoveAll(s.data)
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--data", s.data, "--listen", "127.0.0.1:0", "--log-level", "error")
	s.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.data}
	return s, s.launch()
}

// memoryServer is the argument that makes this program serve bytes from memory.
const memoryServer = "serve-memory"

func startMemory(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{dead: make(chan struct{}), cmd: exec.CommandContext(ctx, self, memoryServer)}
	return s, s.launch()
}

// serveMemory is what one would write with net/http alone.
func serveMemory(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	content := downloadContent()
	plain := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		})}
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	if err := plain.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// launch starts a prepared command and waits until it says where it is.
func (s *server) launch() error {
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = time.Minute
	s.cmd.Stderr = os.Stderr
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		close(s.dead)
		return err
	}
	found := make(chan string, 1)
	go func() {
		defer close(s.dead)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			if url := address.FindString(scanner.Text()); url != "" && len(found) == 0 {
				found <- url
			}
		}
		_ = s.cmd.Wait()
	}()
	select {
	case s.url = <-found:
		return nil
	case <-s.dead:
		s.stop()
		return errors.New("the service ended at once")
	}
}

// giveToService lets the user that a service of root's runs as write there.
func giveToService(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	found, err := user.Lookup("airlock")
	if err != nil {
		return fmt.Errorf("as root this needs the user airlock, which `airlock setup` makes: %w", err)
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.dead
	if s.data != "" {
		os.RemoveAll(s.data)
	}
}

// family returns the processes of the service and of its executor. What waits
// in a sandbox is not theirs.
func (s *server) family() ([]int, error) {
	parents := map[int]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	family := []int{s.cmd.Process.Pid}
	executor := false
	for i := 0; i < len(family); i++ {
		for pid, parent := range parents {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if parent != family[i] || err != nil {
				continue
			}
			switch words := strings.Split(string(line), "\x00"); {
			case len(words) < 2:
			case words[1] == "serve":
				family = append(family, pid)
			case words[1] == "executor" && !executor:
				executor = true
				family = append(family, pid)
			}
		}
	}
	if !executor {
		return nil, errors.New("the executor of the service is not found")
	}
	return family, nil
}

// processor is the time that processes have had on the processors. Other than
// a rate it hardly depends on what else the machine does.
func processor(pids []int) time.Duration {
	const tick = 10 * time.Millisecond
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] { // utime, stime
			n, _ := strconv.ParseInt(field, 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * tick
}

// private sums up the memory that processes do not share.
func private(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Private_") {
				kib, err := strconv.ParseInt(strings.Fields(line)[1], 10, 64)
				if err != nil {
					return 0, err
				}
				sum += kib << 10
			}
		}
	}
	return sum, nil
}

// watch returns the most private memory that it saw until ctx ended.
func watch(ctx context.Context, pids []int) (most int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
			if now, err := private(pids); err == nil {
				most = max(most, now)
			}
		}
	}
}
