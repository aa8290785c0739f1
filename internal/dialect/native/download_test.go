package native

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/wire"
)

func TestDownload(t *testing.T) {
	r := newRig(t, hello)
	f := r.put("data/日本 \"x\".csv", "0123456789")
	url := "/files/" + f.ID.String() + "/content"
	tag := `"` + f.SHA256.String() + `"`
	cases := []struct {
		name, header string
		status       int
		body         string
	}{
		{"whole", "", 200, "0123456789"},
		{"first", "Range: bytes=0-0", 206, "0"},
		{"suffix", "Range: bytes=-3", 206, "789"},
		{"open", "Range: bytes=7-", 206, "789"},
		{"beyond", "Range: bytes=10-", 416, ""},
		{"nonsense", "Range: bytes=x", 416, ""},
		{"many ranges that overlap", "Range: bytes=0-9" + strings.Repeat(",0-9", 1000), 200, "0123456789"},
		{"the same", "Range: bytes=0-0\nIf-Range: " + tag, 206, "0"},
		{"another", "Range: bytes=0-0\nIf-Range: \"other\"", 200, "0123456789"},
		{"had", "If-None-Match: " + tag, 304, ""},
		{"had another", "If-None-Match: \"other\"", 200, "0123456789"},
		{"must be another", "If-Match: \"other\"", 412, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := r.send("GET", url, c.header, "")
			check(t, w, c.status)
			if c.status < 300 && w.Body.String() != c.body {
				t.Errorf("body %q", w.Body)
			}
			head := r.send("HEAD", url, c.header, "")
			if head.Body.Len() > 0 && c.status < 300 {
				t.Errorf("HEAD has the body %q", head.Body)
			}
			if diff := cmp.Diff(w.Header(), head.Header()); diff != "" || head.Code != w.Code {
				t.Errorf("HEAD differs: %d %s", head.Code, diff)
			}
		})
	}
	h := r.send("GET", url, "", "").Header()
	want := map[string]string{
		"Etag": tag, "Content-Length": "10", "Content-Type": "text/csv; charset=utf-8",
		"Content-Disposition":          `attachment; filename="__ _x_.csv"; filename*=UTF-8''%E6%97%A5%E6%9C%AC%20%22x%22.csv`,
		"X-Content-Type-Options":       "nosniff",
		"Content-Security-Policy":      "sandbox; default-src 'none'",
		"Cross-Origin-Resource-Policy": "same-origin",
	}
	for name, value := range want {
		if h.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, h.Get(name), value)
		}
	}
}

func TestSafeType(t *testing.T) {
	for given, want := range map[string]string{
		"text/html": "text/plain; charset=utf-8", "text/html; charset=utf-8": "text/plain; charset=utf-8",
		"TEXT/HTML":     "text/plain; charset=utf-8",
		"image/svg+xml": "application/octet-stream", "application/xhtml+xml": "application/octet-stream",
		"application/pdf": "application/octet-stream",
		"text/javascript": "text/plain; charset=utf-8", "text/xml": "text/plain; charset=utf-8",
		"application/javascript": "application/octet-stream",
		"image/png":              "image/png", "text/csv; charset=utf-8": "text/csv; charset=utf-8",
		"":                  "application/octet-stream",
		"text/html\r\nX: y": "application/octet-stream", "application/x-shockwave-flash": "application/octet-stream",
	} {
		if got := rest.SafeType(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

func FuzzDownloadName(f *testing.F) {
	for _, s := range []string{"a.txt", "日本.csv", `a"b`, "a\r\nX: y", "a;b", "a%22b", "..", "/", "", "dir/a", "\xff",
		"a\u202eb", "💥"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		header := wire.Attachment(name)
		for i := range len(header) {
			if header[i] < ' ' || header[i] > '~' {
				t.Fatalf("%q has byte %x", header, header[i])
			}
		}
		kind, params, err := mime.ParseMediaType(header)
		if err != nil || kind != "attachment" {
			t.Fatalf("%q reads as %q, %v", header, kind, err)
		}
		valid := strings.ToValidUTF8(name, "\uFFFD")
		if got := params["filename"]; got != "file" && got != valid[strings.LastIndexByte(strings.TrimRight(valid, "/"), '/')+
			1:] && !strings.HasSuffix(name, "/") {
			t.Errorf("%q becomes %q", name, got)
		}
	})
}

func TestArchive(t *testing.T) {
	r := newRig(t, hello)
	a, b := r.put("a.txt", "one"), r.put("b.txt", strings.Repeat("two", 1000))
	session, err := r.engine.CreateSession(t.Context(), r.caller, engine.SessionRequest{Files: []engine.FileRef{
		{ID: a.ID, Path: "dir/a.txt"}, {ID: b.ID, Path: "日本.txt"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	url := "/sessions/" + session.ID.String() + "/archive"
	read := func() (map[string]string, string) {
		w := r.send("GET", url, "", "")
		check(t, w, 200)
		if w.Header().Get("Content-Type") != "application/zip" ||
			!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("headers %v", w.Header())
		}
		z, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
		if err != nil {
			t.Fatal(err)
		}
		content := map[string]string{}
		for _, f := range z.File {
			in, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			content[f.Name] = fmt.Sprint(f.Mode(), " ", f.Modified.Unix() == a.CreatedAt.Unix(), " ", readAll(t, in))
		}
		return content, z.Comment
	}
	content, comment := read()
	want := map[string]string{"dir/a.txt": "-rw-rw-rw- true one",
		"日本.txt": "-rw-rw-rw- true " + strings.Repeat("two", 1000)}
	if diff := cmp.Diff(want, content); diff != "" || comment != "" {
		t.Errorf("%s, comment %q", diff, comment)
	}

	// What a tool would run where the zip is unpacked is left out and named.
	risky, err := r.engine.CreateSession(t.Context(), r.caller, engine.SessionRequest{Files: []engine.FileRef{
		{ID: a.ID, Path: ".git/config"}, {ID: a.ID, Path: "sub/.envrc"}, {ID: a.ID, Path: "a.txt"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	plain := url
	for query, files := range map[string]string{"": "[LEFT-OUT.txt a.txt]",
		"?held=true": "[LEFT-OUT.txt a.txt sub/.envrc]"} {
		url = "/sessions/" + risky.ID.String() + "/archive" + query
		content, _ := read()
		if got := fmt.Sprint(slices.Sorted(maps.Keys(content))); got != files ||
			!strings.Contains(content["LEFT-OUT.txt"], ".git/config") {
			t.Errorf("%q: %s, %q", query, got, content["LEFT-OUT.txt"])
		}
	}
	url = plain

	// A file whose bytes are lost leaves the rest usable, and is named.
	r.blobs.Lose(a.SHA256)
	content, comment = read()
	delete(want, "dir/a.txt")
	if diff := cmp.Diff(want, content); diff != "" || comment != "1 files are lost: dir/a.txt" {
		t.Errorf("%s, comment %q", diff, comment)
	}
}
