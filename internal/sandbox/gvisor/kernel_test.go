package gvisor

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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
