package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var fileAbuses = []misuse{
	{"A27 names", testNames},
	{"A28 forms", testForms},
	{"A29 sizes", testSizes},
	{"A30 one name at once", testOneName},
	{"A31 delete while downloading", testDeleteDownload},
	{"A32 sixteen deletes", testManyDeletes},
	{"A33 a session that goes", testGoingSession},
	{"A34 A35 A37 ranges, tags, HEAD", testRanges},
	{"A36 what a browser would run", testActive},
	{"A38 outputs that are no files", testOddOutputs},
	{"A39 archive", testArchive},
}

func testNames(t *testing.T, a *abuse) {
	key := a.owner()
	for _, name := range []string{"../a", "/abs", "a/../../b", "\x00", strings.Repeat("a", 256), ".", ".."} {
		expect(t, name, a.as(key, "POST", "/api/v1/files?name="+url.QueryEscape(name), secret, "Content-Type", "text/plain"),
			400, 422)
	}
	if files := a.files(t, key); len(files) > 0 {
		t.Fatalf("refused, and stored: %+v", files)
	}
	// These are only strange. Each comes back as it was, and works as an input.
	for _, name := range []string{"~/x", "%2e%2e/x", "con", "a/", ".env", "-rf", "cafe\u0301", "caf\u00e9", "$(id)",
		"a b\"c'd", "💥.txt", "<script>", "sitecustomize.py", "python3", "json.py", `..\b`, `C:\x`, "a\nb", "a\u202eb",
		"a\u200db"} {
		f := a.store(key, url.QueryEscape(name), secret+name)
		if f.Name != name {
			t.Errorf("%q comes back as %q", name, f.Name)
		}
		r := a.runs(key, map[string]any{
			"language": "python", "files": []map[string]string{{"id": f.ID}},
			"code": "import os, json\nfor d, _, fs in os.walk('.'):\n  for f in fs:\n" +
				"    if f != 'main.py': print(open(os.path.join(d, f)).read()[" + fmt.Sprint(len(secret)) + ":])",
		})
		if r.Stdout != name+"\n" && name != "json.py" {
			t.Errorf("%q as an input: %+v", name, r)
		}
	}
	main := a.store(key, "main.py", "print('not this')")
	got := a.as(key, "POST", runs, with(`"files":[{"id":"`+main.ID+`"}]`))
	if got.status == 200 && strings.Contains(string(got.body), "not this") {
		t.Errorf("an input took the place of the code: %s", got.body)
	}
}

func testForms(t *testing.T, a *abuse) {
	key := a.owner()
	part := func(header, content string) string { return "--B\r\n" + header + "\r\n\r\n" + content + "\r\n" }
	named := `Content-Disposition: form-data; name="file"; filename="a.txt"`
	for name, form := range map[string]string{
		"no boundary": "", "no parts": "--B--\r\n", "no end": part(named, secret),
		"cut": "--B\r\n" + named + "\r\n\r\n" + secret, "two files": part(named, "x") + part(named, "y") + "--B--\r\n",
		"many parts": strings.Repeat(part(`Content-Disposition: form-data; name="ttl_seconds"`, "5"), 40_000) +
			part(named, "x") + "--B--\r\n",
		"1 MB header":       part(named+"\r\nX-Long: "+strings.Repeat("x", 1<<20), "x") + "--B--\r\n",
		"names that differ": part(named+`; filename*=UTF-8''b.txt`, "x") + "--B--\r\n",
		"no name":           part("Content-Disposition: form-data", "x") + "--B--\r\n",
	} {
		kind := "multipart/form-data; boundary=B"
		if name == "no boundary" {
			kind = "multipart/form-data"
		}
		expect(t, name, a.as(key, "POST", "/api/v1/files", form, "Content-Type", kind), 400, 413)
	}
	if files := a.files(t, key); len(files) > 0 {
		t.Errorf("stored: %+v", files)
	}
}

