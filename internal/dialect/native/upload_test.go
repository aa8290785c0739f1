package native

import (
	"mime"
	"strings"
	"testing"
)

func part(header, content string) string {
	return "--B\r\n" + header + "\r\n\r\n" + content + "\r\n"
}

func TestForms(t *testing.T) {
	r := newRig(t, hello)
	file := `Content-Disposition: form-data; name="file"; filename="a.txt"`
	const end = "--B--\r\n"
	cases := []struct {
		name, contentType, body string
		status                  int
		contains                string
	}{
		{"no boundary", "multipart/form-data", part(file, "x") + end, 400, "boundary"},
		{"not form-data", "multipart/mixed; boundary=B", part(file, "x") + end, 400, "form-data"},
		{"nothing", "", "", 400, "ends too soon"},
		{"no parts", "", end, 400, "no part named file"},
		{"no final boundary", "", part(file, "x"), 400, "ends too soon"},
		{"cut in the file", "", "--B\r\n" + file + "\r\n\r\nhello", 400, "ends too soon"},
		{"two files", "", part(file, "x") + part(file, "y") + end, 400, "only one"},
		{"field after the file", "", part(file, "x") + part(`Content-Disposition: form-data; name="ttl_seconds"`, "5") + end,
			400, "only one"},
		{"unknown field", "", part(`Content-Disposition: form-data; name="path"`, "x") + part(file, "x") + end, 400,
			"not known"},
		{"many fields", "", strings.Repeat(part(`Content-Disposition: form-data; name="ttl_seconds"`, "5"), 100_000) +
			part(file, "x") + end, 400, "too many parts"},
		{"bad ttl", "", part(`Content-Disposition: form-data; name="ttl_seconds"`, "soon") + part(file, "x") + end, 400,
			"ttl_seconds"},
		{"long header", "", part(file+`; x="`+strings.Repeat("x", 5<<10)+`"`, "x") + end, 400, "Content-Disposition"},
		{"headers of 1 MB", "", part(file+"\r\nX-Long: "+strings.Repeat("x", 1<<20), "x") + end, 400, "headers"},
		{"a thousand headers", "", part(file+strings.Repeat("\r\nX-Many: "+strings.Repeat("x", 90), 1000), "x") + end, 400,
			"headers"},
		{"nested", "", part("Content-Type: multipart/mixed; boundary=C\r\n"+file, "--C\r\n\r\nx\r\n--C--") + end, 201,
			`"size":15`},
		{"no disposition", "", part("Content-Type: text/plain", "x") + end, 400, "Content-Disposition"},
		{"two dispositions", "", part(file+"\r\n"+file, "x") + end, 400, "Content-Disposition"},
		{"nameless file", "", part(`Content-Disposition: form-data; name="file"`, "x") + end, 400, "filename"},
		{"two filenames", "", part(file+`; filename="b.txt"`, "x") + end, 400, "cannot be read"},
		{"two that differ", "", part(file+`; filename*=UTF-8''b.txt`, "x") + end, 400, "filename*"},
		{"two that agree", "", part(file+`; filename*=UTF-8''a%2Etxt`, "x") + end, 201, `"name":"a.txt"`},
		{"extended only", "", part(`Content-Disposition: form-data; name="file"; filename*=utf-8'de'%E6%97%A5.csv`, "x") +
			end, 201, `"name":"日.csv"`},
		{"other charset", "", part(`Content-Disposition: form-data; name="file"; filename*=latin1''a`, "x") + end, 400,
			"filename*"},
		{"broken escape", "", part(`Content-Disposition: form-data; name="file"; filename*=UTF-8''%zz`, "x") + end, 400,
			"filename*"},
		{"up", "", part(`Content-Disposition: form-data; name="file"; filename="../a"`, "x") + end, 400, "name"},
		{"up inside", "", part(`Content-Disposition: form-data; name="file"; filename="a/../../b"`, "x") + end, 400, "name"},
		{"absolute", "", part(`Content-Disposition: form-data; name="file"; filename="/etc/passwd"`, "x") + end, 400, "name"},
		{"backslashes", "", part(`Content-Disposition: form-data; name="file"; filename="..\b"`, "x") + end, 201,
			`"name":"..\\b"`},
		{"not UTF-8", "", part("Content-Disposition: form-data; name=\"file\"; filename=\"\xff\"", "x") + end, 400, "UTF-8"},
		{"quotes in the name", "", part(`Content-Disposition: form-data; name="file"; filename="a \"b\" %22; c"`, "x") + end,
			201, `"name":"a \"b\" %22; c"`},
		{"over the limit", "", part(file, strings.Repeat("x", 1<<20+1)) + end, 413, "too_large"},
		{"quoted-printable is bytes", "", part("Content-Transfer-Encoding: quoted-printable\r\n"+file, "=41=42") + end, 201,
			`"size":6`},
		{"epilogue", "", part(file, "x") + end + "more", 201, `"size":1`},
	}
	before := len(listNames(t, r))
	stored := 0
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			contentType := c.contentType
			if contentType == "" {
				contentType = "multipart/form-data; boundary=B"
			}
			check(t, r.send("POST", "/files", "Content-Type: "+contentType, c.body), c.status, c.contains)
			if c.status == 201 {
				stored++
			}
		})
	}
	if n := len(listNames(t, r)) - before; n != stored {
		t.Errorf("%d files are stored, and %d were acknowledged", n, stored)
	}
}

func listNames(t *testing.T, r *rig) []string {
	t.Helper()
	var page struct{ Files []struct{ Name string } }
	decode(t, r.send("GET", "/files?limit=1000", "", "").Body, &page)
	var names []string
	for _, f := range page.Files {
		names = append(names, f.Name)
	}
	return names
}

func FuzzDisposition(f *testing.F) {
	for _, s := range []string{
		`form-data; name="file"; filename="a"`, `form-data; name=file; filename=a`,
		`form-data; filename="a\"b\\c\d"; name=file`,
		`form-data; name="file"; filename*=UTF-8''%E6`, `form-data;;`, `form-data; name`, `form-data; ="x"`,
		`form-data; name="`, `attachment`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ours, err := parseDisposition([]string{s})
		if err != nil {
			return
		}
		if len(ours.name)+len(ours.file) > len(s) {
			t.Errorf("%q gives %q", s, ours)
		}
		// Where a name has neither escapes nor anything but ASCII, the standard
		// library reads it the same.
		if strings.ContainsAny(s, "\\*") || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
			return
		}
		if _, params, err := mime.ParseMediaType(s); err == nil &&
			(params["name"] != ours.name || params["filename"] != ours.file) {
			t.Errorf("%q gives %q, and in mime %q", s, ours, params)
		}
	})
}
