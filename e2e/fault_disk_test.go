package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testFull fills a small disk under the service, to the last byte or inode.
// Uploads and runs are refused, it says that it is not ready, deletions work,
// also after it was killed, and so does expiry without anybody's help.
func testFull(t *testing.T, options, content string) {
	who := root(t)
	disk := smallDisk(t, who, options)
	s := serve(t, who, disk)
	kept := s.upload("kept", "kept") // by its use, however often others expire
	stored := fillUp(t, s, content)
	if len(stored) < 6 {
		t.Fatalf("only %d files fit", len(stored))
	}
	fillDisk(t, disk)
	if got := s.do("POST", runs, `{"language":"python","code":"print('ran')"}`); got.status != 507 ||
		!strings.Contains(string(got.body), "min_free") {
		t.Errorf("a run on a full disk: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/api/v1/ready", ""); got.status != 503 || !strings.Contains(string(got.body), "disk") {
		t.Errorf("ready: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/api/v1/files/"+kept.ID+"/content", ""); string(got.body) != "kept" {
		t.Errorf("a file that was there: %d", got.status)
	}
	remove := func(s *service, f file) {
		t.Helper()
		if got := s.do("DELETE", "/api/v1/files/"+f.ID, ""); got.status != 204 {
			t.Errorf("a delete: %d %s", got.status, got.body)
		}
		fillDisk(t, disk) // what it freed is gone again
	}
	remove(s, stored[0])
	remove(s, stored[1])
	s.kill()
	s = serve(t, who, disk) // without a free byte
	remove(s, stored[2])
	if got := s.do("GET", "/api/v1/files/"+kept.ID+"/content", ""); string(got.body) != "kept" {
		t.Errorf("after a restart: %d", got.status)
	}
	fillers, _ := filepath.Glob(filepath.Join(disk, "filler*"))
	for _, name := range fillers {
		os.Remove(name)
	}
	for _, f := range stored[3:] {
		if got := s.do("DELETE", "/api/v1/files/"+f.ID, ""); got.status != 204 {
			t.Errorf("a delete: %d %s", got.status, got.body)
		}
	}
	works := func(s *service) {
		t.Helper()
		eventually(t, waitTime, "there is room again", func() bool {
			return s.do("POST", "/api/v1/files?name=again", "again", "Content-Type", "text/plain").status == 201
		})
		if r := s.execute(python("open('o','w').write('o'); print('well')")); r.Stdout != "well\n" || len(r.Files) != 1 {
			t.Errorf("afterwards: %+v", r)
		}
		if got := s.do("GET", "/api/v1/ready", ""); got.status != 200 {
			t.Errorf("ready: %d %s", got.status, got.body)
		}
	}
	works(s)
	s.stop()

	// A lifetime that ends soon: nobody deletes anything.
	s = serve(t, who, disk, "--file-ttl", "1s")
	fillUp(t, s, content)
	fillDisk(t, disk)
	works(s)
	s.stop()
}

// smallDisk mounts a small disk for a service's data directory.
func smallDisk(t *testing.T, who person, options string) string {
	t.Helper()
	return smallDiskIn(t, who, dataWithoutPackages(t, who), options)
}

// smallDiskIn mounts a small disk in a data directory, and moves its runtimes beside it.
func smallDiskIn(t *testing.T, who person, data, options string) string {
	t.Helper()
	disk := filepath.Join(data, "disk")
	if err := os.Mkdir(disk, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	if err := os.Rename(filepath.Join(data, "runtimes"), filepath.Join(data, "r")); err == nil {
		if err := os.Symlink(filepath.Join(data, "r"), filepath.Join(disk, "runtimes")); err != nil {
			t.Fatal(err)
		}
	}
	give(t, disk, who.service)
	return disk
}

// fillUp uploads until the service refuses more, and returns what it took.
func fillUp(t *testing.T, s *service, content string) (stored []file) {
	t.Helper()
	for i := 0; ; i++ {
		got := s.do("POST", "/api/v1/files?name=part", fmt.Sprint(i)+content, "Content-Type", "application/octet-stream")
		switch {
		case got.status == 201:
			var f file
			got.decode(t, &f)
			stored = append(stored, f)
		case got.status != 507:
			t.Fatalf("%d %s", got.status, got.body)
		case !strings.Contains(string(got.body), "elete files"):
			t.Fatalf("no hint: %s", got.body)
		default:
			return stored
		}
		if i > 1000 {
			t.Fatal("the disk does not fill up")
		}
	}
}

// fillDisk takes the last byte of a disk, and the last inode if those are few,
// as another program on it might.
func fillDisk(t *testing.T, disk string) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(disk, &fs); err != nil {
		t.Fatal(err)
	}
	take := func(content []byte) error {
		f, err := os.CreateTemp(disk, "filler")
		if err != nil {
			return err
		}
		defer f.Close()
		for err == nil && len(content) > 0 {
			_, err = f.Write(content)
		}
		return err
	}
	var err error
	if fs.Files > 10_000 {
		err = take(make([]byte, 4096))
	} else {
		for err == nil {
			err = take(nil)
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// testFewFiles gives the service fewer files than its clients take: it turns
// some away, and works again when they have gone.
func testFewFiles(t *testing.T) {
	who := anyPerson(t)
	who.files = 1100 // programs are promised 1024
	s := serve(t, who, dataWithoutPackages(t, who))
	address := strings.TrimPrefix(s.url, "http://")
	var held []net.Conn
	for range 1300 {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			break
		}
		defer conn.Close()
		held = append(held, conn)
	}
	body := `{"language":"python","code":"open('x','w').write('x'); print('on')"}`
	var crowd sync.WaitGroup
	for _, conn := range held[:200] {
		crowd.Go(func() {
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", runs, len(body), body)
			status := make([]byte, len("HTTP/1.1 200"))
			n, _ := conn.Read(status)
			switch got := string(status[:n]); got {
			case "HTTP/1.1 200", "HTTP/1.1 503", "HTTP/1.1 429", "HTTP/1.1 507", "":
			default:
				t.Errorf("%q", got)
			}
		})
	}
	crowd.Wait()
	for _, conn := range held {
		conn.Close()
	}
	eventually(t, waitTime, "it works again", func() bool {
		got := s.do("POST", runs, body)
		return got.status == 200 && strings.Contains(string(got.body), `on\n`)
	})
}

// testDamaged damages what is on the disk: the service refuses to start, and
// says why, or what is damaged is not found and the rest is as it was.
func testDamaged(t *testing.T) {
	who := anyPerson(t)
	data := dataWithoutPackages(t, who)
	s := serve(t, who, data)
	whole, cut, changed := s.upload("a", "whole"), s.upload("b", "cut off"), s.upload("c", "removed")
	s.stop()
	blobOf := func(f file) string { return filepath.Join(data, "files", f.SHA256[:2], f.SHA256) }
	if err := os.Truncate(blobOf(cut), 3); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(blobOf(changed)); err != nil {
		t.Fatal(err)
	}
	next := serve(t, who, data)
	for f, status := range map[file]int{whole: 200, cut: 404, changed: 404} {
		if got := next.do("GET", "/api/v1/files/"+f.ID+"/content", ""); got.status != status {
			t.Errorf("%s: %d %s", f.Name, got.status, got.body)
		}
	}
	next.stop()

	at := filepath.Join(data, "index.db")
	good, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	page := append([]byte(nil), good...)
	copy(page[4096:], strings.Repeat("\xde\xad", 2048))
	for name, bad := range map[string][]byte{"a page": page,
		"the header": append([]byte("no database at all"), good[18:]...), "the end": good[:len(good)/2], "all of it": {}} {
		if err := os.WriteFile(at, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got := who.run(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
		if got.code != 7 || !strings.Contains(got.stderr, "damaged") || !strings.Contains(got.stderr, at) ||
			strings.Contains(got.stderr, "goroutine") {
			t.Errorf("%s: %+v", name, got)
		}
		if now, err := os.ReadFile(at); err != nil || string(now) != string(bad) {
			t.Errorf("%s: what is damaged was written over", name)
		}
	}
	if err := os.WriteFile(at, good, 0o600); err != nil {
		t.Fatal(err)
	}
	last := serve(t, who, data)
	if got := last.do("GET", "/api/v1/files/"+whole.ID+"/content", ""); string(got.body) != "whole" {
		t.Errorf("with the index put back: %d %s", got.status, got.body)
	}
	last.stop()

	// Without its index the service does not begin anew beside the files, where it would remove them.
	if err := os.Rename(at, at+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := who.run(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
		if got.code != 7 || !strings.Contains(got.stderr, "the index is missing") ||
			!strings.Contains(got.stderr, "put back") {
			t.Errorf("without the index: %+v", got)
		}
	}
	if _, err := os.Stat(blobOf(whole)); err != nil {
		t.Errorf("a file was removed: %v", err)
	}
	if err := os.Rename(at+".away", at); err != nil {
		t.Fatal(err)
	}
	again := serve(t, who, data)
	if got := again.do("GET", "/api/v1/files/"+whole.ID+"/content", ""); string(got.body) != "whole" {
		t.Errorf("with the index put back again: %d %s", got.status, got.body)
	}
}

// testNoLog takes away who reads what the service logs.
func testNoLog(t *testing.T) {
	who := anyPerson(t)
	data := dataWithoutPackages(t, who)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(data, "airlock.sock")
	cmd := who.command(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "debug")
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	read.Close() // from the start: not a word gets through
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ProcessState says how
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	eventually(t, waitTime, "the service answers on its socket", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	for range 3 {
		got := ask(t, socket, `{"language":"python","code":"print('on')"}`)
		if !strings.Contains(got, `on\n`) {
			t.Fatalf("%.300q", got)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("it ends with %d", code)
		}
	case <-time.After(waitTime):
		t.Error("it does not end")
	}
}

// ask sends one run to a unix socket, and returns all that comes back.
func ask(t *testing.T, socket, body string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err.Error() // a service that is killed listens until it is gone
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(waitTime))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", runs, len(body), body)
	var all strings.Builder
	part := make([]byte, 4096)
	for {
		n, err := conn.Read(part)
		all.Write(part[:n])
		if err != nil {
			return all.String()
		}
	}
}

// testGroupsRemoved removes the control groups under a service that has no
// sandbox waiting. A program is then confined as before, or not run at all.
func testGroupsRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("removing control groups needs root")
	}
	who := root(t)
	s := serve(t, who, dataWithoutPackages(t, who), "--warm=false")
	group := s.footprint().group
	if group == "" {
		t.Skip("this host has no control groups")
	}
	var dirs []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/airlock/"+group) {
			dirs = append(dirs, path)
		}
		return nil
	})
	removed := 0
	for i := len(dirs) - 1; i >= 0; i-- {
		inside, _ := os.ReadFile(filepath.Join(dirs[i], "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(inside)) {
			hierarchy, _, _ := strings.Cut(dirs[i], "/airlock/")
			_ = os.WriteFile(filepath.Join(hierarchy, "cgroup.procs"), []byte(pid), 0)
		}
		if unix.Rmdir(dirs[i]) == nil {
			removed++
		}
	}
	if removed == 0 {
		t.Fatalf("none of %v can be removed", dirs)
	}
	code, word := sleeper()
	body, err := json.Marshal(map[string]any{"language": "bash", "code": code, "wait": false, "timeout_ms": 5000})
	if err != nil {
		t.Fatal(err)
	}
	got := s.do("POST", runs, string(body))
	var r run
	got.decode(t, &r)
	eventually(t, waitTime, "the run ends", func() bool {
		for _, p := range withWord(word) {
			groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
			if err == nil && len(withWord(word)) > 0 && (!strings.Contains(string(groups), "pids:/airlock/") ||
				!strings.Contains(string(groups), "memory:/airlock/")) && strings.Contains(string(groups), "pids:") {
				t.Fatalf("%d of %d groups are removed, and a program runs without: %s", removed, len(dirs), groups)
			}
		}
		if got.status == 202 {
			s.do("GET", "/api/v1/runs/"+r.ID, "").decode(t, &r)
		}
		return got.status != 202 || r.Status != "running" && r.Status != "queued"
	})
	t.Logf("%d of %d groups were removed: %d %s", removed, len(dirs), got.status, r.Status)
}