func testSizes(t *testing.T, a *abuse) {
	key := a.owner()
	const most = 4 << 20
	for size, status := range map[int]int{0: 201, 1: 201, most: 201, most + 1: 413} {
		got := a.as(key, "POST", "/api/v1/files?name=a", strings.Repeat("x", size), "Content-Type",
			"application/octet-stream")
		expect(t, fmt.Sprint(size, " bytes"), got, status)
	}
	before := len(a.files(t, key))
	announced := a.speak(
		fmt.Sprintf("POST /api/v1/files?name=a HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
			key, int64(5)<<30, secret))
	if !strings.HasPrefix(announced, "HTTP/1.1 413 ") {
		t.Errorf("5 GB announced: %.200q", announced)
	}
	// Announced and not sent: the client hangs up.
	conn := a.dial()
	fmt.Fprintf(conn,
		"POST /api/v1/files?name=a HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: 1000000\r\n\r\n%s", key,
		strings.Repeat("x", 1000))
	conn.Close()
	eventually(t, waitTime, "the part that came is gone", func() bool {
		parts, err := fs.Glob(dirOf(a.data), "files/tmp/*")
		return err == nil && len(parts) == 0
	})
	if after := len(a.files(t, key)); after != before {
		t.Errorf("%d files more", after-before)
	}
}

func testOneName(t *testing.T, a *abuse) {
	key := a.owner()
	var crowd sync.WaitGroup
	for i := range 20 {
		crowd.Go(func() {
			for round := range 5 {
				content := strings.Repeat(fmt.Sprintf("%d %d ", i, round), 20_000)
				f := a.store(key, "same", content)
				hash := sha256.Sum256([]byte(content))
				got := a.as(key, "GET", "/api/v1/files/"+f.ID+"/content", "")
				if f.SHA256 != hex.EncodeToString(hash[:]) || string(got.body) != content {
					t.Errorf("%d, %d: bytes that are not what was sent", i, round)
				}
				expect(t, "delete", a.as(key, "DELETE", "/api/v1/files/"+f.ID, ""), 204)
			}
		})
	}
	crowd.Wait()
}

func testDeleteDownload(t *testing.T, a *abuse) {
	key := a.owner()
	content := strings.Repeat("0123456789abcdef", 1<<18)
	f := a.store(key, "a", content)
	resp, err := http.DefaultClient.Do(a.request("GET", "/api/v1/files/"+f.ID+"/content", "", "X-API-Key", key))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	begin := make([]byte, 1000)
	if _, err := io.ReadFull(resp.Body, begin); err != nil {
		t.Fatal(err)
	}
	expect(t, "delete", a.as(key, "DELETE", "/api/v1/files/"+f.ID, ""), 204)
	expect(t, "another download", a.as(key, "GET", "/api/v1/files/"+f.ID+"/content", ""), 404)
	rest, err := io.ReadAll(resp.Body)
	if err == nil && string(begin)+string(rest) != content {
		t.Error("other bytes came")
	}
}

