package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestAbuseFaults breaks the machine under the service: the part of the list of
// abuses about faults, by its numbers.
func TestAbuseFaults(t *testing.T) {
	for _, m := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"A50 same key after a restart", testSameKeyAfterRestart},
		{"A59 A74 killed in mid-execution", testKilledInRun},
		{"A60 A76 killed in mid-upload", func(t *testing.T) { testKilledInUpload(t, 4) }},
		{"A62 executor and zygotes killed", testKilledBelow},
		{"A64 disk full", func(t *testing.T) { testFull(t, "size=24m", strings.Repeat("x", 1<<20)) }},
		{"A65 inodes full", func(t *testing.T) { testFull(t, "size=200m,nr_inodes=120", "") }},
		{"A69 few open files", testFewFiles},
		{"A70 damaged data", testDamaged},
		{"A73 nobody takes the log", testNoLog},
		{"A75 control groups removed", testGroupsRemoved},
		{"A63 drain", testDrain},
		{"A63 second signal", testSecondSignalHurries},
		{"A70 data not writable", testDataNotWritable},
		{"A71 second service", testSecondService},
		{"A72 port in use", testPortInUse},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // each breaks a service of its own
			m.test(t)
		})
	}
}

// footprint is what a service has on this machine while it runs.
type footprint struct {
	processes []process
	group     string // the name that all of its control groups have in common
	data      string
}

func (s *service) footprint() footprint {
	f := footprint{data: s.data, processes: family(s.cmd.Process.Pid)}
	for _, e := range executorsOf(f.processes) {
		own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", e.pid))
		if err != nil {
			s.t.Fatal(err)
		}
		_, name, _ := strings.Cut(string(own), "/airlock/")
		f.group, _, _ = strings.Cut(name, "/")
		f.group, _, _ = strings.Cut(f.group, "\n")
	}
	return f
}

// left is what is still there of it.
func (f footprint) left() (left []string) {
	for _, p := range f.processes {
		if syscall.Kill(p.pid, 0) == nil && !zombie(p.pid) {
			left = append(left, fmt.Sprintf("process %d %v", p.pid, p.argv))
		}
	}
	if f.group != "" {
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(path, "/airlock/"+f.group) {
				left = append(left, "control group "+path)
			}
			return nil
		})
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), f.data+"/") {
		left = append(left, "a mount below the data")
	}
	return left
}

// kill ends a service as the kernel does when memory runs out.
func (s *service) kill() {
	s.t.Helper()
	// The service itself: as root a small parent stands above it.
	serving := processes(func(p process) bool {
		return p.parent == s.cmd.Process.Pid && len(p.argv) > 1 &&
			p.argv[1] == "serve"
	})
	// The parent first: it would start the service again.
	victims := []int{s.cmd.Process.Pid}
	for _, p := range serving {
		victims = append(victims, p.pid)
	}
	for _, victim := range victims {
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Fatal(err)
		}
	}
	s.wait()
	eventually(s.t, waitTime, "the processes are gone", func() bool {
		return len(processes(func(p process) bool { return slices.Contains(victims, p.pid) })) == 0
	})
}

func testKilledInRun(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		var id string
		for round := range 3 {
			s := serve(t, who, data)
			if id != "" {
				if got := s.do("GET", "/api/v1/runs/"+id, ""); find(object(t, got), "status") != "interrupted" {
					t.Errorf("the run that was under way: %d %s", got.status, got.body)
				}
			}
			code, word := sleeper()
			body, err := json.Marshal(map[string]any{"language": "bash", "code": code})
			if err != nil {
				t.Fatal(err)
			}
			events := s.stream("POST", runs, string(body))
			id = find(events.until("started", "").data, "id")
			events.until("output", "up")
			whole := s.footprint()
			if round == 0 && len(whole.processes) < 3 {
				t.Fatalf("the service is %+v", whole)
			}
			// A crowd, so that the kill comes at any moment of a run.
			var crowd sync.WaitGroup
			for range 4 {
				crowd.Go(func() {
					for {
						resp, err := http.DefaultClient.Do(s.request("POST", runs,
							`{"language":"python","code":"open('x','w').write('x'*100000)"}`))
						if err != nil {
							return
						}
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						if err != nil {
							return
						}
					}
				})
			}
			wait(t, time.Duration(rand.IntN(300))*time.Millisecond)
			s.kill()
			crowd.Wait()
			if e, more := events.next(); more {
				t.Errorf("after the end came %v", e)
			}
			eventually(t, waitTime, "all of it is gone", func() bool { return len(withWord(word)) == 0 && processesGone(whole) })
			// What only the next start can remove is gone 5 s after that.
			next := serve(t, who, data)
			eventually(t, waitTime, fmt.Sprint("nothing is left: ", whole.left()), func() bool { return len(whole.left()) == 0 })
			next.stop()
		}
	})
}

func processesGone(f footprint) bool {
	f.group, f.data = "", "/nowhere"
	return len(f.left()) == 0
}

func object(t *testing.T, got answer) (o map[string]any) {
	t.Helper()
	got.decode(t, &o)
	return o
}

