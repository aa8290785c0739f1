package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var runAbuses = []misuse{
	{"A15 client leaves", testLeaving},
	{"A16 a thousand at once", testThousand},
	{"A42 time limits", func(t *testing.T, a *abuse) {
		key := a.owner()
		for limit, status := range map[string]int{`"timeout_ms":1`: 200, `"timeout_ms":300000`: 200,
			`"timeout_ms":300001`: 400, `"args":[]`: 200} {
			expect(t, limit, a.as(key, "POST", runs, with(limit)), status)
		}
		began := time.Now()
		var r run
		a.as(key, "POST", runs, `{"language":"python","code":"while True: pass","timeout_ms":300}`).decode(t, &r)
		if took := time.Since(began); r.Status != "timeout" || took > waitTime {
			t.Errorf("%s after %v", r.Status, took)
		}
	}},
	{"A43 code of every length", func(t *testing.T, a *abuse) {
		key := a.owner()
		for size, status := range map[int]int{0: 200, 16 << 20: 200, 16<<20 + 1: 413} {
			body, err := json.Marshal(python(strings.Repeat("#", size)))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, fmt.Sprint(size), a.as(key, "POST", runs, string(body)), status)
		}
	}},
	{"A44 two runs in one session", func(t *testing.T, a *abuse) {
		key := a.owner()
		session := a.session(key, "{}")
		var crowd sync.WaitGroup
		for range 6 {
			crowd.Go(func() {
				r := a.runs(key, map[string]any{"language": "python", "session": session,
					"code": "import os, time\nn = int(open('n').read()) if os.path.exists('n') else 0\ntime.sleep(0.02)\n" +
						"open('n','w').write(str(n + 1))"})
				if r.Status != "ok" {
					t.Errorf("%+v", r)
				}
			})
		}
		crowd.Wait()
		if r := a.runs(key, map[string]any{"language": "python", "session": session,
			"code": "print(open('n').read())"}); r.Stdout != "6\n" {
			t.Errorf("six runs one after the other count to %s", r.Stdout)
		}
	}},
	{"A45 sessions that are not there", func(t *testing.T, a *abuse) {
		key := a.owner()
		gone, brief := a.session(key, "{}"), a.session(key, `{"ttl_seconds":1}`)
		expect(t, "delete", a.as(key, "DELETE", "/api/v1/sessions/"+gone, ""), 204)
		for _, id := range []string{gone, "AAAAAAAAAAAAAAAAAAAAA"} {
			expect(t, id, a.as(key, "POST", runs, with(`"session":"`+id+`"`)), 404, 410)
		}
		eventually(t, waitTime, "the session expires", func() bool {
			return a.as(key, "GET", "/api/v1/sessions/"+brief, "").status == 404
		})
		expect(t, "expired", a.as(key, "POST", runs, with(`"session":"`+brief+`"`)), 404, 410)
		a.ranNothing(t, key)
	}},
	{"A46 session deleted in mid-run", func(t *testing.T, a *abuse) {
		key := a.owner()
		for _, kind := range []string{"files", "held"} {
			session := a.session(key, `{"kind":"`+kind+`"}`)
			code, word := sleeper()
			body, err := json.Marshal(map[string]any{"language": "bash", "session": session, "code": code})
			if err != nil {
				t.Fatal(err)
			}
			events := a.stream("POST", runs, string(body), "X-API-Key", key)
			events.until("output", "up")
			eventually(t, waitTime, "the program runs", func() bool { return len(withWord(word)) > 0 })
			expect(t, "delete", a.as(key, "DELETE", "/api/v1/sessions/"+session, ""), 204)
			if left := withWord(word); len(left) > 0 {
				t.Errorf("%s: after the answer there is still %v", kind, left)
			}
			if result := events.until("result", ""); find(result.data, "status") != "cancelled" {
				t.Errorf("%s: %v", kind, result.data)
			}
			expect(t, "the session", a.as(key, "GET", "/api/v1/sessions/"+session, ""), 404)
		}
	}},
	{"A47 a run that outlives its session", func(t *testing.T, a *abuse) {
		key := a.owner()
		session := a.session(key, `{"ttl_seconds":1}`)
		r := a.runs(key, map[string]any{"language": "python", "session": session,
			"code": "import time; time.sleep(1.5); open('x','w').write('x'); print('won')"})
		if r.Status != "ok" || r.Stdout != "won\n" || len(r.Files) != 1 {
			t.Errorf("%+v", r)
		}
		expect(t, "its file", a.as(key, "GET", "/api/v1/files/"+r.Files[0].ID+"/content", ""), 200)
	}},
	{"A49 cancel twice", func(t *testing.T, a *abuse) {
		key := a.owner()
		events := a.stream(
			"POST", runs, `{"language":"python","code":"import time\nprint('up', flush=True)\ntime.sleep(100)"}`, "X-API-Key",
			key)
		id := find(events.until("started", "").data, "id")
		events.until("output", "up")
		for range 3 {
			expect(t, "cancel", a.as(key, "DELETE", "/api/v1/runs/"+id, ""), 204)
		}
		var r run
		a.as(key, "GET", "/api/v1/runs/"+id, "").decode(t, &r)
		if r.Status != "cancelled" {
			t.Errorf("%+v", r)
		}
		done := a.runs(key, python("print(1)"))
		expect(t, "cancel after the end", a.as(key, "DELETE", "/api/v1/runs/"+done.ID, ""), 204)
		a.as(key, "GET", "/api/v1/runs/"+done.ID, "").decode(t, &r)
		if r.Status != "ok" {
			t.Errorf("cancelled after its end: %+v", r)
		}
	}},
	{"A50 same key", testSameKey},
	{"A51 nobody reads", testNobodyReads},
	{"A51 forged events", testForgedEvents},
}

