package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var tenantAbuses = []misuse{
	{"A19 another owner's ids", testForeignIDs},
	{"A20 lists and pages", testForeignPages},
	{"A21 ids that are none", testOddIDs},
	{"A22 guessing tells nothing", testGuessing},
	{"A23 new key during a run", testRotation},
	{"A24 quota race", testQuotaRace},
	{"A25 what only operators may", func(t *testing.T, a *abuse) {
		key := a.owner()
		expect(t, "list", a.as(key, "GET", "/api/v1/keys", ""), 403, 404)
		expect(t, "create", a.as(key, "POST", "/api/v1/keys", `{"owner":"me","admin":true}`), 403, 404)
		expect(t, "revoke", a.as(key, "DELETE", "/api/v1/keys/"+strings.Split(a.admin, "_")[1], ""), 403, 404)
		expect(t, "the operator is still there", a.as(a.admin, "GET", "/api/v1/keys", ""), 200)
	}},
	{"A48 many sessions", func(t *testing.T, a *abuse) {
		key, other := a.owner(), a.owner()
		var last string
		refused := 0
		for range 120 {
			got := a.as(key, "POST", "/api/v1/sessions", `{}`)
			if got.status == 201 {
				var s struct{ ID string }
				got.decode(t, &s)
				last = s.ID
				continue
			}
			expect(t, "over the quota", got, 507)
			if !strings.Contains(string(got.body), "owner_sessions") || !strings.Contains(string(got.body), "delete sessions") {
				t.Fatalf("no hint: %s", got.body)
			}
			refused++
		}
		if refused != 20 {
			t.Errorf("%d of 120 were refused, 100 may be open", refused)
		}
		a.session(other, "{}")
		expect(t, "close one", a.as(key, "DELETE", "/api/v1/sessions/"+last, ""), 204)
		a.session(key, "{}")
	}},
}

// owned is one of everything.
type owned struct{ file, session, run, output string }

func (a *abuse) own(t *testing.T, key string) owned {
	t.Helper()
	var o owned
	o.file = a.store(key, "mine.txt", secret).ID
	o.session = a.session(key, `{"files":[{"id":"`+o.file+`"}]}`)
	r := a.runs(key, map[string]any{"language": "python", "session": o.session,
		"code": "open('out.txt','w').write('" + secret + "')"})
	o.run = r.ID
	if len(r.Files) != 1 {
		t.Fatalf("no output: %+v", r)
	}
	o.output = r.Files[0].ID
	return o
}

// ids replaces what differs in answers about different ids.
var ids = regexp.MustCompile(`[A-Za-z0-9_-]{21,}`)

