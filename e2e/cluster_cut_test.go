package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/bucket/buckettest"
)

const readKept = "print(open('kept.txt').read())"

// over returns an address whose host is reached over a link.
func (k *link) over(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = k.address()
	return u.String()
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// refuses waits until a service takes no programs, and says when to ask again.
func (s *service) refuses() {
	s.t.Helper()
	var got answer
	eventually(s.t, waitTime, "programs are refused", func() bool {
		got = s.do("POST", runs, `{"language":"bash","code":"true"}`)
		return got.status == http.StatusServiceUnavailable
	})
	if got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), `"unavailable"`) {
		s.t.Errorf("%v %s", got.header, got.body)
	}
}

// farWorker starts a worker that is reached over a link, and reaches the apis over others.
func (r *roles) farWorker() (worker *service, in *link, out []*link) {
	r.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	at := port.Addr().String()
	port.Close()
	in = newLink(r.T, at)
	var apis []string
	for _, s := range r.apis {
		k := newLink(r.T, host(r.T, s.url))
		out, apis = append(out, k), append(apis, k.over(r.T, s.url))
	}
	worker = r.addWorker("AIRLOCK_LISTEN="+at, "AIRLOCK_ADVERTISE="+in.address(),
		"AIRLOCK_WORKER_API="+strings.Join(apis, ","))
	return worker, in, out
}

// A worker that the apis do not reach, and that reaches them, is as a dead one to them;
// it is given up once they do not hear it either.
func TestClusterWorkerCutOff(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := &roles{deployment: newDeployment(t)}
	r.addAPI()
	r.addAPI()
	one, two := r.apis[0], r.apis[1]
	far, in, out := r.farWorker()
	r.work()
	session := r.live(one)
	word := fmt.Sprint("400", os.Getpid())
	id, _ := r.goesOn(one, word)
	near := r.addWorker()
	near.logged("an api has taken this worker")

	in.cut()
	two.interrupted(id, "1")
	for range 10 {
		if got := one.do("POST", runs, `{"language":"bash","code":"true"}`); got.status != http.StatusOK {
			t.Errorf("a program that another worker has room for: %d %s", got.status, got.body)
		}
	}
	if got := two.again(session, "open('kept.txt','w').write('newer'); "+readKept); !strings.Contains(got, "newer") ||
		!strings.Contains(got, "restarted") {
		t.Errorf("the session: %s", got)
	}
	eventually(t, waitTime, "the program that nobody hears has ended", func() bool { return len(withWord(word)) == 0 })
	if n := r.givenUp(in.address()); n > 0 {
		t.Error("the worker was given up, though it is heard")
	}

	in.mend()
	near.stop()
	if got := two.again(session, readKept); !strings.Contains(got, "newer") {
		t.Errorf("on the worker that had it before: %s", got)
	}

	in.cut()
	for _, k := range out {
		k.cut()
	}
	eventually(t, waitTime, "the worker is given up", func() bool { return r.givenUp(in.address()) > 0 })
	one.refuses()
	lives := far.lives()
	in.mend()
	for _, k := range out {
		k.mend()
	}
	eventually(t, waitTime, "it begins anew", func() bool { return far.lives() > lives })
	if got := two.again(session, readKept); !strings.Contains(got, "newer") {
		t.Errorf("the session: %s", got)
	}
}

