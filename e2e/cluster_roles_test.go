package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/bucket/buckettest"
)

const workerToken = "the token of tests, of 32 characters"

// roles are apis on one database and bucket, and workers that have neither.
type roles struct {
	*deployment
	apis, workers []*service
}

func newRoles(t *testing.T, apis, workers int) *roles {
	t.Helper()
	r := &roles{deployment: newDeployment(t)}
	for range apis {
		r.addAPI()
	}
	for range workers {
		r.addWorker()
	}
	r.work()
	return r
}

// addAPI starts an api, with settings that go before those of the deployment.
func (r *roles) addAPI(env ...string) *service {
	r.Helper()
	env = append(append(r.env(), "AIRLOCK_WORKER_TOKEN="+workerToken), env...)
	s := serveWith(r.T, r.who, dataWithoutPackages(r.T, r.who), env, "--role", "api")
	r.apis = append(r.apis, s)
	return s
}

// addWorker starts a worker of all apis.
func (r *roles) addWorker(env ...string) *service {
	r.Helper()
	var addresses []string
	for _, s := range r.apis {
		addresses = append(addresses, s.url)
	}
	env = append([]string{"AIRLOCK_WORKER_TOKEN=" + workerToken}, env...)
	w := startWorker(r.T, r.who, env, addresses...)
	r.workers = append(r.workers, w)
	return w
}

// work waits until each api knows workers.
func (r *roles) work() {
	r.Helper()
	for _, w := range r.workers {
		w.logged("an api has taken this worker")
	}
	for _, s := range r.apis {
		eventually(r.T, waitTime, "an api knows the workers", s.works)
	}
}

// works reports whether a program runs.
func (s *service) works() bool {
	return s.do("POST", runs, `{"language":"bash","code":"true"}`).status == http.StatusOK
}

// startWorker starts a worker, whose address is its own affair unless env says it.
func startWorker(t *testing.T, who person, env []string, apis ...string) *service {
	t.Helper()
	return startWorkerAs(t, who, func(*exec.Cmd) {}, env, apis...)
}

// startWorkerAs starts a worker whose command is changed first.
func startWorkerAs(t *testing.T, who person, change func(*exec.Cmd), env []string, apis ...string) *service {
	t.Helper()
	data := dataFolder(t, who)
	env = append([]string{"AIRLOCK_LISTEN=127.0.0.1:0", "AIRLOCK_WORKER_API=" + strings.Join(apis, ",")}, env...)
	cmd := who.command(t, env, "serve", "--data", data, "--role", "worker", "--drain-time", "1s")
	change(cmd)
	s := &service{t: t, who: who, data: data, log: &lines{}, dead: make(chan struct{}), cmd: cmd}
	cmd.Stderr, cmd.Stdout = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.dead)
		_ = cmd.Wait() // ProcessState says how
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("a worker said:\n%s", s.log)
		}
	})
	return s
}

func (s *service) logged(text string) {
	s.t.Helper()
	eventually(s.t, waitTime, "it says "+text, func() bool { return strings.Contains(s.log.String(), text) })
}

// runner returns the worker that has a process with a word on its command line.
func (r *roles) runner(word string) *service {
	for _, w := range r.workers {
		for _, p := range family(w.cmd.Process.Pid) {
			if slices.Contains(p.argv, word) {
				return w
			}
		}
	}
	return nil
}

// What one api is asked, the other one knows; programs run on workers, with their files.
func TestClusterRoles(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := newRoles(t, 2, 2)
	one, two := r.apis[0], r.apis[1]

	t.Run("files", func(t *testing.T) {
		in := one.upload("in.txt", "content of a file")
		var got run
		eventually(t, waitTime, "a run ends", func() bool { // a worker may be given up on a busy machine
			made := two.do("POST", runs, `{"language":"bash","code":"cat in.txt; cat in.txt in.txt > out.txt",`+
				`"files":[{"id":"`+in.ID+`"}]}`)
			return json.Unmarshal(made.body, &got) == nil && got.Status == "ok"
		})
		if got.Stdout != "content of a file" || len(got.Files) != 1 {
			t.Fatalf("%+v", got)
		}
		content := one.do("GET", "/api/v1/files/"+got.Files[0].ID+"/content", "")
		if string(content.body) != "content of a filecontent of a file" {
			t.Errorf("%d %s", content.status, content.body)
		}
	})
	t.Run("events", func(t *testing.T) {
		id, _ := r.goesOn(one, fmt.Sprint("300", os.Getpid()))
		events := two.stream("GET", runs+"/"+id+"/events", "", "Last-Event-ID", "1")
		events.until("output", "up")
		if got := two.do("DELETE", runs+"/"+id, ""); got.status >= 300 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := events.until("result", ""); find(got.data, "status") == "ok" {
			t.Errorf("%v", got)
		}
	})
	t.Run("live", func(t *testing.T) {
		eventually(t, waitTime, "a variable of one api is there at the other one", func() bool {
			id := r.live(one)
			return strings.Contains(two.cell(id, "print(x + 1, open('kept.txt').read())"), "42 kept")
		})
	})
	t.Run("credentials", r.testCredentials)
	t.Run("stranger", func(t *testing.T) {
		s := startWorker(t, r.who, []string{"AIRLOCK_WORKER_TOKEN=" + strings.Repeat("another", 5)}, one.url, two.url)
		s.logged("no api takes this worker")
		s.logged("worker token")
		open := startWorker(t, r.who, nil, one.url)
		open.logged("no api takes this worker")
		open.logged("one of both has no token")
	})
}