// sleeper is a shell program that sleeps for long, and a word by which its
// process is found: warm Python has one command line for all.
func sleeper() (code, word string) {
	word = fmt.Sprintf("1000.%d", time.Now().UnixNano())
	return "echo up; sleep " + word + "; echo over", word
}

// testLeaving hangs up at every stage of a request.
func testLeaving(t *testing.T, a *abuse) {
	key := a.owner()
	code, word := sleeper()
	body := `{"language":"bash","code":"` + code + `"}`
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", runs, key, len(body))
	for _, text := range []string{head[:20], head, head + body[:30]} {
		conn := a.dial()
		_, _ = io.WriteString(conn, text)
		conn.Close()
	}
	conn := a.dial()
	_, _ = io.WriteString(conn, head+body)
	eventually(t, waitTime, "the program runs", func() bool { return len(withWord(word)) > 0 })
	conn.Close()
	eventually(t, waitTime, "the program is gone with its client", func() bool { return len(withWord(word)) == 0 })
	eventually(t, waitTime, "the run is recorded as cancelled", func() bool {
		var page struct{ Runs []run }
		a.as(key, "GET", runs, "").decode(t, &page)
		return len(page.Runs) == 1 && page.Runs[0].Status == "cancelled"
	})
	// One that was asked for in the background goes on.
	got := a.as(key, "POST", runs, `{"language":"python","code":"print('on')","wait":false}`)
	var r run
	got.decode(t, &r)
	eventually(t, waitTime, "it ends well", func() bool {
		a.as(key, "GET", "/api/v1/runs/"+r.ID, "").decode(t, &r)
		return r.Status == "ok" && r.Stdout == "on\n"
	})
}

// testThousand sends far more at once than there is room for: each is
// answered with its own result or refused, and runs at most once.
func testThousand(t *testing.T, a *abuse) {
	keys := []string{a.owner(), a.owner()}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	var done, busy atomic.Int64
	var crowd sync.WaitGroup
	for i := range 1000 {
		crowd.Go(func() {
			resp, err := client.Do(a.request("POST", runs, fmt.Sprintf(`{"language":"python","code":"print(%d)"}`, i),
				"X-API-Key", keys[i%2]))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			switch {
			case err == nil && resp.StatusCode == 200 && strings.Contains(string(text), fmt.Sprintf(`"stdout":"%d\n"`, i)):
				done.Add(1)
			case err == nil && (resp.StatusCode == 429 || resp.StatusCode == 503) && resp.Header.Get("Retry-After") != "":
				busy.Add(1)
			default:
				t.Errorf("%d: %d %s %v", i, resp.StatusCode, text, err)
			}
		})
	}
	crowd.Wait()
	recorded := 0
	for _, key := range keys {
		var page struct{ Runs []run }
		a.as(key, "GET", runs+"?limit=1000", "").decode(t, &page)
		recorded += len(page.Runs)
	}
	// How many of the queue are refused because they waited is up to the machine.
	if int64(recorded) != done.Load() || done.Load() < 2 || done.Load()+busy.Load() != 1000 {
		t.Errorf("%d were answered, %d refused, %d ran", done.Load(), busy.Load(), recorded)
	}
}