// An api that does not reach the database takes nothing new, and its peers take over; when
// none reaches it all wait, what runs ends, and is recorded afterwards.
func TestClusterDatabaseCutOff(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := &roles{deployment: newDeployment(t)}
	ways := make([]*link, 2)
	for i := range ways {
		ways[i] = newLink(t, host(t, r.database))
		r.addAPI("AIRLOCK_DATABASE=" + ways[i].over(t, r.database))
	}
	r.addWorker()
	r.work()
	one, two := r.apis[0], r.apis[1]
	status := func(s *service, id string) string { return find(object(t, s.do("GET", runs+"/"+id, "")), "status") }

	word := fmt.Sprint("500", os.Getpid())
	id, _ := r.goesOn(one, word)
	ways[0].cut()
	one.refuses()
	eventually(t, waitTime, "the run is marked", func() bool { return status(two, id) == "interrupted" })
	if !two.works() {
		t.Error("the other api takes no programs")
	}
	lives := one.lives()
	ways[0].mend()
	eventually(t, waitTime, "it begins anew", func() bool { return one.lives() > lives })
	eventually(t, waitTime, "it takes programs again", one.works)
	eventually(t, waitTime, "the program is gone", func() bool { return len(withWord(word)) == 0 })
	eventually(t, waitTime, "the run is given up where it was", func() bool { return status(one, id) == "interrupted" })

	events := one.stream("POST", runs, `{"language":"bash","code":"echo up; sleep $1","args":["4.`+word+`"]}`)
	id = find(events.until("started", "").data, "id")
	events.until("output", "up")
	long, _ := r.goesOn(two, "1"+word)
	before := one.lives() + two.lives()
	for _, way := range ways {
		way.cut()
	}
	one.refuses()
	two.refuses()
	eventually(t, waitTime, "the program has ended", func() bool { return len(withWord("4."+word)) == 0 })
	for _, way := range ways {
		way.mend()
	}
	var got map[string]any
	eventually(t, waitTime, "the run is recorded", func() bool {
		made := two.do("GET", runs+"/"+id, "")
		got = object(t, made)
		status := find(got, "status")
		return made.status == http.StatusOK && status != "queued" && status != "running"
	})
	if find(got, "status") != "ok" || find(got, "stdout") != "up\n" {
		t.Errorf("%v", got)
	}
	eventually(t, waitTime, "programs run again", two.works)
	if got := status(two, long); got != "running" {
		t.Errorf("a program that continues on a worker whose beats did not arrive meanwhile is %s", got)
	}
	if n := one.lives() + two.lives(); n > before {
		t.Errorf("%d nodes were given up while none reached the database", n-before)
	}
}

// Without its bucket a service runs what it has the files of, and acknowledges no file
// that is not kept.
func TestClusterBucketCutOff(t *testing.T) {
	t.Parallel()
	needPackages(t)
	r := &roles{deployment: newDeployment(t)}
	way := newLink(t, r.bucket.Address)
	r.addAPI("AIRLOCK_BLOBS=s3://" + buckettest.Name(r.blobs) + "/?region=us-east-1&endpoint=http://" + way.address())
	r.addWorker()
	r.work()
	one := r.apis[0]
	in := one.upload("in.txt", "cached")
	reads := `{"language":"bash","code":"cat in.txt","files":[{"id":"` + in.ID + `"}]}`
	makes := `{"language":"bash","code":"echo made > made.txt"}`
	var got run
	one.do("POST", runs, reads).decode(t, &got)
	if got.Stdout != "cached" {
		t.Fatalf("%+v", got)
	}

	way.cut()
	got = run{}
	one.do("POST", runs, reads).decode(t, &got)
	if got.Status != "ok" || got.Stdout != "cached" {
		t.Errorf("a run with files that are here: %+v", got)
	}
	if got := one.do("POST", "/api/v1/files?name=new.txt", "new"); got.status != http.StatusServiceUnavailable ||
		got.header.Get("Retry-After") == "" {
		t.Errorf("an upload: %d %v %s", got.status, got.header, got.body)
	}
	made := one.do("POST", runs, makes)
	got = run{}
	if made.status != http.StatusServiceUnavailable {
		made.decode(t, &got)
	}
	if len(got.Files) > 0 {
		t.Errorf("a run's file is acknowledged, and is nowhere: %s", made.body)
	}

	way.mend()
	eventually(t, waitTime, "a run leaves its file", func() bool {
		made := one.do("POST", runs, makes)
		got = run{}
		return made.status == http.StatusOK && json.Unmarshal(made.body, &got) == nil && len(got.Files) == 1
	})
	var all struct{ Files []file }
	one.do("GET", "/api/v1/files?limit=1000", "").decode(t, &all)
	for _, f := range all.Files {
		if got := one.do("GET", "/api/v1/files/"+f.ID+"/content", ""); got.status != http.StatusOK {
			t.Errorf("%s is recorded and cannot be read: %d %s", f.Name, got.status, got.body)
		}
	}
}