// A worker runs what strangers wrote: nothing in it, or in what it starts, leads to the
// database or to the bucket. The bucket it reaches by addresses of one object.
func (r *roles) testCredentials(t *testing.T) {
	if found := r.credentials(t, r.workers[0]); len(found) > 0 {
		t.Errorf("a worker has %v", found)
	}
	if found := r.credentials(t, r.apis[0]); !slices.Contains(found, "connection to the database") ||
		!slices.Contains(found, "AWS_SECRET_ACCESS_KEY in environ") {
		t.Errorf("the test sees in an api only %v", found)
	}
	// Who gives a worker the settings of an api in its environment finds them removed.
	env := append(r.env(), "AIRLOCK_WORKER_TOKEN="+workerToken)
	given := startWorker(t, r.who, env, r.apis[0].url)
	given.logged("the worker is ready")
	if found := r.credentials(t, given); len(found) > 0 {
		t.Errorf("a worker that was given the settings has %v", found)
	}
}

// credentials lists what of database and bucket a service and its processes have.
func (r *roles) credentials(t *testing.T, s *service) (found []string) {
	t.Helper()
	secrets := map[string]string{"AIRLOCK_DATABASE": r.database, "AIRLOCK_BLOBS": r.blobs,
		"AWS_SECRET_ACCESS_KEY": buckettest.SecretKey, "AWS_ACCESS_KEY_ID": buckettest.AccessKey}
	peers := map[string]bool{}
	at, err := url.Parse(r.database)
	if err != nil {
		t.Fatal(err)
	}
	peers[hexAddress(t, at.Host)] = true
	for _, p := range family(s.cmd.Process.Pid) {
		proc := fmt.Sprintf("/proc/%d/", p.pid)
		for _, file := range []string{"environ", "cmdline", "maps"} {
			text, err := os.ReadFile(proc + file)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for name, secret := range secrets {
				if bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte(name)) {
					found = append(found, name+" in "+file)
				}
			}
		}
		sockets := map[string]bool{}
		links, _ := os.ReadDir(proc + "fd") // a process may be gone
		for _, l := range links {
			to, _ := os.Readlink(proc + "fd/" + l.Name())
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
		table, _ := os.ReadFile(proc + "net/tcp")
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) > 9 && peers[f[2]] && sockets[f[9]] {
				found = append(found, "connection to the database")
			}
		}
	}
	return found
}

