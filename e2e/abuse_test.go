package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// abuse is a service with keys, and what a test needs to misuse it.
type abuse struct {
	*service
	admin  string
	owners int
}

// secret is in every program and file of the abuses, and nowhere in the log.
const secret = "HOSTILE-SECRET"

// TestAbuse misuses the real service in every way of the list, by its numbers.
// After each of them the next honest request works; after all of them nothing
// is left, and the log has no word of what anybody sent.
func TestAbuse(t *testing.T) {
	who := anyPerson(t)
	a := startAbuse(t, who, "--log-level", "debug", "--max-upload", "4MiB", "--owner-disk", "64MiB",
		"--owner-sessions", "100", "--owner-rate", "100000", "--concurrency", "4", "--queue", "100", "--owner-queue", "80")
	a.honest(t, a.owner())
	before := a.settled(t)
	for _, group := range [][]misuse{bodyAbuses, protocolAbuses, tenantAbuses, fileAbuses, runAbuses} {
		for _, m := range group {
			t.Run(m.name, func(t *testing.T) {
				inner := *a.service
				inner.t = t
				m.test(t, &abuse{service: &inner, admin: a.admin, owners: a.next()})
				a.honest(t, a.owner())
			})
		}
	}
	t.Run("A26 nothing of it is in the log", func(t *testing.T) { a.checkLog(t) })
	t.Run("nothing is left", func(t *testing.T) {
		http.DefaultClient.CloseIdleConnections()
		eventually(t, waitTime, "open files and goroutines are as before", func() bool {
			after := a.gauges(t)
			return after.files <= before.files+5 && after.goroutines <= before.goroutines+10
		})
		// Each of the large bodies is gone, and a heap that had to hold some at once
		// gives its pages back slowly. What leaks less than ten bodies is not seen
		// here: the soak sees it.
		eventually(t, 5*time.Minute, fmt.Sprintf("memory at most 80 MB above %d MB", before.memory>>20), func() bool {
			return a.settled(t).memory <= before.memory+80<<20
		})
		temporary, err := filepath.Glob(filepath.Join(a.data, "files", "tmp", "*"))
		if err != nil || len(temporary) > 0 {
			t.Errorf("temporary files: %v, %v", temporary, err)
		}
	})
}

// misuse is one abuse.
type misuse struct {
	name string
	test func(t *testing.T, a *abuse)
}

// anyPerson returns root where that is possible, because it has the most layers.
func anyPerson(t *testing.T) (who person) {
	t.Helper()
	if os.Geteuid() != 0 {
		return person{name: "user"}
	}
	return root(t)
}

func startAbuse(t *testing.T, who person, args ...string) *abuse {
	t.Helper()
	data := dataWithoutPackages(t, who)
	made := who.run(t, nil, "keys", "create", "--data", data, "--admin", "--owner", "operator")
	if made.code != 0 {
		t.Fatalf("keys create: %+v", made)
	}
	return &abuse{service: serve(t, who, data, args...), admin: strings.TrimSpace(made.stdout)}
}

// next keeps the names of owners of different tests apart.
func (a *abuse) next() int {
	a.owners += 1000
	return a.owners
}

// owner makes somebody who has never been here, and returns their key.
func (a *abuse) owner() string {
	a.t.Helper()
	a.owners++
	return a.key(fmt.Sprint("owner-", a.owners))
}

// key makes another key for an owner.
func (a *abuse) key(owner string) string {
	a.t.Helper()
	got := a.do("POST", "/api/v1/keys", fmt.Sprintf(`{"owner":%q}`, owner), "X-API-Key", a.admin)
	var key struct{ Token string }
	got.decode(a.t, &key)
	if got.status != 201 || key.Token == "" {
		a.t.Fatalf("a key for %s: %d", owner, got.status)
	}
	return key.Token
}

// as makes a request with a key.
func (a *abuse) as(key, method, path, body string, headers ...string) answer {
	a.t.Helper()
	return a.do(method, path, body, append([]string{"Authorization", "Bearer " + key}, headers...)...)
}

// store uploads a file as somebody.
func (a *abuse) store(key, name, content string) file {
	a.t.Helper()
	got := a.as(key, "POST", "/api/v1/files?name="+name, content, "Content-Type", "application/octet-stream")
	if got.status != 201 {
		a.t.Fatalf("upload: %d %s", got.status, got.body)
	}
	var f file
	got.decode(a.t, &f)
	return f
}

// session opens one as somebody.
func (a *abuse) session(key, request string) string {
	a.t.Helper()
	got := a.as(key, "POST", "/api/v1/sessions", request)
	var s struct{ ID string }
	got.decode(a.t, &s)
	if got.status != 201 || s.ID == "" {
		a.t.Fatalf("a session: %d %s", got.status, got.body)
	}
	return s.ID
}