// testForeignIDs asks for another owner's objects in every way there is: the
// answers are those about objects that do not exist, and nothing happens.
func testForeignIDs(t *testing.T, a *abuse) {
	alice, bob := a.owner(), a.owner()
	theirs, unknown := a.own(t, alice), owned{"AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA",
		"AAAAAAAAAAAAAAAAAAAAA"}
	ask := func(o owned) map[string]answer {
		answers := map[string]answer{}
		do := func(method, path, body string, headers ...string) {
			answers[fmt.Sprintf("%s %s %s", method, ids.ReplaceAllString(path, "ID"), ids.ReplaceAllString(body, "ID"))] = a.as(
				bob, method, path, body, headers...)
		}
		for _, id := range []string{o.file, o.output} {
			do("GET", "/api/v1/files/"+id, "")
			do("HEAD", "/api/v1/files/"+id, "")
			do("GET", "/api/v1/files/"+id+"/content", "")
			do("GET", "/api/v1/files/"+id+"/content", "", "Range", "bytes=0-0")
			do("DELETE", "/api/v1/files/"+id, "")
		}
		do("GET", "/api/v1/sessions/"+o.session, "")
		do("GET", "/api/v1/sessions/"+o.session+"/files", "")
		do("GET", "/api/v1/sessions/"+o.session+"/archive", "")
		do("DELETE", "/api/v1/sessions/"+o.session, "")
		do("GET", "/api/v1/runs/"+o.run, "")
		do("GET", "/api/v1/runs/"+o.run+"/events", "")
		do("DELETE", "/api/v1/runs/"+o.run, "")
		do("POST", runs, with(`"files":[{"id":"`+o.file+`"}]`))
		do("POST", runs, with(`"session":"`+o.session+`"`))
		do("POST", "/api/v1/sessions", `{"files":[{"id":"`+o.file+`"}]}`)
		do("GET", "/api/v1/files?after="+o.file, "")
		do("GET", "/api/v1/sessions?after="+o.session, "")
		do("GET", "/api/v1/runs?after="+o.run, "")
		return answers
	}
	foreign, missing := ask(theirs), ask(unknown)
	for what, got := range foreign {
		want := missing[what]
		if got.status != want.status || got.status != 404 && got.status != 400 {
			t.Errorf("%s: %d, and %d where there is nothing", what, got.status, want.status)
		}
		same := func(x answer) string { return ids.ReplaceAllString(string(x.body), "ID") }
		if same(got) != same(want) {
			t.Errorf("%s: %s, and %s where there is nothing", what, got.body, want.body)
		}
		for name := range got.header {
			if _, there := want.header[name]; !there {
				t.Errorf("%s: the header %s tells them apart", what, name)
			}
		}
	}
	a.ranNothing(t, bob)
	// Nothing has happened to them.
	expect(t, "the file", a.as(alice, "GET", "/api/v1/files/"+theirs.file, ""), 200)
	expect(t, "the output", a.as(alice, "GET", "/api/v1/files/"+theirs.output, ""), 200)
	expect(t, "the session", a.as(alice, "GET", "/api/v1/sessions/"+theirs.session, ""), 200)
	expect(t, "the run", a.as(alice, "GET", "/api/v1/runs/"+theirs.run, ""), 200)
	if got := a.as(bob, "GET", "/api/v1/runs?session="+theirs.session, ""); strings.Contains(
		string(got.body), theirs.run) {
		t.Errorf("the runs of a foreign session: %s", got.body)
	}
}

func testForeignPages(t *testing.T, a *abuse) {
	alice, bob := a.owner(), a.owner()
	for range 3 {
		a.own(t, alice)
	}
	mine := a.own(t, bob)
	for _, kind := range []string{"files", "sessions", "runs"} {
		var first struct{ Next string }
		a.as(alice, "GET", "/api/v1/"+kind+"?limit=1", "").decode(t, &first)
		if first.Next == "" {
			t.Fatalf("%s have one page", kind)
		}
		expect(t, "alice's page for bob", a.as(bob, "GET", "/api/v1/"+kind+"?limit=1&after="+first.Next, ""), 400, 404)
		listed := string(a.as(bob, "GET", "/api/v1/"+kind+"?limit=1000", "").body)
		if n := strings.Count(listed, `"created_at"`); kind == "sessions" && n != 1 {
			t.Errorf("bob's list of %s: %s", kind, listed)
		}
		for _, odd := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=99999999999999999999", "after=x",
			"after=" + strings.Repeat("A", 4096)} {
			expect(t, odd, a.as(bob, "GET", "/api/v1/"+kind+"?"+odd, ""), 400)
		}
	}
	if files := a.files(t, bob); len(files) != 2 || !slices.ContainsFunc(
		files, func(f file) bool { return f.ID == mine.file }) {
		t.Errorf("bob's files: %+v", files)
	}
}

func testOddIDs(t *testing.T, a *abuse) {
	key := a.owner()
	real := a.store(key, "kept", "kept").ID
	for _, id := range []string{
		"..%2fx", "%2fetc%2fpasswd", "%2e%2e", real + "%2f", "A" + strings.ToUpper(real), "%00", real + "%00",
		real + ".meta.json", strings.Repeat("a", 7000), "%20", "..;", "*",
	} {
		for _, at := range []string{"/api/v1/files/%s", "/api/v1/files/%s/content", "/api/v1/sessions/%s", "/api/v1/runs/%s",
			"/api/v1/runs/%s/events"} {
			for _, method := range []string{"GET", "DELETE"} {
				got := a.speak(fmt.Sprintf("%s "+at+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-Key: %s\r\n\r\n",
					method, id, key))
				if !strings.HasPrefix(got, "HTTP/1.1 40") || strings.HasPrefix(got, "HTTP/1.1 401") {
					t.Errorf("%s %s: %.200q", method, fmt.Sprintf(at, id), got)
				}
			}
		}
	}
	expect(t, "the real one", a.as(key, "GET", "/api/v1/files/"+real, ""), 200)
}

