package gvisor

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The kernel of a sandbox and its file server have a user that nothing else on the machine has, no
// capability there, and an end before that of the service when memory is short.
func TestKernelUser(t *testing.T) {
	s := start(t)
	spec := sandboxtest.Spec("bash", "id -u; sleep 1000")
	spec.Limits.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Run(ctx, spec, &sandboxtest.Host{}) // it is cancelled
	}()
	defer func() { cancel(); <-ended }()
	seen := map[string]map[string]string{}
	if !sandboxtest.Await(func() bool {
		for _, line := range strays(t) {
			pid, command, _ := strings.Cut(line, " ")
			name, _, _ := strings.Cut(command, " ")
			if f := statusOf(pid); f["Uid"] != "" {
				seen[name] = f
			}
		}
		kernel, files := seen["runsc-sandbox"], seen["runsc-gofer"]
		return kernel["Seccomp"] == "2" && files["Seccomp"] == "2" // each has its own filter
	}) {
		t.Fatalf("its processes are %v", seen)
	}
	for _, name := range []string{"runsc-sandbox", "runsc-gofer"} {
		f := seen[name]
		uid, err := strconv.Atoi(strings.Fields(f["Uid"])[0])
		if err != nil || uid < 0x8000_0000 { // users of programs are below
			t.Errorf("%s has the user %s", name, f["Uid"])
		}
		if f["oom"] != "500" {
			t.Errorf("%s has the score %s", name, f["oom"])
		}
	}
}

// What a program reads of its kernel is not the machine's: neither its release and boot, nor how busy it is.
func TestKernelFacts(t *testing.T) {
	s := start(t)
	const files = "/proc/sys/kernel/random/boot_id /proc/version /proc/stat /proc/uptime"
	r := sandboxtest.Run(t, s, sandboxtest.Spec("bash", "uname -r; cat "+files))
	if !strings.Contains(r.Stdout, "-gvisor") || len(strings.Split(r.Stdout, "\n")) < 5 {
		t.Fatalf("%q %q", r.Stdout, r.Stderr)
	}
	for _, name := range strings.Fields(files)[:2] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Stdout, strings.TrimSpace(string(text))) {
			t.Errorf("a program reads the machine's %s: %s", name, text)
		}
	}
	uptime := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if own, err := strconv.ParseFloat(strings.Fields(uptime[len(uptime)-1])[0], 64); err != nil || own > 30 {
		t.Errorf("the kernel has been up for %v seconds: %v", own, err)
	}
}

// A program that locks a file of /usr locks it in its own kernel: others of the machine do not wait for it.
func TestLocksStayInside(t *testing.T) {
	s := start(t)
	spec := sandboxtest.Python(`import fcntl, time
file = open("/usr/bin/env")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(1000)`)
	spec.Limits.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	printed, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Run(ctx, spec, &listener{printed: printed}) // it is cancelled
	}()
	defer func() { cancel(); <-ended }()
	select {
	case text := <-printed:
		if !strings.HasPrefix("locked\n", text) { // the end of the line may come later
			t.Fatal(text)
		}
	case <-ended:
		t.Fatal("the program ended")
	}
	file, err := os.Open("/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the machine waits for a program's lock: %v", err)
	}
}

// listener is a Host that hands on what a program prints first.
type listener struct {
	sandboxtest.Host
	printed chan string
}

func (l *listener) Output(_ engine.Stream, data []byte) {
	select {
	case l.printed <- string(data):
	default:
	}
}

// statusOf returns what /proc says of a process, nothing of one that has ended.
func statusOf(pid string) map[string]string {
	fields := map[string]string{}
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	score, _ := os.ReadFile("/proc/" + pid + "/oom_score_adj")
	fields["oom"] = strings.TrimSpace(string(score))
	return fields
}
