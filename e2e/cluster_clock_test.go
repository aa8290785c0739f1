package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wrongClock is the service with a clock that a time namespace sets: where time.Now asks
// the kernel for its real clock, which no namespace changes, it asks for CLOCK_BOOTTIME.
func wrongClock(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "this needs root: only root makes time namespaces")
	}
	if runtime.GOARCH != "amd64" {
		skip(t, "it is known for amd64 alone where time.Now names the clock")
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	// runtime/time_linux_amd64.s: SUBQ $32, SP; ANDQ $~15, SP; MOVL $0, DI; LEAQ 16(SP), SI
	asks := func(clock byte) []byte {
		return []byte{0x48, 0x83, 0xec, 0x20, 0x48, 0x83, 0xe4, 0xf0, 0xbf, clock, 0, 0, 0, 0x48, 0x8d, 0x74, 0x24, 0x10}
	}
	known, other := asks(unix.CLOCK_REALTIME), asks(unix.CLOCK_BOOTTIME)
	if n := bytes.Count(text, known); n != 1 {
		t.Fatalf("time.Now was found %d times", n)
	}
	name := filepath.Join(filepath.Dir(binary), "airlock-"+strings.ToLower(t.Name()))
	writeProgram(t, name, string(bytes.Replace(text, known, other, 1)))
	return name
}

// withClock has what they start run by a clock that is wrong by so much.
func (who person) withClock(t *testing.T, program string, wrong time.Duration) person {
	t.Helper()
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	offset := time.Now().Add(wrong).Unix() - up.Sec
	who.start = func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--time", "--boottime", fmt.Sprint(offset), program}, args...)...)
	}
	return who
}

// clock is how far a service's clock is from ours.
func (s *service) clock() time.Duration {
	s.t.Helper()
	date, err := http.ParseTime(s.do("GET", "/health", "").header.Get("Date"))
	if err != nil {
		s.t.Fatal(err)
	}
	return time.Until(date).Round(time.Minute)
}

// Workers whose clocks are wrong by an hour do what others do, and so do apis as far as S3
// goes, which takes no signatures of a quarter of an hour ago. Those that are further off
// are told at the start.
func TestClusterClock(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := &roles{deployment: newDeployment(t)}
	right, program := r.who, wrongClock(t)
	r.who = right.withClock(t, program, -14*time.Minute)
	one := r.addAPI()
	r.who = right.withClock(t, program, 14*time.Minute)
	two := r.addAPI()
	if one.clock() != -14*time.Minute || two.clock() != 14*time.Minute {
		t.Fatalf("the clocks are wrong by %v and %v", one.clock(), two.clock())
	}
	r.who = right.withClock(t, program, time.Hour)
	refused := r.who.run(t, r.env(), "serve", "--listen", "127.0.0.1:0", "--data", dataWithoutPackages(t, r.who))
	if refused.code == 0 || !strings.Contains(refused.stderr, "clock of this machine") {
		t.Errorf("exit code %d: %s", refused.code, refused.stderr)
	}
	ahead := r.addWorker()
	r.work()
	r.who = right.withClock(t, program, -time.Hour)
	behind := r.addWorker()
	behind.logged("an api has taken this worker")
	session := r.live(two)

	for i, s := range []*service{one, two, one, two} {
		if i == 2 {
			ahead.stop()
		}
		other := r.apis[(i+1)%2]
		in := s.upload("in.txt", fmt.Sprint("content ", i))
		var got run
		other.do("POST", runs, `{"language":"bash","code":"cat in.txt > out.txt","files":[{"id":"`+in.ID+`"}]}`).decode(t, &got)
		if got.Status != "ok" || len(got.Files) != 1 {
			t.Fatalf("%+v", got)
		}
		read := s.do("GET", "/api/v1/files/"+got.Files[0].ID+"/content", "")
		if string(read.body) != fmt.Sprint("content ", i) {
			t.Errorf("%d %s", read.status, read.body)
		}
	}
	for i, s := range r.apis {
		word := fmt.Sprint("60", i, os.Getpid())
		id, _ := r.goesOn(s, word)
		if got := r.apis[1-i].do("DELETE", runs+"/"+id, ""); got.status >= 300 {
			t.Errorf("a run of the other node is not cancelled: %d %s", got.status, got.body)
		}
		eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
	}
	if got := one.again(session, readKept); !strings.Contains(got, "kept") {
		t.Errorf("the session: %s", got)
	}
	two.kill()
	if got := one.again(session, readKept); !strings.Contains(got, "kept") {
		t.Errorf("the session of the node that is gone: %s", got)
	}
}