// testGuessing checks that neither time nor size tells whether an id is
// somebody's.
func testGuessing(t *testing.T, a *abuse) {
	alice, bob := a.owner(), a.owner()
	theirs := a.own(t, alice)
	for _, path := range []string{"/api/v1/files/%s", "/api/v1/files/%s/content", "/api/v1/sessions/%s",
		"/api/v1/runs/%s"} {
		id := map[string]string{"/api/v1/files/%s": theirs.file, "/api/v1/files/%s/content": theirs.output,
			"/api/v1/sessions/%s": theirs.session, "/api/v1/runs/%s": theirs.run}[path]
		var foreign, missing time.Duration
		for range 3 { // what differs does so each time, and a neighbour does not
			var times [2][]time.Duration
			for range 200 {
				for i, one := range []string{id, "AAAAAAAAAAAAAAAAAAAAA"} {
					began := time.Now()
					got := a.as(bob, "GET", fmt.Sprintf(path, one), "")
					times[i] = append(times[i], time.Since(began))
					if got.status != 404 || got.header.Get("ETag") != "" {
						t.Fatalf("%s: %d %v", path, got.status, got.header)
					}
				}
			}
			slices.Sort(times[0])
			slices.Sort(times[1])
			if foreign, missing = times[0][60], times[1][60]; alike(foreign, missing) {
				break
			}
		}
		if !alike(foreign, missing) {
			t.Errorf("%s: a foreign id takes %v, an unknown one %v", path, foreign, missing)
		}
	}
}

// alike reports whether nobody could tell two times apart.
func alike(a, b time.Duration) bool {
	return max(a, b) <= min(a, b)*3/2+200*time.Microsecond
}

// testRotation ends a key while its run goes on: the run ends well, and its
// owner reads it with the next key; nobody else does.
func testRotation(t *testing.T, a *abuse) {
	owner := fmt.Sprint("rotating-", time.Now().UnixNano())
	old := a.key(owner)
	got := a.as(old, "POST", runs,
		`{"language":"python","code":"import time; time.sleep(0.5); print('done')","wait":false}`)
	var r run
	got.decode(t, &r)
	if got.status != 202 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	expect(t, "revoke", a.as(a.admin, "DELETE", "/api/v1/keys/"+strings.Split(old, "_")[1], ""), 204)
	fresh, stranger := a.key(owner), a.owner()
	expect(t, "the old key", a.as(old, "GET", "/api/v1/runs/"+r.ID, ""), 401)
	expect(t, "a stranger", a.as(stranger, "GET", "/api/v1/runs/"+r.ID, ""), 404)
	eventually(t, waitTime, "the run ends well", func() bool {
		var now run
		a.as(fresh, "GET", "/api/v1/runs/"+r.ID, "").decode(t, &now)
		return now.Status == "ok" && now.Stdout == "done\n"
	})
}

// testQuotaRace has a hundred uploads compete for the last room.
func testQuotaRace(t *testing.T, a *abuse) {
	key := a.owner()
	part := strings.Repeat("x", 1<<20)
	for range 62 {
		a.store(key, "part", part)
	}
	var stored, refused atomic.Int64
	var crowd sync.WaitGroup
	for range 100 {
		crowd.Go(func() {
			resp, err := http.DefaultClient.Do(a.request("POST", "/api/v1/files?name=part", part, "X-API-Key", key,
				"Content-Type", "text/plain"))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case 201:
				stored.Add(1)
			case 507:
				refused.Add(1)
			default:
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	crowd.Wait()
	total := int64(0)
	for _, f := range a.files(t, key) {
		total += f.Size
	}
	if total > 64<<20 || stored.Load() > 2 || stored.Load()+refused.Load() != 100 {
		t.Errorf("%d bytes are kept; %d uploads were stored, %d refused", total, stored.Load(), refused.Load())
	}
	// A program still runs, and says what was not kept.
	r := a.runs(key, map[string]any{"language": "python",
		"code": "open('big','wb').write(b'x' * (3 << 20)); print('ran')"})
	raw, err := json.Marshal(r)
	if err != nil || r.Stdout != "ran\n" || len(r.Files) > 0 {
		t.Errorf("%s %v", raw, err)
	}
}