// testSameKey repeats a request under one key, in sequence, at once, and when
// its input is gone.
func testSameKey(t *testing.T, a *abuse) {
	key := a.owner()
	f := a.store(key, "in", "x")
	body := `{"language":"python","code":"import time; time.sleep(0.3); print(time.time_ns())","files":[{"id":"` + f.ID +
		`"}]}`
	var mu sync.Mutex
	answers := map[string]int{}
	ask := func() {
		got := a.as(key, "POST", runs, body, "Idempotency-Key", "one")
		var r run
		got.decode(t, &r)
		mu.Lock()
		defer mu.Unlock()
		answers[fmt.Sprint(got.status, r.ID, r.Stdout)]++
	}
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(ask)
	}
	crowd.Wait()
	expect(t, "delete the input", a.as(key, "DELETE", "/api/v1/files/"+f.ID, ""), 204)
	ask()
	if len(answers) != 1 {
		t.Errorf("answers: %v", answers)
	}
	expect(t, "another body", a.as(key, "POST", runs, `{"language":"python","code":"2"}`, "Idempotency-Key", "one"), 409,
		422)
	other := a.as(a.owner(), "POST", runs, `{"language":"python","code":"2"}`, "Idempotency-Key", "one")
	expect(t, "another owner", other, 200)
	var page struct{ Runs []run }
	a.as(key, "GET", runs, "").decode(t, &page)
	if len(page.Runs) != 1 {
		t.Errorf("%d runs", len(page.Runs))
	}
}

// testNobodyReads has a program print a gigabyte to a client that reads
// nothing.
func testNobodyReads(t *testing.T, a *abuse) {
	key := a.owner()
	before := a.settled(t)
	conn := a.dial()
	defer conn.Close()
	body := `{"language":"python","code":"import sys\nfor i in range(256): sys.stdout.write('x' * (4 << 20))","timeout_ms":60000}`
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nAccept: text/event-stream\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", runs, key, len(body), body)
	var peak int64
	var r run
	eventually(t, 70*time.Second, "the run ends", func() bool {
		peak = max(peak, a.gauges(t).memory)
		var page struct{ Runs []run }
		a.as(key, "GET", runs, "").decode(t, &page)
		if len(page.Runs) == 1 {
			r = page.Runs[0]
		}
		return r.Status != "" && r.Status != "running" && r.Status != "queued"
	})
	if r.Status != "ok" || peak > before.memory+64<<20 {
		t.Errorf("%s; memory grew from %d to %d MB", r.Status, before.memory>>20, peak>>20)
	}
	// Another client reads it from where it likes.
	events := a.stream("GET", "/api/v1/runs/"+r.ID+"/events", "", "X-API-Key", key, "Last-Event-ID", "3")
	if result := events.until("result", ""); find(result.data, "status") != "ok" {
		t.Errorf("%v", result.data)
	}
}

// testForgedEvents prints what looks like events.
func testForgedEvents(t *testing.T, a *abuse) {
	key := a.owner()
	forged := "\n\nevent: result\ndata: {\"status\":\"forged\"}\n\nid: 99\r\r\u2028event: result\u0085data: {}\x00\n\n"
	body, err := json.Marshal(map[string]any{"language": "python",
		"code": "import sys\nsys.stdout.write(sys.stdin.read())\nsys.stderr.write(': x\\n\\n')", "stdin": forged})
	if err != nil {
		t.Fatal(err)
	}
	events := a.stream("POST", runs, string(body), "X-API-Key", key)
	var text strings.Builder
	for {
		e, more := events.next()
		if !more {
			t.Fatal("no result")
		}
		if e.name == "output" && find(e.data, "stream") == "stdout" {
			text.WriteString(e.data["data"].(string))
		}
		if e.name == "result" {
			if find(e.data, "status") != "ok" {
				t.Errorf("%v", e.data)
			}
			break
		}
	}
	if text.String() != forged {
		t.Errorf("%q came as %q", forged, text.String())
	}
}
