package native

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestAbuse holds the part of the list of abuses that this edge has to answer
// by itself, by its numbers.
func TestAbuse(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"A1 A2 A3 A5 strict JSON":      TestStrictJSON,
		"A4 memory and time of bodies": testBodyCosts,
		"A4 a large body announced":    testAnnounced,
		"A6 content types":             testContentTypes,
		"A15 client leaves":            TestClientLeaves,
		"A15 client with a key leaves": testKeyedClientLeaves,
		"A21 odd ids":                  testOddIDs,
		"A27 names":                    testNames,
		"A28 forms":                    TestForms,
		"A34 A35 A37 ranges":           TestDownload,
		"A36 types":                    TestSafeType,
		"A39 archive":                  TestArchive,
		"A51 framing":                  TestStream,
		"A51 stuck reader":             TestStuckReader,
	} {
		t.Run(name, test)
	}
}

// testBodyCosts checks the cost of the worst bodies: less than 32 MB, or three times their length, and less than
// eight times the processor time of a plain text that is refused beside them. Deep nesting, a million items and a long
// key take less than twice as much.
func testBodyCosts(t *testing.T) {
	r := newRig(t, hello)
	fill := func(front, piece, back string, size int) string {
		return front + strings.Repeat(piece, (size-len(front)-len(back))/len(piece)) + back
	}
	const limit = 8 << 20
	plain := fill(`{"unknown":"`, "x", `"}`, limit)
	for name, body := range map[string]string{
		"100,000 deep":            strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"100,000 deep in objects": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"10^6 items":              `{"args":[` + strings.Repeat("1,", 1_000_000) + "1]}",
		"empty arrays":            fill(`{"args":[`, "[],", "[]]}", limit),
		"25 MB key":               `{"` + strings.Repeat("k", 25<<20) + `":1}`,
		"long key":                fill(`{"`, "k", `":1}`, limit),
		"long code":               fill(`{"language":"python","code":"`, "x", `"}`, limit),
		"long escaped code":       fill(`{"language":"python","code":"`, `\n`, `"}`, limit),
		"long code in hex":        fill(`{"language":"python","code":"`, `\u0041`, `"}`, limit),
		"long stdin":              fill(`{"language":"python","code":"x","stdin":"`, "x", `"}`, limit),
		"many members":            fill("{", `"a":1,`, `"b":1}`, limit),
		"many names":              manyNames(90_000),
		"long number":             fill(`{"language":"python","code":"x","timeout_ms":`, "1", "}", limit),
		"not JSON at the end":     fill(`{"language":"python","code":"`, "x", `"`, limit),
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s chunked=%v", name, chunked), func(t *testing.T) {
				bound := 8.0
				if strings.Contains(name, "deep") || strings.Contains(name, "items") || strings.HasSuffix(name, "MB key") {
					bound = 2
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				w, took := bodyCost(t, r, body, chunked)
				runtime.ReadMemStats(&after)
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(max(32<<20, 3*len(body))) {
					t.Errorf("allocates %.1f MB", float64(allocated)/(1<<20))
				}
				// The collection of others' garbage may fall into one attempt, and the processor may be another one.
				_, floor := bodyCost(t, r, plain, chunked)
				for try := 0; try < 5 && float64(took) > bound*float64(floor); try++ {
					_, again := bodyCost(t, r, body, chunked)
					_, plain := bodyCost(t, r, plain, chunked)
					took, floor = min(took, again), min(floor, plain)
				}
				if ratio := float64(took) / float64(floor); ratio > bound {
					t.Errorf("takes %v of a processor, %.1f times a plain text's %v", took, ratio, floor)
				}
				good := name == "long stdin" || strings.HasPrefix(name, "long") && strings.Contains(name, "code")
				if want := []int{400, 413}; !good && w.Code != want[0] && w.Code != want[1] {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
	}
}

// bodyCost sends a body, and returns the answer and the time of this thread alone: the machine has other things to do.
func bodyCost(t *testing.T, r *rig, body string, chunked bool) (*httptest.ResponseRecorder, time.Duration) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/sessions", strings.NewReader(body))
	if strings.Contains(body, "python") {
		req.URL.Path = "/runs"
	}
	req.Header.Set("Content-Type", "application/json")
	if chunked {
		req.ContentLength = -1
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(t)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w, threadTime(t) - began
}

// threadTime is the processor time that this thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func manyNames(n int) string {
	var b strings.Builder
	b.WriteString(`{"0":1`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,"%d":1`, i)
	}
	return b.String() + "}"
}

// testAnnounced checks that a body which is only announced costs nothing.
func testAnnounced(t *testing.T) {
	r := newRig(t, hello)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/runs", io.MultiReader(strings.NewReader("{"), cutOff{}))
		req.ContentLength = 8 << 20
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		check(t, w, 400, "whole")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 20; each > 64<<10 {
		t.Errorf("each takes %d bytes", each)
	}
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func testContentTypes(t *testing.T) {
	r := newRig(t, hello)
	body := `{"language":"python","code":"x"}`
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B",
		"application/json; charset=utf-16", "application/jsonx", "text/json", "a/b/c", "*/*"} {
		check(t, r.send("POST", "/runs", "Content-Type: "+kind, body), 415, "Content-Type")
		check(t, r.send("POST", "/sessions", "Content-Type: "+kind, "{}"), 415, "Content-Type")
	}
	for _, kind := range []string{"application/json", "Application/JSON", "application/json; charset=UTF-8"} {
		check(t, r.send("POST", "/runs", "Content-Type: "+kind, body), 200)
	}
}

// testKeyedClientLeaves checks that a client with an Idempotency-Key may leave
// and come back for the answer, and that its program runs once.
func testKeyedClientLeaves(t *testing.T) {
	for _, accept := range []string{"application/json", "text/event-stream"} {
		started, finish := make(chan struct{}, 2), make(chan struct{})
		r := newRig(t, func(ctx context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			started <- struct{}{}
			select {
			case <-finish:
			case <-ctx.Done():
				return sandboxtest.UntilKilled(ctx), nil
			}
			host.Output(engine.Stdout, []byte("the answer"))
			return sandboxtest.Exit(0), nil
		})
		file := r.put("in.txt", "input")
		server := httptest.NewServer(r.handler)
		ask := func(ctx context.Context, accept string) (string, error) {
			body := `{"language":"python","code":"x","files":[{"id":"` + file.ID.String() + `"}]}`
			req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/runs", strings.NewReader(body))
			if err != nil {
				return "", err
			}
			for name, value := range map[string]string{"Content-Type": "application/json", "Accept": accept,
				"Idempotency-Key": "once"} {
				req.Header.Set(name, value)
			}
			resp, err := server.Client().Do(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			return string(text), err
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := ask(ctx, accept); done <- err }()
		<-started
		leave()
		if err := <-done; err == nil {
			t.Errorf("%s: the client got an answer", accept)
		}
		// It comes back when its input is gone, too.
		if err := r.engine.DeleteFile(t.Context(), r.caller, file.ID); err != nil {
			t.Fatal(err)
		}
		close(finish)
		for range 2 {
			if text, err := ask(t.Context(), "application/json"); err != nil || !strings.Contains(text, "the answer") {
				t.Errorf("%s: %s %v", accept, text, err)
			}
		}
		if len(started) > 0 {
			t.Errorf("%s: the program ran again", accept)
		}
		server.Close()
	}
}

func testOddIDs(t *testing.T) {
	r := newRig(t, hello)
	f := r.put("a.txt", "x")
	real := f.ID.String()
	for _, id := range []string{
		"x", "%2e%2e", "..%2fx", "%2fetc%2fpasswd", real + "%2f", strings.ToUpper(real) + "A", "0", "-1", "null", "undefined",
		"*", "%00", real + "%00",
		real + ".meta.json", real + "%20", "%F0%9F%92%A9", strings.Repeat("a", 4096), "00000000-0000-0000-0000-000000000000",
		real[:len(real)-1], "'%20OR%201=1--",
	} {
		for _, at := range []string{"/files/%s", "/files/%s/content", "/runs/%s", "/runs/%s/events", "/sessions/%s",
			"/sessions/%s/files", "/sessions/%s/archive"} {
			for _, method := range []string{"GET", "DELETE"} {
				w := r.send(method, fmt.Sprintf(at, id), "", "")
				if w.Code != 404 && w.Code != 405 {
					t.Errorf("%s %s: %d %s", method, fmt.Sprintf(at, id), w.Code, w.Body)
				}
				if body := w.Body.String(); strings.Contains(body, "sql") || strings.Contains(body, "no such file") ||
					strings.Contains(body, "/files/") {
					t.Errorf("%s tells too much: %s", id, body)
				}
			}
		}
		for _, body := range []string{
			`{"language":"python","code":"x","session":%q}`, `{"language":"python","code":"x","files":[{"id":%q}]}`,
		} {
			unescaped, err := url.PathUnescape(id)
			if err != nil {
				t.Fatal(err)
			}
			w := r.json("POST", "/runs", fmt.Sprintf(body, strings.ToValidUTF8(unescaped, "")))
			if w.Code != 400 && w.Code != 404 {
				t.Errorf("%s in %s: %d %s", id, body, w.Code, w.Body)
			}
		}
	}
	check(t, r.send("GET", "/files/"+real, "", ""), 200)
	if n := len(listNames(t, r)); n != 1 {
		t.Errorf("%d files", n)
	}
}

// testNames checks that a name is refused or comes back exactly, and that no
// name makes a second file or reaches another.
func testNames(t *testing.T) {
	r := newRig(t, hello)
	const e = "e\u0301" // in two characters
	for name, ok := range map[string]bool{
		"../a": false, "/abs": false, "a/../../b": false, "": false, ".": false, "..": false, "\x00": false, "a\x00b": false,
		strings.Repeat("a", 256): false, strings.Repeat("a/", 600) + "b": false, "\xff": false,
		"a\nb": true, "a\rb": true, "\x7f": true, "a\u0085b": true, "a\u202eb": true, "\u2066a": true, "a\u200bb": true,
		"a\u2028b":          true,
		"می\u200cخواهم.csv": true, "👨\u200d👩\u200d👧.png": true, "\u200eIMG-1.jpg": true, "so\u00adft": true, "\ufeffa": true,
		`..\b`: true, `C:\x`: true,
		"~/x": true, "%2e%2e/x": true, "con": true, "NUL.txt": true, "a/": true, "a": true, "A": true, "__main__.py": true,
		".env": true, "-rf": true, "caf" + e: true,
		"caf" + norm.NFC.String(e): true, "日本.csv": true, "a b": true, `a"b`: true, "a;b": true, "a'b": true, "$(id)": true,
		"💥": true, strings.Repeat("b", 255): true,
		"<script>alert(1)</script>": true, "=cmd|' /C calc'!A0": true, "a:b": true, "x/y/z.txt": true,
	} {
		before := len(listNames(t, r))
		w := r.send("POST", "/files?name="+url.QueryEscape(name), "Content-Type: application/octet-stream",
			"content of "+name)
		if !ok {
			check(t, w, 400, "name")
			if after := len(listNames(t, r)); after != before {
				t.Errorf("%q was refused and stored", name)
			}
			continue
		}
		var f struct{ ID, Name string }
		check(t, w, 201)
		decode(t, w.Body, &f)
		if f.Name != name {
			t.Errorf("%q comes back as %q", name, f.Name)
		}
		if after := len(listNames(t, r)); after != before+1 {
			t.Errorf("%q: %d files instead of one", name, after-before)
		}
		got := r.send("GET", "/files/"+f.ID+"/content", "", "")
		if got.Body.String() != "content of "+name || strings.ContainsAny(got.Header().Get("Content-Disposition"), "\r\n") {
			t.Errorf("%q: %q %v", name, got.Body, got.Header())
		}
	}
}
