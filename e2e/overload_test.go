package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Programs that only wait do not keep others waiting: many go on at once,
// whatever the number of processors.
func TestSleepersGoOnTogether(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	s.execute(python("print('warm')"))
	const sleepers, nap = 20, 1
	began := time.Now()
	var all sync.WaitGroup
	most := 0
	for range sleepers {
		all.Go(func() {
			got := s.do("POST", runs, `{"language":"python","code":"import time; time.sleep(`+strconv.Itoa(nap)+`)"}`)
			if got.status != 200 || !strings.Contains(string(got.body), `"status":"ok"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		case <-look.C:
			for line := range strings.Lines(string(s.do("GET", "/metrics", "").body)) {
				if n, ok := strings.CutPrefix(line, "airlock_runs_running "); ok {
					now, _ := strconv.Atoi(strings.TrimSpace(n))
					most = max(most, now)
				}
			}
		}
	}
	t.Logf("%d programs that sleep %d s took %v; up to %d at once", sleepers, nap,
		time.Since(began).Round(time.Millisecond), most)
	if most < sleepers/2 {
		t.Errorf("only %d went on at once", most)
	}
}

// A run whose turn does not come in time is refused, in each protocol's words,
// and says when to come back.
func TestQueueTime(t *testing.T) {
	who := anyPerson(t)
	s := serveWith(t, who, dataWithoutPackages(t, who), []string{
		"MAX_CONCURRENT_EXECUTIONS=1", "EXECUTION_QUEUE_TIMEOUT_SEC=1"}, "--drain-time", "1s")
	code, _ := sleeper()
	if got := s.do("POST", runs, `{"language":"bash","wait":false,"timeout_ms":60000,"code":`+strconv.Quote(code)+
		`}`); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	eventually(t, waitTime, "it runs", func() bool {
		return strings.Contains(string(s.do("GET", "/metrics", "").body), "airlock_runs_running 1")
	})
	for path, body := range map[string]string{
		runs:                      `{"language":"python","code":"print(1)"}`,
		"/onyx/v1/execute":        `{"code":"print(1)","timeout_ms":1000}`,
		"/onyx/v1/execute/stream": `{"code":"print(1)","timeout_ms":1000}`,
	} {
		began := time.Now()
		got := s.do("POST", path, body)
		after, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != 429 || after < 1 || time.Since(began) > waitTime {
			t.Errorf("%s: %d after %v, Retry-After %q: %s", path, got.status, time.Since(began), got.header.Get("Retry-After"),
				got.body)
		}
	}
	metrics := string(s.do("GET", "/metrics", "").body)
	if !strings.Contains(metrics, `airlock_runs_rejected_total{reason="queue_wait"} 3`) {
		t.Error("the refusals are not counted")
	}
}

// As many empty sessions as an owner may keep fit into a machine, another
// owner's too, and each runs commands beside each other.
func TestManySessions(t *testing.T) {
	who := anyPerson(t)
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	// Half of the memory is for them, and an empty one counts with 4 MiB.
	many := min(1000, int(info.Totalram)*int(info.Unit)/2/(4<<20)*9/10)
	s := startAbuse(t, who, "--owner-rate", "100000")
	first, second := s.owner(), s.owner()
	hold := func(key string) (id string, got answer) {
		got = s.as(key, "POST", "/onyx/v1/sessions", `{}`)
		var session struct {
			ID string `json:"session_id"`
		}
		if got.status == 201 {
			got.decode(t, &session)
		}
		return session.ID, got
	}
	began := time.Now()
	var last string
	for i := range many {
		id, got := hold(first)
		if got.status != 201 {
			t.Fatalf("after %d sessions: %d %s", i, got.status, got.body)
		}
		last = id
	}
	t.Logf("%d empty sessions in %v", many, time.Since(began).Round(time.Millisecond))
	if _, got := hold(second); got.status != 201 {
		t.Errorf("another owner: %d %s", got.status, got.body)
	}
	began = time.Now()
	var both sync.WaitGroup
	for _, pair := range [][2]string{{"one", "two"}, {"two", "one"}} {
		both.Go(func() {
			cmd := "echo > " + pair[0] + "; until [ -e " + pair[1] + " ]; do sleep 0.01; done; echo met"
			got := s.as(first, "POST", "/onyx/v1/sessions/"+last+"/bash", `{"cmd":`+strconv.Quote(cmd)+`,"timeout_ms":20000}`)
			if !strings.Contains(string(got.body), `"met\n"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	both.Wait()
	t.Logf("two commands that wait for each other took %v", time.Since(began).Round(time.Millisecond))
}

// A service that is killed is started again by its parent, which keeps root's
// rights: what was stored is there, and programs run.
func TestServiceIsKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root there is no parent: the service is the process that was started")
	}
	who := root(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	kept := s.upload("kept", "kept")
	socket := filepath.Join(s.data, "airlock.sock")
	for range 2 {
		killed := false
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.cmd.Process.Pid, s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
		for _, name := range threads {
			more, _ := os.ReadFile(name)
			children = append(append(children, ' '), more...)
		}
		for child := range strings.FieldsSeq(string(children)) {
			command, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if pid, err := strconv.Atoi(child); err == nil && strings.Contains(string(command), "--launcher-socket") {
				killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
			}
		}
		if !killed {
			t.Fatal("there is no service to be killed")
		}
		eventually(t, waitTime, "it runs programs again", func() bool {
			return strings.Contains(ask(t, socket, `{"language":"python","code":"print('on')"}`), `on\n`)
		})
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost/api/v1/files/"+kept.ID+"/content",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (
		net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	got, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if text, err := io.ReadAll(got.Body); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	s.stop()
}

// What Onyx's own service returns, ours does: thousands of files. A file that is
// lost is named on stderr, with how many are kept.
func TestManyOutputs(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	for _, n := range []int{1000, 5000} {
		got := s.do("POST", "/onyx/v1/execute",
			fmt.Sprintf(`{"code":"for i in range(%d): open(f'{i:04}', 'w').write(str(i))","timeout_ms":30000}`, n))
		var run struct {
			Stderr string
			Files  []struct{ Path string }
		}
		got.decode(t, &run)
		t.Logf("%d files: %d came back; %q", n, len(run.Files), run.Stderr)
		switch {
		case n == 1000 && (len(run.Files) != n || run.Stderr != ""):
			t.Errorf("%d of %d files, %q", len(run.Files), n, run.Stderr)
		case n == 5000 && !strings.Contains(run.Stderr, fmt.Sprintf("A run may leave %d files", len(run.Files))):
			t.Errorf("%d of %d files, %q", len(run.Files), n, run.Stderr)
		}
	}
	metrics := string(s.do("GET", "/metrics", "").body)
	if !strings.Contains(
		metrics, `code_interpreter_executions_rejected_total{operation="execute",reason="concurrency_limit",status="429"} 0`) {
		t.Error("what was never counted is absent")
	}
}
