package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const runs = "/api/v1/runs"

// with is a whole request to run, with one member more.
func with(member string) string {
	return `{"language":"python","code":"print('` + secret + `')",` + member + `}`
}

var bodyAbuses = []misuse{
	{"A1 bodies that are no object", func(t *testing.T, a *abuse) {
		key := a.owner()
		whole := with(`"args":[]`)
		for _, body := range []string{
			"", "null", "[]", `"x"`, "1", "true", whole[:len(whole)-1], whole + "x", whole + whole, "\ufeff" + whole, "\x00",
			whole + "\x00", "{\x00}\x00", "\xff\xfe{\x00}\x00", " ",
		} {
			for _, path := range []string{runs, "/api/v1/sessions"} {
				expect(t, body, a.as(key, "POST", path, body, "Content-Type", "application/json"), 400)
			}
		}
		a.ranNothing(t, key)
	}},
	{"A2 wrong types", func(t *testing.T, a *abuse) {
		key := a.owner()
		for member, field := range map[string]string{
			`"args":1`: "args", `"args":[1]`: "args[0]", `"stdin":[]`: "stdin", `"files":{}`: "files", `"files":[1]`: "files[0]",
			`"session":1`:      "session",
			`"timeout_ms":"5"`: "timeout_ms", `"timeout_ms":1e3`: "timeout_ms", `"timeout_ms":1.5`: "timeout_ms",
			`"timeout_ms":true`: "timeout_ms",
			`"timeout_ms":-1`:   "timeout_ms", `"timeout_ms":0`: "timeout_ms", `"timeout_ms":9223372036854775808`: "timeout_ms",
			`"timeout_ms":[]`: "timeout_ms",
			`"wait":"no"`:     "wait", `"limits":[]`: "limits", `"limits":{"memory_bytes":"1"}`: "limits.memory_bytes",
			`"limits":{"cpus":-1}`:       "limits.cpus",
			`"limits":{"processes":1e9}`: "limits.processes", `"extra":1`: "extra", `"LANGUAGE":"python"`: "LANGUAGE",
		} {
			got := a.as(key, "POST", runs, with(member))
			expect(t, member, got, 400, 422)
			if !strings.Contains(string(got.body), field) {
				t.Errorf("%s does not name %s: %s", member, field, got.body)
			}
		}
		expect(t, "NaN", a.as(key, "POST", runs, with(`"timeout_ms":NaN`)), 400)
		expect(t, "code=1", a.as(key, "POST", runs, `{"language":"python","code":1}`), 400)
		a.ranNothing(t, key)
	}},
	{"A3 duplicate keys", func(t *testing.T, a *abuse) {
		key := a.owner()
		for _, body := range []string{with(`"code":"x"`), with(`"c\u006fde":"x"`), with(`"limits":{"cpus":1,"cpus":1}`),
			`{"ttl_seconds":5,"ttl_seconds":6}`, `{"owner":"x","owner":"y"}`} {
			for _, path := range []string{runs, "/api/v1/sessions", "/api/v1/keys"} {
				got := a.as(key, "POST", path, body)
				expect(t, body, got, 400, 403)
				if got.status == 400 && !strings.Contains(string(got.body), "twice") {
					t.Errorf("%s at %s: %s", body, path, got.body)
				}
			}
		}
		a.ranNothing(t, key)
	}},
	{"A4 deep, wide and long", testCostlyBodies},
	{"A5 half characters", func(t *testing.T, a *abuse) {
		key := a.owner()
		for _, code := range []string{`\ud800`, `\udc00`, `\ud800\u0041`, "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80",
			"\xc0\x80"} {
			expect(t, code, a.as(key, "POST", runs, `{"language":"python","code":"`+code+`"}`), 400)
		}
		a.ranNothing(t, key)
	}},
	{"A6 content types", func(t *testing.T, a *abuse) {
		key := a.owner()
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded",
			"multipart/form-data; boundary=x", "application/json; charset=utf-16", "*/*", "a"} {
			expect(t, kind, a.as(key, "POST", runs, with(`"args":[]`), "Content-Type", kind), 415)
		}
		a.ranNothing(t, key)
	}},
	{"A7 too much", testTooMuch},
}