func testManyDeletes(t *testing.T, a *abuse) {
	key := a.owner()
	f := a.store(key, "a", "a")
	session := a.session(key, "{}")
	for _, path := range []string{"/api/v1/files/" + f.ID, "/api/v1/sessions/" + session} {
		var gone, missing atomic.Int64
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				switch got := a.as(key, "DELETE", path, ""); got.status {
				case 204:
					gone.Add(1)
				case 404:
					missing.Add(1)
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		crowd.Wait()
		if gone.Load() != 1 || missing.Load() != 15 {
			t.Errorf("%s: %d times 204, %d times 404", path, gone.Load(), missing.Load())
		}
	}
}

// testGoingSession runs in a session, with a file, while both are deleted.
func testGoingSession(t *testing.T, a *abuse) {
	key := a.owner()
	for range 5 {
		f := a.store(key, "in.txt", "whole")
		session := a.session(key, "{}")
		var crowd sync.WaitGroup
		for range 3 {
			crowd.Go(func() {
				got := a.as(key, "POST", runs, `{"language":"python","code":"print(open('in.txt').read())","session":"`+session+
					`","files":[{"id":"`+f.ID+`"}]}`)
				if got.status != 200 && got.status != 404 && got.status != 409 {
					t.Errorf("%d %s", got.status, got.body)
				}
				if got.status == 200 && strings.Contains(string(got.body), `"ok"`) &&
					!strings.Contains(string(got.body), `whole\n`) {
					t.Errorf("half: %s", got.body)
				}
			})
		}
		crowd.Go(func() { expect(t, "delete", a.as(key, "DELETE", "/api/v1/sessions/"+session, ""), 204) })
		crowd.Go(func() { expect(t, "delete", a.as(key, "DELETE", "/api/v1/files/"+f.ID, ""), 204) })
		crowd.Wait()
		expect(t, "afterwards", a.as(key, "GET", "/api/v1/sessions/"+session, ""), 404)
	}
}

func testRanges(t *testing.T, a *abuse) {
	key := a.owner()
	f := a.store(key, "a.csv", "0123456789")
	at := "/api/v1/files/" + f.ID + "/content"
	tag := `"` + f.SHA256 + `"`
	for header, want := range map[string]struct {
		status int
		body   string
	}{
		"": {200, "0123456789"}, "Range bytes=0-0": {206, "0"}, "Range bytes=-3": {206, "789"},
		"Range bytes=7-": {206, "789"}, "Range bytes=5-99": {206, "56789"},
		"Range bytes=10-": {416, ""}, "Range bytes=9-5": {416, ""},
		"Range bytes=" + strings.Repeat("0-9,", 1000) + "0-9": {200, "0123456789"},
		"Range lines=1-2": {416, ""}, "If-None-Match " + tag: {304, ""}, "If-Match \"x\"": {412, ""},
		"If-Modified-Since Wed, 01 Jan 2200 00:00:00 GMT": {304, ""},
	} {
		name, value, _ := strings.Cut(header, " ")
		if header == "" {
			name = "X-Nothing"
		}
		got, head := a.as(key, "GET", at, "", name, value), a.as(key, "HEAD", at, "", name, value)
		if got.status != want.status || want.status < 300 && string(got.body) != want.body {
			t.Errorf("%.60s: %d %.100q", header, got.status, got.body)
		}
		for _, h := range []http.Header{got.header, head.header} {
			h.Del("Date")
			h.Del("X-Request-Id")
			if got.status >= 300 { // where there is no body either way, only one may say so
				h.Del("Content-Length")
			}
		}
		if same := maps.EqualFunc(got.header, head.header, slices.Equal); head.status != got.status || len(head.body) > 0 ||
			!same {
			t.Errorf("%.60s: HEAD answers %d %v, GET %d %v", header, head.status, head.header, got.status, got.header)
		}
	}
	if got := a.as(key, "GET", at, "", "Range", "bytes=2-3", "If-Range", tag); got.status != 206 ||
		string(got.body) != "23" || got.header.Get("ETag") != tag {
		t.Errorf("If-Range: %d %q %v", got.status, got.body, got.header)
	}
	if got := a.as(key, "GET", at, "", "Range", "bytes=2-3", "If-Range", `"other"`); got.status != 200 ||
		len(got.body) != 10 {
		t.Errorf("If-Range of another: %d %q", got.status, got.body)
	}
	if got := a.as(key, "GET", at, "", "Range", "bytes=0-1,4-5"); got.status != 206 && got.status != 200 {
		t.Errorf("two ranges: %d", got.status)
	}
}

// testActive stores what a browser would run, under names that break headers.
func testActive(t *testing.T, a *abuse) {
	key := a.owner()
	for name, content := range map[string]string{
		"x.html":  "<script>alert('HOSTILE-XSS')</script>",
		"x.svg":   "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
		"x.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'/>",
		"x.xml":   "<?xml version='1.0'?><x/>", "x.pdf": "%PDF-1.4", "x.js": "alert(1)", "x.swf": "FWS",
		"x.mht": "MIME-Version: 1.0", "x": "<html><script>", "a\"; filename=\"b.html": "<b>", "a;b='c.html": "<b>",
		"\u00e9\u4e2d.html": "<b>", "x.png": "<script>alert(1)</script>",
	} {
		f := a.store(key, url.QueryEscape(name), content)
		h := a.as(key, "GET", "/api/v1/files/"+f.ID+"/content", "").header
		kind := h.Get("Content-Type")
		for _, bad := range []string{"html", "svg", "xml", "pdf", "javascript", "flash"} {
			if strings.Contains(kind, bad) {
				t.Errorf("%q is served as %s", name, kind)
			}
		}
		disposition := h.Get("Content-Disposition")
		if !strings.HasPrefix(disposition, "attachment; filename=\"") || strings.Count(disposition, `"`) != 2 ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(
			h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") ||
			h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%q: %v", name, h)
		}
	}
}

// testOddOutputs leaves all that is not a plain file.
func testOddOutputs(t *testing.T, a *abuse) {
	key := a.owner()
	r := a.runs(key, map[string]any{"language": "python", "code": `
import os, socket
os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.symlink('plain', 'inner'); os.symlink('self', 'self')
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
try: os.mknod('device', 0o020666, os.makedev(1, 3))
except OSError: pass
open('plain', 'w').write('plain'); os.link('plain', 'hard')
f = open('sparse', 'wb'); f.truncate(10 << 20); f.close()
f = open('huge', 'wb'); f.truncate(100 << 20); f.close()
os.makedirs('d/' * 30, exist_ok=True); open('d/' * 30 + 'deep', 'w').write('deep')
os.mkdir('locked'); open('locked/in', 'w').write('in'); os.chmod('locked', 0); os.chmod('plain', 0)
open(b'\xff\xfe', 'w').write('bytes'); open('new\nline', 'w').write('x'); open('a\\b', 'w').write('x')
print('done')`})
	if r.Status != "ok" || r.Stdout != "done\n" {
		t.Fatalf("%+v", r)
	}
	got := map[string]string{}
	for _, f := range r.Files {
		content := a.as(key, "GET", "/api/v1/files/"+f.ID+"/content", "")
		if content.status != 200 || int64(len(content.body)) != f.Size || bytes.Contains(content.body, []byte("root:")) {
			t.Errorf("%s: %d, %d bytes", f.Path, content.status, len(content.body))
		}
		got[f.Path] = string(content.body[:min(len(content.body), 10)])
	}
	for _, name := range []string{"link", "root", "inner", "self", "fifo", "socket", "device", "huge"} {
		if content, served := got[name]; served {
			t.Errorf("%q is served: %q", name, content)
		}
	}
	if got["%FF%FE"] != "bytes" || got["new\nline"] != "x" || got[`a\b`] != "x" {
		t.Errorf("odd names: %q", got)
	}
	if got["plain"] != "plain" || got["hard"] != "plain" || got["sparse"] != strings.Repeat("\x00", 10) {
		t.Errorf("plain, hard linked and sparse files: %q", got)
	}
}

func testArchive(t *testing.T, a *abuse) {
	key := a.owner()
	session := a.session(key, "{}")
	a.runs(key, map[string]any{"language": "python", "session": session, "code": `
import os
os.symlink('/etc/passwd', 'link'); os.makedirs('a/b'); open('a/b/c.txt', 'w').write('c'); open('~', 'w').write('t'); open('-rf', 'w').write('r')`})
	got := a.as(key, "GET", "/api/v1/sessions/"+session+"/archive", "")
	z, err := zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil {
		t.Fatalf("%d %v", got.status, err)
	}
	var names []string
	for _, f := range z.File {
		if !fs.ValidPath(f.Name) || f.Mode()&fs.ModeType != 0 {
			t.Errorf("entry %q is %v", f.Name, f.Mode())
		}
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[-rf a/b/c.txt ~]" {
		t.Errorf("entries %v", names)
	}
}