// runs runs a program as somebody, to a result.
func (a *abuse) runs(key string, request map[string]any) run {
	a.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		a.t.Fatal(err)
	}
	got := a.as(key, "POST", "/api/v1/runs", string(body))
	if got.status != 200 {
		a.t.Fatalf("a run: %d %s", got.status, got.body)
	}
	var r run
	got.decode(a.t, &r)
	return r
}

// honest checks that the service works.
func (a *abuse) honest(t *testing.T, key string) {
	t.Helper()
	got := a.as(key, "POST", "/api/v1/runs", `{"language":"python","code":"print(6*7) # `+secret+`"}`)
	var r run
	got.decode(t, &r)
	if got.status != 200 || r.Stdout != "42\n" || r.Status != "ok" {
		t.Fatalf("an honest request: %d %s", got.status, got.body)
	}
}

// expect checks a refusal: its status, that it is ours, and that it says
// nothing that it should not.
func expect(t *testing.T, what string, got answer, status ...int) {
	t.Helper()
	for _, s := range status {
		if got.status != s {
			continue
		}
		var body refusal
		if s >= 400 {
			got.decode(t, &body)
			if body.Error.Code == "" || body.Error.Message == "" || body.Error.Request == "" {
				t.Errorf("%.80s: the error is %.300s", what, got.body)
			}
		}
		said := strings.ReplaceAll(string(got.body), body.Error.Request, "") // drawn at random, of any letters
		for _, tell := range []string{"goroutine", ".go:", "SQL", "sqlite", "/var/", "/tmp/", "no such file", "panic"} {
			if strings.Contains(said, tell) && s >= 400 {
				t.Errorf("%.80s: the error tells %q: %.300s", what, tell, got.body)
			}
		}
		return
	}
	t.Errorf("%.80s: %d, want %v: %.300s", what, got.status, status, got.body)
}

// speak sends bytes as they are, and returns what comes back until the
// connection ends, or the time does.
func (a *abuse) speak(text string) string {
	a.t.Helper()
	conn := a.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, text) // the service may hang up in the middle
	conn.SetReadDeadline(time.Now().Add(waitTime))
	got, _ := io.ReadAll(conn)
	return string(got)
}

func (a *abuse) dial() net.Conn {
	a.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// gauges is what the service says of itself.
type gauges struct {
	running, queued, files, goroutines, memory int64
}

var gauge = regexp.MustCompile(
	`(?m)^(airlock_runs_running|airlock_runs_queued|process_open_fds|go_goroutines|process_resident_memory_bytes) ([0-9.e+]+)$`)

func (a *abuse) gauges(t *testing.T) (g gauges) {
	t.Helper()
	for _, m := range gauge.FindAllStringSubmatch(string(a.as(a.admin, "GET", "/metrics", "").body), -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		switch n := int64(value); m[1] {
		case "airlock_runs_running":
			g.running = n
		case "airlock_runs_queued":
			g.queued = n
		case "process_open_fds":
			g.files = n
		case "go_goroutines":
			g.goroutines = n
		default:
			g.memory = n
		}
	}
	return g
}

// settled waits until nothing runs.
func (a *abuse) settled(t *testing.T) (g gauges) {
	t.Helper()
	eventually(t, waitTime, "nothing runs", func() bool {
		g = a.gauges(t)
		return g.running == 0 && g.queued == 0 && g.files > 0
	})
	return g
}

// checkLog looks for what must not be in the log.
func (a *abuse) checkLog(t *testing.T) {
	t.Helper()
	token := regexp.MustCompile(`ak_[a-z2-9]{12}_[A-Za-z0-9_-]{43}`)
	said := a.log.String()
	scanner := bufio.NewScanner(strings.NewReader(said))
	scanner.Buffer(nil, 1<<20)
	seen := 0
	for scanner.Scan() {
		line := scanner.Text()
		if strings.Contains(line, secret) || token.MatchString(line) || strings.Contains(line, "panic") {
			t.Errorf("in the log: %.300s", line)
		}
		if strings.Contains(line, "owner=operator") && strings.Contains(line, "key=") &&
			strings.Contains(line, "route=/api/v1/keys") {
			seen++
		}
	}
	if err := scanner.Err(); err != nil || seen == 0 {
		t.Errorf("the log does not say who made keys (%v):\n%.2000s", err, said)
	}
	if metrics := string(a.as(a.admin, "GET", "/metrics", "").body); strings.Contains(metrics, secret) ||
		token.MatchString(metrics) || strings.Contains(metrics, "owner-") {
		t.Error("the metrics tell of callers")
	}
}

// dirOf is a data directory, to look into.
func dirOf(data string) fs.FS { return os.DirFS(data) }