// testCostlyBodies checks that no body is dear: each costs at most five times the processor time of a plain
// text of 3 MB, which the same service refuses beside it. Without a bound on values "wide" and "empty" cost 19 times
// as much.
func testCostlyBodies(t *testing.T, a *abuse) {
	const most = 5
	key, pid := a.owner(), a.serving(t)
	plain := with(`"unknown":"` + strings.Repeat("x", 3_000_000) + `"`)
	costs := func(name, body string) time.Duration {
		began := cpuTime(t, pid)
		expect(t, name, a.as(key, "POST", runs, body), 400, 413)
		return cpuTime(t, pid) - began
	}
	for name, body := range map[string]string{
		"deep":  with(`"args":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"wide":  with(`"args":[` + strings.Repeat("1,", 1_000_000) + "1]"),
		"long":  `{"` + strings.Repeat("k", 25<<20) + `":1}`,
		"empty": with(`"args":[` + strings.Repeat("[],", 1_000_000) + "[]]"),
	} {
		// Other work of the service may fall into one attempt.
		cpu, floor, memory := time.Hour, time.Hour, int64(0)
		before := statusOf(t, pid, "VmRSS")
		for range 4 {
			floor = min(floor, costs("plain", plain))
			// The peak is forgotten, and counts anew.
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
				t.Fatal(err)
			}
			cpu = min(cpu, costs(name, body))
			memory = max(memory, statusOf(t, pid, "VmHWM")-before)
		}
		t.Logf("%s: %v of a processor, %.1f times a plain text's %v, and %d MiB", name, cpu, float64(cpu)/float64(floor),
			floor, memory>>20)
		if cpu > most*floor || memory > 32<<20 {
			t.Errorf("%s takes %v of a processor, a plain text %v, and %d MiB", name, cpu, floor, memory>>20)
		}
	}
	a.ranNothing(t, key)
}

func testTooMuch(t *testing.T, a *abuse) {
	key := a.owner()
	long := with(`"stdin":"` + strings.Repeat("x", 24<<20) + `"`)
	expect(t, "with its length", a.as(key, "POST", runs, long), 413)
	send := func(path, kind, encoding, body string) answer {
		t.Helper()
		req := a.request("POST", path, body, "Authorization", "Bearer "+key, "Content-Type", kind)
		req.ContentLength = -1 // in chunks
		if encoding != "" {
			req.Header.Set("Content-Encoding", encoding)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil { // it hung up before all was sent, as it may
			return answer{status: 413, body: []byte(`{"error":{"code":"cut","message":"cut","request_id":"cut"}}`)}
		}
		defer resp.Body.Close()
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		return answer{resp.StatusCode, resp.Header, text.Bytes()}
	}
	expect(t, "in chunks", send(runs, "application/json", "", long), 413)
	expect(t, "a file, in chunks", send("/api/v1/files?name=a", "application/octet-stream", "",
		strings.Repeat("x", 4<<20+1)), 413)
	expect(t, "a file", a.as(key, "POST", "/api/v1/files?name=a", strings.Repeat("x", 4<<20+1), "Content-Type",
		"application/octet-stream"), 413)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	z.Close()
	for _, path := range []string{runs, "/api/v1/files?name=a"} {
		expect(t, "gzip to "+path, send(path, "application/json", "gzip", bomb.String()), 415)
	}
	// What is announced is refused before it comes.
	announced := a.speak(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", runs, key, 24<<20+1))
	if !strings.HasPrefix(announced, "HTTP/1.1 413 ") {
		t.Errorf("announced: %.200q", announced)
	}
	a.ranNothing(t, key)
	if files := a.files(t, key); len(files) > 0 {
		t.Errorf("stored: %v", files)
	}
}

// serving is the process that serves: as root a small parent stands above it.
func (a *abuse) serving(t *testing.T) int {
	t.Helper()
	below := processes(func(p process) bool {
		return p.parent == a.cmd.Process.Pid && len(p.argv) > 1 &&
			p.argv[1] == "serve"
	})
	if len(below) == 1 {
		return below[0].pid
	}
	return a.cmd.Process.Pid
}

// cpuTime is the processor time that a process has used, all its threads
// together.
func cpuTime(t *testing.T, pid int) (used time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		if err != nil {
			continue // a thread that has just ended
		}
		first, _, _ := strings.Cut(string(b), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		used += time.Duration(n)
	}
	return used
}

// statusOf reads a size out of /proc/pid/status.
func statusOf(t *testing.T, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), name+":")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// ranNothing checks that an owner has no run.
func (a *abuse) ranNothing(t *testing.T, key string) {
	t.Helper()
	var page struct{ Runs []run }
	a.as(key, "GET", runs, "").decode(t, &page)
	if len(page.Runs) > 0 {
		t.Errorf("programs were run: %+v", page.Runs)
	}
}

// files lists an owner's files.
func (a *abuse) files(t *testing.T, key string) []file {
	t.Helper()
	var page struct{ Files []file }
	a.as(key, "GET", "/api/v1/files?limit=1000", "").decode(t, &page)
	return page.Files
}

var protocolAbuses = []misuse{
	{"A8 a bad key before the body", func(t *testing.T, a *abuse) {
		for _, key := range []string{"ak_aaaaaaaaaaaa_" + strings.Repeat("A", 43), "x"} {
			got := a.speak("POST " + runs + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + key +
				"\r\nContent-Type: application/json\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 401 ") {
				t.Errorf("%.200q", got)
			}
		}
	}},
	{"A10 what a proxy could read in two ways", func(t *testing.T, a *abuse) {
		key := "\r\nHost: localhost\r\nX-API-Key: " + a.owner()
		next := "GET /api/v1/files HTTP/1.1" + key + "\r\n\r\n"
		for name, text := range map[string]string{
			"length and chunks": "POST " + runs + " HTTP/1.1" + key +
				"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"two lengths":   "POST " + runs + " HTTP/1.1" + key + "\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
			"obs-fold":      "GET " + runs + " HTTP/1.1" + key + "\r\nX-A: b\r\n c\r\nContent-Length: x\r\n\r\n",
			"bare CR":       "GET " + runs + " HTTP/1.1\rHost: localhost\r\r",
			"HTTP/0.9":      "GET " + runs + "\r\n\r\n",
			"HTTP/3.7":      "GET " + runs + " HTTP/3.7" + key + "\r\n\r\n",
			"HTTP/2":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
			"absolute form": "GET http://evil.test" + runs + " HTTP/1.1" + key + "\r\nConnection: close\r\n\r\n",
			"no such chunk": "POST " + runs + " HTTP/1.1" + key +
				"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
			"nonsense": strings.Repeat("\x16\x03\x01\x02", 100),
		} {
			got := a.speak(text + next)
			if n := strings.Count(got, "HTTP/1.1 "); n > 1 || strings.Contains(got, `"files":[`) ||
				strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("%s: %.300q", name, got)
			}
		}
	}},
	{"A11 methods", func(t *testing.T, a *abuse) {
		key := a.owner()
		f := a.store(key, "kept", "kept")
		for _, path := range []string{runs, "/api/v1/files/" + f.ID, "/api/v1/sessions", "/health"} {
			for _, method := range []string{"PUT", "PATCH", "TRACE", "OPTIONS", "PROPFIND", "LINK"} {
				got := a.as(key, method, path, "")
				if got.status != 405 && got.status != 404 {
					t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
				}
			}
		}
		for _, override := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			expect(t, override, a.as(key, "GET", "/api/v1/files/"+f.ID+"?_method=DELETE", "", override, "DELETE"), 200)
		}
		expect(t, "still there", a.as(key, "GET", "/api/v1/files/"+f.ID, ""), 200)
	}},
	{"A12 paths", func(t *testing.T, a *abuse) {
		key := a.owner()
		f := a.store(key, "kept", secret)
		for _, path := range []string{
			"//api/v1/files/" + f.ID, "/api/v1//files/" + f.ID, "/api/v1/./files/" + f.ID, "/api/v1/x/../files/" + f.ID,
			"/api/v1/%2e%2e/v1/files/" + f.ID, "/api/v1/x/%2E./files/" + f.ID,
			"/api/v1/files%2f" + f.ID, "/api/v1/files/" + f.ID + "%2fcontent", "/api/v1/files/" + f.ID + ";x",
			"/api/v1;x/files/" + f.ID, "/api/v1/files/" + f.ID + "%00", "/api/v1/files\\" + f.ID,
			"/api/v1/\u2024\u2024/files", "/api/v1/..%c0%af", "/../../../../etc/passwd", "/api/v1/files/../../../../etc/passwd",
			"/%2e%2e/%2e%2e/etc/passwd", "/api/v1/" + strings.Repeat("a", 64<<10), "/.git/config", "/tmp/files",
		} {
			got := a.speak("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-Key: " + key + "\r\n\r\n")
			ok := strings.HasPrefix(got, "HTTP/1.1 404 ") || strings.HasPrefix(got, "HTTP/1.1 414 ") ||
				strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.HasPrefix(got, "HTTP/1.1 431 ")
			if !ok || strings.Contains(got, secret) || strings.Contains(got, "root:") || strings.Contains(got, `"sha256"`) {
				t.Errorf("%.80s: %.200q", path, got)
			}
		}
	}},
	{"A13 header injection", func(t *testing.T, a *abuse) {
		key := a.owner()
		name := "a%0d%0aX-Injected:%20yes%0d%0a.txt"
		// A file may be called so; no header may break at it.
		odd := a.store(key, name, "x")
		for _, path := range []string{"/api/v1/files/" + odd.ID, "/api/v1/files/" + odd.ID + "/content"} {
			got := a.speak("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-Key: " + key + "\r\n\r\n")
			if header, _, _ := strings.Cut(got, "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") ||
				strings.Contains(header, "\nX-Injected") {
				t.Errorf("%s: %.400q", path, got)
			}
		}
		expect(t, "deleted", a.as(key, "DELETE", "/api/v1/files/"+odd.ID, ""), 204)
		mime := a.as(key, "POST", "/api/v1/files?name=a.txt", "x", "Content-Type", "text/html")
		var f file
		mime.decode(t, &f)
		for _, query := range []string{"%0d%0aX-Injected:yes", "limit=1%0d%0aX-Injected:yes", "after=%0aX-Injected:yes"} {
			got := a.as(key, "GET", "/api/v1/files?"+query, "")
			if got.header.Get("X-Injected") != "" || strings.Contains(string(got.body), "X-Injected") {
				t.Errorf("%s: %v %s", query, got.header, got.body)
			}
		}
		for _, id := range []string{strings.Repeat("i", 10<<10), "<script>alert(1)</script>", "a b", "short"} {
			got := a.as(key, "GET", "/api/v1/files/"+f.ID, "", "X-Request-Id", id)
			if echo := got.header.Get("X-Request-Id"); echo == id || len(echo) > 64 {
				t.Errorf("the id %.50s comes back as %.50s", id, echo)
			}
		}
	}},
	{"A17 keys", testKeys},
	{"A18 key in the query", func(t *testing.T, a *abuse) {
		key := a.owner()
		for _, query := range []string{"key=" + key, "api_key=" + key, "access_token=" + key, "x=" + key} {
			expect(t, "alone", a.do("GET", "/api/v1/files?"+query, ""), 401)
			expect(t, "beside the header", a.as(key, "GET", "/api/v1/files?"+query, ""), 401)
		}
	}},
	{"A55 other names", func(t *testing.T, a *abuse) {
		key := a.owner()
		port := a.url[strings.LastIndexByte(a.url, ':'):]
		for _, host := range []string{"attacker.test" + port, "attacker.test", "127.0.0.1.attacker.test" + port,
			"localhost.attacker.test", "0.0.0.0" + port, "169.254.169.254", "[::ffff:1.2.3.4]"} {
			got := a.speak("GET /api/v1/files HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nX-API-Key: " + key +
				"\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 421 ") && !strings.HasPrefix(got, "HTTP/1.1 403 ") {
				t.Errorf("%s: %.200q", host, got)
			}
		}
		for _, origin := range []string{"http://attacker.test", "null", "http://127.0.0.1:1"} {
			expect(t, origin, a.as(key, "POST", runs, with(`"args":[]`), "Origin", origin), 403)
		}
		a.ranNothing(t, key)
	}},
}

func testKeys(t *testing.T, a *abuse) {
	good := a.owner()
	revoked := a.owner()
	id := strings.Split(revoked, "_")[1]
	expect(t, "revoke", a.do("DELETE", "/api/v1/keys/"+id, "", "X-API-Key", a.admin), 204)
	for name, header := range map[string]string{
		"none": "", "an empty one": "Authorization: ", "Bearer": "Authorization: Bearer",
		"Bearer and a space": "Authorization: Bearer ", "no scheme": "Authorization: " + good,
		"two headers":      "Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good,
		"something behind": "Authorization: Bearer " + good + " x",
		"a part":           "Authorization: Bearer " + good[:len(good)-1], "more": "Authorization: Bearer " + good + "A",
		"revoked":        "Authorization: Bearer " + revoked,
		"8 KB":           "Authorization: Bearer " + strings.Repeat("a", 8<<10),
		"not ASCII":      "Authorization: Bearer \xc3\xa9" + good,
		"other case":     "Authorization: Bearer " + strings.ToUpper(good),
		"Basic nonsense": "Authorization: Basic !!!", "two that differ": "X-API-Key: x\r\nX-API-Key: " + good,
		"SQL": "X-API-Key: ' OR 1=1 --", "the id alone": "X-API-Key: " + strings.Split(good, "_")[1],
		"64 ids": "X-API-Key: ak_" + strings.Repeat("a", 64),
	} {
		got := a.speak("GET /api/v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + "\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 401 ") && (name != "none" || !strings.HasPrefix(got, "HTTP/1.1 400 ")) {
			t.Errorf("%s: %.200q", name, got)
		}
	}
	huge := a.speak("GET /api/v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " +
		strings.Repeat("a", 1<<20) + "\r\n\r\n")
	if huge != "" && !strings.HasPrefix(huge, "HTTP/1.1 431 ") && !strings.HasPrefix(huge, "HTTP/1.1 401 ") {
		t.Errorf("1 MB: %.200q", huge)
	}
	expect(t, "the good one", a.as(good, "GET", "/api/v1/files", ""), 200)
}
