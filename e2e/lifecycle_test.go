package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An executor that is killed takes its runs along and nothing else.
func TestKilledExecutor(t *testing.T) {
	eachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		kept := s.upload("kept.txt", "kept")
		word := fmt.Sprintf("executor-%s-%d", who.name, os.Getpid())
		body, _ := json.Marshal(python("import time\nprint('up', flush=True)\ntime.sleep(120)", word))
		events := s.stream("POST", "/api/v1/runs", string(body))
		events.until("output", "up")
		found := executorsOf(family(s.cmd.Process.Pid))
		if len(found) != 1 {
			t.Fatalf("executors: %v", found)
		}
		if err := syscall.Kill(found[0].pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if result := events.until("result", ""); find(result.data, "status") != "interrupted" {
			t.Errorf("got %v", result.data)
		}
		eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
		eventually(t, waitTime, "the service is ready again", func() bool { return s.do("GET", "/ready", "").status == 200 })
		if r := s.execute(python("print('next')")); r.Stdout != "next\n" {
			t.Errorf("the next run: %+v", r)
		}
		if got := s.do("GET", "/api/v1/files/"+kept.ID+"/content", ""); string(got.body) != "kept" {
			t.Errorf("the file: %d %s", got.status, got.body)
		}
	})
}

func testSecondService(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		s := serve(t, who, data)
		got := who.run(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
		if got.code != 7 || !strings.Contains(got.stderr, "error: ") || !strings.Contains(got.stderr, "hint: ") ||
			!strings.Contains(got.stderr, data) {
			t.Errorf("%+v", got)
		}
		if r := s.execute(python("print('undisturbed')")); r.Stdout != "undisturbed\n" {
			t.Errorf("got %+v", r)
		}
		if _, err := os.Stat(filepath.Join(data, "airlock.sock")); err != nil {
			t.Errorf("the socket of the first: %v", err)
		}
	})
}

func testPortInUse(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		got := who.run(t, nil, "serve", "--data", dataWithoutPackages(t, who), "--listen", l.Addr().String())
		if got.code != 7 || !strings.Contains(got.stderr, "in use") || !strings.Contains(got.stderr, "--listen") {
			t.Errorf("%+v", got)
		}
	})
}

func testDataNotWritable(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := folder(t, nil) // root's, or for an ordinary tester:
		if err := os.Chmod(data, 0o555); err != nil {
			t.Fatal(err)
		}
		got := who.run(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
		if got.code != 7 || !strings.Contains(got.stderr, data) || !strings.Contains(got.stderr, "hint: ") {
			t.Errorf("%+v", got)
		}
	})
}

func TestNoKeysBeyondLoopback(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		got := who.run(t, nil, "serve", "--data", data, "--listen", "0.0.0.0:0", "--isolation", "best")
		if got.code != 7 || !strings.Contains(got.stderr, "airlock keys create") {
			t.Errorf("without keys: %+v", got)
		}
		made := who.run(t, nil, "keys", "create", "--data", data)
		token := strings.TrimSpace(made.stdout)
		if made.code != 0 || !strings.HasPrefix(token, "ak_") || strings.Contains(made.stderr, token) {
			t.Fatalf("keys create: %+v", made)
		}
		// With a key there is no way in without it, also on loopback.
		s := serve(t, who, data)
		if got := s.do("GET", "/api/v1/runs", ""); got.status != 401 {
			t.Errorf("no key: %d %s", got.status, got.body)
		}
		if got := s.do("GET", "/api/v1/runs", "", "Authorization", "Bearer "+token); got.status != 200 {
			t.Errorf("with the key: %d %s", got.status, got.body)
		}
		if got := s.do("GET", "/api/v1/runs", "", "X-API-Key", token[:len(token)-1]+"A"); got.status != 401 &&
			token[len(token)-1] != 'A' {
			t.Errorf("with another key: %d", got.status)
		}
		listed := who.run(t, nil, "keys", "list", "--data", data, "--json")
		if listed.code != 0 || strings.Contains(listed.stdout, token) ||
			!strings.Contains(listed.stdout, strings.Split(token, "_")[1]) {
			t.Errorf("keys list: %+v", listed)
		}
		if gone := who.run(t, nil, "keys", "revoke", "--data", data, strings.Split(token, "_")[1]); gone.code != 0 {
			t.Errorf("keys revoke: %+v", gone)
		}
		if got := s.do("GET", "/api/v1/runs", "", "Authorization", "Bearer "+token); got.status != 401 {
			t.Errorf("with the revoked key: %d", got.status)
		}
	})
}