// hexAddress is an address as /proc/net/tcp has it.
func hexAddress(t *testing.T, address string) string {
	t.Helper()
	_, text, _ := strings.Cut(address, ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("0100007F:%04X", port)
}

// load is what clients have asked for: runs that leave a file each, and which of them were
// acknowledged.
type load struct {
	roles *roles
	ended chan struct{}
	group sync.WaitGroup

	mu   sync.Mutex
	kept map[string]string       // words by the id of their file
	seen map[string]map[int]bool // workers that a word was seen on
}

func (r *roles) load() *load {
	l := &load{roles: r, ended: make(chan struct{}), kept: map[string]string{}, seen: map[string]map[int]bool{}}
	prefix := "mark-" + strings.ToLower(rand.Text())
	for n := range 3 {
		l.group.Go(func() {
			for i := n; !l.over(); i += 3 {
				l.ask(r.apis[i%len(r.apis)], fmt.Sprint(prefix, "-", i))
			}
		})
	}
	l.group.Go(func() { l.watch(prefix) })
	r.Cleanup(l.group.Wait)
	r.Cleanup(sync.OnceFunc(l.end))
	return l
}

func (l *load) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

func (l *load) end() {
	if !l.over() {
		close(l.ended)
	}
}

func (l *load) ask(s *service, word string) {
	body, _ := json.Marshal(map[string]any{"language": "bash", "args": []string{word},
		"code": `echo "$1" | tee made.txt; sleep 0.2`})
	resp, err := http.DefaultClient.Do(s.request("POST", runs, string(body)))
	if err != nil {
		return // it was killed, or the test is over
	}
	defer resp.Body.Close()
	var got struct {
		run
		Dropped []json.RawMessage // said not to be kept
	}
	if json.NewDecoder(resp.Body).Decode(&got) != nil || resp.StatusCode != http.StatusOK || got.Status != "ok" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(got.Files)+len(got.Dropped) != 1 || got.Stdout != word+"\n" {
		l.roles.Errorf("%s: %+v", word, got)
		return
	}
	if len(got.Files) == 0 {
		return
	}
	l.kept[got.Files[0].ID] = word
}

// watch notes on which workers programs are seen. It never sees one that is not there.
func (l *load) watch(prefix string) {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !l.over() {
		parents, words := map[int]int{}, map[int]string{}
		for _, p := range processes(func(process) bool { return true }) {
			parents[p.pid] = p.parent
			for _, word := range p.argv {
				if strings.HasPrefix(word, prefix) {
					words[p.pid] = word
				}
			}
		}
		l.mu.Lock()
		for pid, word := range words {
			for at := pid; at > 1; at = parents[at] {
				if slices.ContainsFunc(l.roles.workers, func(w *service) bool { return w.cmd.Process.Pid == at }) {
					if l.seen[word] == nil {
						l.seen[word] = map[int]bool{}
					}
					l.seen[word][at] = true
				}
			}
		}
		l.mu.Unlock()
		<-tick.C
	}
}

// more waits until so many more runs have ended well.
func (l *load) more(n int) {
	l.roles.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.kept)
	}
	before := count()
	eventually(l.roles.T, waitTime, "runs end well", func() bool { return count() >= before+n })
}

// check ends the load, reads all files that were acknowledged, and says which programs
// were on two workers.
func (l *load) check(s *service) {
	l.roles.Helper()
	l.end()
	l.group.Wait()
	for id, word := range l.kept {
		if got := s.do("GET", "/api/v1/files/"+id+"/content", ""); string(got.body) != word+"\n" {
			l.roles.Errorf("%s: %d %s", word, got.status, got.body)
		}
	}
	for word, workers := range l.seen {
		if len(workers) > 1 {
			l.roles.Errorf("%s ran on %d workers", word, len(workers))
		}
	}
	if len(l.seen) == 0 {
		l.roles.Error("no program was seen")
	}
}

// Workers that die or are stopped under load, and an api: no file that was acknowledged
// is lost, no program runs twice, and sessions continue with their files.
func TestClusterRolesFail(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := newRoles(t, 2, 2)
	one, two := r.apis[0], r.apis[1]
	load := r.load()
	load.more(3)
	const read = "print(open('kept.txt').read())"

	// A worker is stopped while it has a run and a session.
	session := r.live(one)
	word := fmt.Sprint("200", os.Getpid())
	id, worker := r.goesOn(one, word)
	before, lives := r.givenUp(worker.at()), worker.lives()
	frozen := worker.freeze()
	two.interrupted(id, "1")
	if got := two.again(session, "open('kept.txt','w').write('newer'); "+read); !strings.Contains(got, "newer") {
		t.Errorf("the session: %s", got)
	}
	eventually(t, waitTime, "the worker is given up", func() bool { return r.givenUp(worker.at()) > before })
	frozen.thaw()
	eventually(t, waitTime, "the worker begins anew", func() bool { return worker.lives() > lives })
	eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
	if got := one.again(session, read); !strings.Contains(got, "newer") {
		t.Errorf("what a stopped worker had came back: %s", got)
	}

	// One is killed.
	id, worker = r.goesOn(one, word)
	worker.kill()
	two.interrupted(id, "1")
	if got := two.again(session, read); !strings.Contains(got, "newer") {
		t.Errorf("the session: %s", got)
	}
	load.more(3)

	// An api is killed while a client follows its run at the other one.
	id, _ = r.goesOn(one, word)
	events := two.stream("GET", runs+"/"+id+"/events", "", "Last-Event-ID", "1")
	last := events.until("output", "up")
	one.kill()
	for _, more := events.next(); more; _, more = events.next() {
	}
	two.interrupted(id, last.id)
	eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
	if got := two.again(session, read); !strings.Contains(got, "newer") {
		t.Errorf("the session: %s", got)
	}
	load.more(3)
	load.check(two)
}