// wait lets time pass that is part of what is tested.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// testKilledInUpload kills the service while many clients upload, at whatever
// step each of them is. What was acknowledged is whole after the restart, and
// of the rest nothing is there.
func testKilledInUpload(t *testing.T, rounds int) {
	who := anyPerson(t)
	data := dataWithoutPackages(t, who)
	acked := map[string]string{} // hash by id
	for range rounds {
		s := serve(t, who, data)
		verify(t, s, acked)
		var mu sync.Mutex
		var crowd sync.WaitGroup
		for client := range 8 {
			crowd.Go(func() {
				for n := 0; ; n++ {
					f, err := s.upload64(fmt.Sprintf("%d-%d", client, n), rand.IntN(20))
					if err != nil {
						return
					}
					mu.Lock()
					acked[f.ID] = f.SHA256
					mu.Unlock()
				}
			})
		}
		wait(t, 100*time.Millisecond+time.Duration(rand.IntN(400))*time.Millisecond)
		s.kill()
		crowd.Wait()
	}
	s := serve(t, who, data)
	verify(t, s, acked)
	if len(acked) < rounds {
		t.Fatalf("only %d uploads were acknowledged", len(acked))
	}
	var page struct{ Files []file }
	s.do("GET", "/api/v1/files?limit=1000", "").decode(t, &page)
	for _, f := range page.Files { // not acknowledged, but recorded: then it is whole
		if got := s.do("GET", "/api/v1/files/"+f.ID+"/content", ""); hashOf(got.body) != f.SHA256 {
			t.Errorf("%s has %d bytes that are not its own", f.Name, len(got.body))
		}
	}
	parts, err := filepath.Glob(filepath.Join(data, "files", "tmp", "*"))
	if err != nil || len(parts) > 0 {
		t.Errorf("parts of uploads are left: %v %v", parts, err)
	}
	t.Logf("%d kills, %d acknowledged uploads", rounds, len(acked))
}

func hashOf(b []byte) string {
	hash := sha256.Sum256(b)
	return hex.EncodeToString(hash[:])
}

func verify(t *testing.T, s *service, acked map[string]string) {
	t.Helper()
	for id, hash := range acked {
		if got := s.do("GET", "/api/v1/files/"+id+"/content", ""); got.status != 200 || hashOf(got.body) != hash {
			t.Errorf("an acknowledged file: %d, %d bytes", got.status, len(got.body))
		}
	}
}

// upload64 uploads a file in steps of 64 KB.
func (s *service) upload64(name string, steps int) (f file, err error) {
	reader, writer := io.Pipe()
	go func() {
		step := make([]byte, 64<<10)
		copy(step, name)
		for i := range steps {
			step[len(step)-1] = byte(i)
			if _, err := writer.Write(step); err != nil {
				return
			}
		}
		writer.Close()
	}()
	defer reader.Close()
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+"/api/v1/files?name="+name, reader)
	if err != nil {
		return f, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return f, fmt.Errorf("status %d", resp.StatusCode)
	}
	return f, json.NewDecoder(resp.Body).Decode(&f)
}

func testSameKeyAfterRestart(t *testing.T) {
	who := anyPerson(t)
	data := dataWithoutPackages(t, who)
	body := `{"language":"python","code":"import time; print(time.time_ns())"}`
	s := serve(t, who, data)
	var first, again run
	s.do("POST", runs, body, "Idempotency-Key", "one").decode(t, &first)
	s.kill()
	next := serve(t, who, data)
	next.do("POST", runs, body, "Idempotency-Key", "one").decode(t, &again)
	if first.ID == "" || again.ID != first.ID || again.Stdout != first.Stdout {
		t.Errorf("first %+v, after a restart %+v", first, again)
	}
	expect(t, "another body", next.do("POST", runs, `{"language":"python","code":"2"}`, "Idempotency-Key", "one"), 409,
		422)
}

// testKilledBelow kills what is below the service, at any moment, while it
// works: each run ends well or says that it was interrupted, and it goes on.
func testKilledBelow(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		stop := make(chan struct{})
		var crowd sync.WaitGroup
		for i := range 3 {
			crowd.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					got := s.do("POST", runs, fmt.Sprintf(`{"language":"python","code":"print(%d + %d)"}`, i, n))
					var r run
					switch {
					case got.status == 503 || got.status == 429:
					case got.status != 200:
						t.Errorf("%d %s", got.status, got.body)
					default:
						got.decode(t, &r)
						right := r.Status == "ok" && r.Stdout == fmt.Sprintln(i+n)
						if !right && r.Status != "interrupted" && r.Status != "killed" {
							t.Errorf("%s", got.body)
						}
					}
				}
			})
		}
		for round := range 6 {
			wait(t, 200*time.Millisecond+time.Duration(rand.IntN(200))*time.Millisecond)
			victims := executorsOf(family(s.cmd.Process.Pid))
			if round%2 == 0 && len(victims) > 0 { // one of the processes inside: a zygote, a waiting sandbox, a program
				inside := slices.DeleteFunc(family(victims[0].pid), func(p process) bool { return p.pid == victims[0].pid })
				if len(inside) == 0 {
					continue
				}
				victims = []process{inside[rand.IntN(len(inside))]}
			}
			for _, v := range victims {
				_ = syscall.Kill(v.pid, syscall.SIGKILL) // it may have ended by itself
			}
		}
		close(stop)
		crowd.Wait()
		eventually(t, waitTime, "the service is ready", func() bool { return s.do("GET", "/ready", "").status == 200 })
		if r := s.execute(python("print('on')")); r.Stdout != "on\n" {
			t.Errorf("%+v", r)
		}
	})
}
