package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// listener records the notices of a program's rest.
type listener struct {
	sandboxtest.Host
	mu     sync.Mutex
	heard  []string
	memory []int64
}

func (l *listener) Output(_ engine.Stream, data []byte) { l.note(strings.Fields(string(data))...) }

func (l *listener) Rest(resting bool, memory int64) {
	if !resting {
		l.note("wake")
		return
	}
	l.note("rest")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory = append(l.memory, memory)
}

func (l *listener) note(words ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, words...)
}

// A program that waits for a time, a child or a thread rests. A program with a process
// that computes does not.
func TestRest(t *testing.T) {
	loops := map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)}
	const head = "import os, subprocess, sys, threading, time\ndef spin(s):\n  end = time.monotonic() + s\n" +
		"  while time.monotonic() < end: pass\n"
	for name, want := range map[string][]string{
		"print('a', flush=True); time.sleep(2); spin(1.5); print('c')": {
			"a", "rest", "wake", "c"},
		"time.sleep(1)\nif not os.fork(): spin(1.5); print('c', flush=True); os._exit(0)\nos.wait()": {
			"rest", "wake", "c"},
		"print('a', flush=True); subprocess.run(['sleep', '2']); print('b')": {
			"a", "rest", "b"},
		"threading.Thread(target=spin, args=[2]).start(); print('a', flush=True)": {"a"},
		"if not os.fork(): spin(2); os._exit(0)\nprint('a', flush=True); os.wait(); print('b')": {
			"a", "b"},
		`print('a', flush=True); subprocess.run(['bash', '-c', 'while [ $SECONDS -lt 2 ]; do :; done']); print(1)`: {
			"a", "1"},
	} {
		for kind, s := range loops {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				spec := sandboxtest.Python(head + name)
				spec.Limits.Timeout = 60 * time.Second
				host := &listener{}
				o, err := s.Run(t.Context(), spec, host)
				if err != nil || o.ExitCode == nil || *o.ExitCode != 0 {
					t.Fatalf("%+v %v", o, err)
				}
				// On a busy machine a program may pause between two lines.
				printed, told := apart(host.heard)
				if wantPrinted, wantTold := apart(want); !within(wantPrinted, printed) || !within(wantTold, told) {
					t.Errorf("%s\nheard %v, want %v", name, host.heard, want)
				}
				for _, memory := range host.memory {
					if memory < executor.LeastAside || memory > spec.Limits.Memory {
						t.Errorf("%d bytes are set aside", memory)
					}
				}
			})
		}
	}
}

// apart separates a program's output from the notices of its rest. They arrive on two
// channels, on a busy machine in any order.
func apart(heard []string) (printed, told []string) {
	for _, word := range heard {
		if word == "rest" || word == "wake" {
			told = append(told, word)
		} else {
			printed = append(printed, word)
		}
	}
	return printed, told
}

// within reports whether a list contains all of want, in order, and no further rest of
// a program that never rests.
func within(want, heard []string) bool {
	for _, word := range heard {
		if len(want) > 0 && word == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// A program that gets little time on a busy machine does not rest.
func TestRestOnABusyMachine(t *testing.T) {
	s := start(t)
	var others []*exec.Cmd
	for range 24 {
		other := exec.Command("sh", "-c", "while :; do :; done")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
	}
	defer func() {
		for _, other := range others {
			_ = other.Process.Kill()
			_ = other.Wait()
		}
	}()
	spec := sandboxtest.Python("import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass")
	spec.Limits.Timeout = 60 * time.Second
	host := &listener{}
	if o, err := s.Run(t.Context(), spec, host); err != nil || o.TimedOut {
		t.Fatalf("%+v %v", o, err)
	}
	if len(host.heard) > 0 {
		t.Errorf("heard %v", host.heard)
	}
}

// The kernel limits the memory of all groups together.
func TestGroupsAreBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	start(t)
	own := instance(t, executors(t)[0])
	if own == "" {
		t.Skip("no control groups")
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	all, seen := int64(info.Totalram)*int64(info.Unit), false
	for _, group := range groupsOf(t, own) {
		limit := max(kernelfile.Int(kernelfile.Read(group, "memory.max")),
			kernelfile.Int(kernelfile.Read(group, "memory.limit_in_bytes")))
		if filepath.Base(group) != own || limit == 0 {
			continue // another hierarchy, or a group in it
		}
		if seen = true; limit < all/2 || limit > all-all/16 {
			t.Errorf("%s: %d of %d bytes", group, limit, all)
		}
	}
	if !seen {
		t.Error("nothing is bounded")
	}
}
