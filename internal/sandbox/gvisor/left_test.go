package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Runs, and executors that are killed in the middle of one, leave no process and no mount.
func TestNothingIsLeft(t *testing.T) {
	s := start(t)
	mounts := mountsOfHost(t)
	for range 20 {
		if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
			t.Fatalf("%q %q", r.Stdout, r.Stderr)
		}
	}
	for range 5 {
		executor := child(t)
		ended := make(chan error, 1)
		go func() {
			spec := sandboxtest.Spec("bash", "echo up; sleep 1000 & sleep 1000")
			spec.Limits.Timeout = time.Hour
			_, err := s.Run(t.Context(), spec, &sandboxtest.Host{})
			ended <- err
		}()
		if !sandboxtest.Await(func() bool { return len(strays(t)) >= 3 }) { // the command, the kernel and its file server
			t.Fatalf("the program does not run: %v", strays(t))
		}
		if err := syscall.Kill(executor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("a run without its executor ended well")
		}
		if !sandboxtest.Await(func() bool { return len(strays(t)) == 0 }) {
			t.Fatalf("left: %v", strays(t))
		}
		if !sandboxtest.Await(func() bool { return child(t) != 0 }) {
			t.Fatal("there is no other executor")
		}
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(2)")); r.Stdout != "2\n" {
		t.Errorf("%q %q", r.Stdout, r.Stderr)
	}
	if now := mountsOfHost(t); now != mounts {
		t.Errorf("mounts are left: %s\nwere %s", now, mounts)
	}
}

func mountsOfHost(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// child returns the executor that this process has started, 0 if there is none.
func child(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			line, _ := os.ReadFile(filepath.Dir(name) + "/cmdline")
			if strings.HasPrefix(string(line), "airlock\x00executor\x00") {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				return pid
			}
		}
	}
	return 0
}
