package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanPath(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"a.txt", "a.txt"},
		{"out/a b.png", "out/a b.png"},
		{"./a//b/./c/", "a/b/c"},
		{".env", ".env"},
		{"...", "..."},
		{"a..b", "a..b"},
		{"con", "con"},
		{"C:x", "C:x"},
		{"~/x", "~/x"},
		{"%2e%2e/x", "%2e%2e/x"},
		{"日本.csv", "日本.csv"},
		{"e\u0301.txt", "e\u0301.txt"}, // NFD and
		{"\u00e9.txt", "\u00e9.txt"},   // NFC are two names
		{"می\u200cخواهم.csv", "می\u200cخواهم.csv"},
		{"क\u094d\u200dष.txt", "क\u094d\u200dष.txt"},
		{"👨\u200d👩\u200d👧.png", "👨\u200d👩\u200d👧.png"},
		{"\u200eIMG-20240101-WA0001.jpg", "\u200eIMG-20240101-WA0001.jpg"},
		{"a\u200bb", "a\u200bb"},
		{"so\u00adft", "so\u00adft"},
		{"\ufeffa", "\ufeffa"},
		{"a\u2028b/\u2029", "a\u2028b/\u2029"},
		{"\u0085/a\u009b", "\u0085/a\u009b"},
		{"a\u202egnp.exe", "a\u202egnp.exe"},
		{"a\u2066", "a\u2066"},
		{"a\nb\t\x1b\x7f", "a\nb\t\x1b\x7f"},
		{`a\b`, `a\b`},
		{`..\b`, `..\b`},
		{strings.Repeat("x", 255), strings.Repeat("x", 255)},
		{strings.Repeat("a/", 511) + "bc", strings.Repeat("a/", 511) + "bc"},
	} {
		got, err := CleanPath(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("CleanPath(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(got), 0o700), root.WriteFile(got, nil, 0o600),
			root.Close()); err != nil {
			t.Errorf("a file called %q: %v", got, err)
		}
	}
	for _, in := range []string{
		"", ".", "/", "./", "//", "..", "../a", "a/../b", "a/..", "/etc/passwd", "a\x00b", "\x00",
		"\xff", "a/\xc3", "caf\xe9.csv", strings.Repeat("é", 128),
		strings.Repeat("x", 256), strings.Repeat("a/", 512) + "b", strings.Repeat("x", 1<<20),
	} {
		if got, err := CleanPath(in); err == nil {
			t.Errorf("CleanPath(%.40q) = %q, want an error", in, got)
		}
	}
}

// A name that passes never leaves the root, and is its own clean form.
func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "a/../../b", "..\\b", "C:\\x", "~", "\u202e", "e\u0301", "\u2024\u2024/x",
		"\uff0e\uff0e/\uff0f", "./.../a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean, err := CleanPath(s)
		if err != nil {
			return
		}
		if !filepath.IsLocal(clean) || filepath.Clean(clean) != clean || !utf8.ValidString(clean) ||
			strings.ContainsRune(clean, 0) || len(clean) > maxPath {
			t.Errorf("CleanPath(%q) = %q, which is not safe", s, clean)
		}
		if again, err := CleanPath(clean); err != nil || again != clean {
			t.Errorf("CleanPath(%q) = %q, then %q, %v", s, clean, again, err)
		}
	})
}

// A name that a person would misread is shown with its characters escaped.
func TestShownName(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"out/a b.png", "out/a b.png"},
		{"日本.csv", "日本.csv"},
		{"e\u0301.txt", "e\u0301.txt"},
		{"a\u202egnp.exe", `"a\u202egnp.exe"`},
		{"a\u200bb", `"a\u200bb"`},
		{"a\u2028", `"a\u2028"`},
		{"\u0085", `"\u0085"`},
		{"a\nb\x1b", `"a\nb\x1b"`},
		{"caf\xe9", `"caf\xe9"`},
		{`a\nb`, `"a\\nb"`},
	} {
		if got := ShownName(tt.in); got != tt.want {
			t.Errorf("ShownName(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestTypeOf(t *testing.T) {
	for _, tt := range []struct{ name, head, want string }{
		{"a.csv", "x,y\n1,2\n", "text/csv"},
		{"A.CSV", "", "text/csv"},
		{"a.csv", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png"},
		{"a.txt", "<html><script>", "text/plain"},
		{"a.html", "<html>", "text/html"},
		{"a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"},
		{"plot.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png"},
		{"noname", "hello", "text/plain"},
		{"data.pkl", "\x80\x04\x95\x00\x01", "application/octet-stream"},
		{"data.arrow", "\x00\x01\x02\x03", "application/vnd.apache.arrow.file"},
		{"x.py", "print('é')", "text/x-python"},
		{"cut.txt", "\xe6\x97\xa5\xe6", "text/plain"},
	} {
		if got := typeOf(tt.name, []byte(tt.head)); got != tt.want {
			t.Errorf("typeOf(%q, %q) = %q, want %q", tt.name, tt.head, got, tt.want)
		}
	}
}