// Keys that are made before the first service starts do not lock it out: as
// root their files belong to the service's user.
func TestKeysBeforeService(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		made := who.run(t, nil, "keys", "create", "--data", data, "--admin")
		if made.code != 0 {
			t.Fatalf("%+v", made)
		}
		s := serve(t, who, data, "--listen", "0.0.0.0:0", "--isolation", "best")
		if got := s.do("GET", "/api/v1/keys", "", "X-API-Key", strings.TrimSpace(made.stdout)); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// A signal lets running programs end, and takes no new ones.
func testDrain(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		s := serve(t, who, dataWithoutPackages(t, who))
		events := s.stream("POST", "/api/v1/runs",
			`{"language":"python","code":"import time\nprint('up', flush=True)\ntime.sleep(8)\nprint('done')"}`)
		events.until("output", "up")
		s.signal(syscall.SIGTERM)
		eventually(t, waitTime, "/ready says 503", func() bool { return s.do("GET", "/ready", "").status == 503 })
		if got := s.do("POST", "/api/v1/runs", `{"language":"python","code":"1"}`); got.status != 503 {
			t.Errorf("a new run: %d %s", got.status, got.body)
		}
		events.until("output", "done")
		if result := events.until("result", ""); find(result.data, "status") != "ok" {
			t.Errorf("got %v", result.data)
		}
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d:\n%s", code, s.log)
		}
		if _, err := os.Lstat(filepath.Join(s.data, "airlock.sock")); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
}

// The files of a program that was let to end are fetched before the service ends.
func TestDrainKeepsTheDoorOpen(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data, out := dataWithoutPackages(t, who), filepath.Join(folder(t, who.credential), "out")
		s := serve(t, who, data)
		run := who.command(t, nil, "run", "--data", data, "-o", out, "-c", "import time\nprint('up', flush=True)\n"+
			"time.sleep(3)\nfor i in range(20): open(f'{i}.txt', 'w').write('made')")
		said, err := run.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var problems bytes.Buffer
		run.Stderr = &problems
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(said)
		if line, err := lines.ReadString('\n'); err != nil || line != "up\n" {
			t.Errorf("%q %v", line, err)
		}
		s.signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, lines)
		if err := run.Wait(); err != nil {
			t.Errorf("%v %s", err, &problems)
		}
		if made, _ := filepath.Glob(filepath.Join(out, "*.txt")); len(made) != 20 {
			t.Errorf("%d files were fetched", len(made))
		}
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d:\n%s", code, s.log)
		}
	})
}

func testSecondSignalHurries(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		// A test that runs under nohup ignores SIGHUP, and so would the service.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		defer signal.Reset(syscall.SIGHUP)
		data := dataWithoutPackages(t, who)
		s := serve(t, who, data, "--drain-time", "100s")
		word := fmt.Sprintf("hurry-%s-%d", who.name, os.Getpid())
		body, _ := json.Marshal(python("import time\nprint('up', flush=True)\ntime.sleep(50)", word))
		events := s.stream("POST", "/api/v1/runs", string(body))
		events.until("output", "up")
		began := time.Now()
		s.signal(syscall.SIGHUP) // as when its terminal is closed
		eventually(t, waitTime, "/ready says 503", func() bool { return s.do("GET", "/ready", "").status == 503 })
		s.signal(syscall.SIGINT)
		if code := s.wait(); code != 0 || time.Since(began) > waitTime {
			t.Errorf("exit code %d after %v:\n%s", code, time.Since(began), s.log)
		}
		if left := withWord(word); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// However the service ends, nothing of it stays.
func TestKilledService(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		data := dataWithoutPackages(t, who)
		s := serve(t, who, data)
		word := fmt.Sprintf("killed-%s-%d", who.name, os.Getpid())
		body, _ := json.Marshal(python("import time\nprint('up', flush=True)\ntime.sleep(120)", word))
		events := s.stream("POST", "/api/v1/runs", string(body))
		id := find(events.until("started", "").data, "id")
		events.until("output", "up")
		ours := family(s.cmd.Process.Pid)
		s.signal(syscall.SIGKILL)
		s.wait()
		eventually(t, waitTime, "all its processes are gone", func() bool {
			for _, p := range ours {
				if syscall.Kill(p.pid, 0) == nil && !zombie(p.pid) {
					return false
				}
			}
			return len(withWord(word)) == 0
		})
		next := serve(t, who, data) // the socket that was left is no obstacle
		if got := next.do("GET", "/api/v1/runs/"+id, ""); !strings.Contains(string(got.body), `"interrupted"`) {
			t.Errorf("the run: %d %s", got.status, got.body)
		}
	})
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
