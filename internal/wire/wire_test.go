package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is followed ends with the last event, and with who follows: also when
// nobody takes what comes.
func TestFollow(t *testing.T) {
	three := func(yield func(int) bool) {
		for i := range 3 {
			if !yield(i) {
				return
			}
		}
	}
	next, stop := wire.Follow(t.Context(), three, 0)
	var got []int
	for i := range next {
		got = append(got, i)
	}
	stop()
	if len(got) != 3 || got[2] != 2 {
		t.Errorf("got %v", got)
	}
	ended := false
	next, stop = wire.Follow(t.Context(), func(yield func(int) bool) {
		defer func() { ended = true }()
		for i := 0; yield(i); i++ {
			continue
		}
	}, 0)
	<-next
	if stop(); !ended {
		t.Error("who waits for events outlives who follows")
	}
	ctx, leave := context.WithCancel(t.Context())
	next, stop = wire.Follow(ctx, three, 1)
	leave()
	for range next {
		continue // it is closed, however far it came
	}
	stop()
}

func FuzzASCII(f *testing.F) {
	for _, s := range []string{"", "a\n\nevent: result", "é\u0085\u2028\u2029", "💥\U0010ffff", "\x7f\x00", "\xff",
		`\u00e9`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		ascii := wire.AppendASCII([]byte("data: "), text)
		for _, c := range ascii {
			if c < ' ' || c > 0x7f {
				t.Fatalf("%q has byte %x", ascii, c)
			}
		}
		var back string
		if err := json.Unmarshal(ascii[len("data: "):], &back); err != nil ||
			back != strings.ToValidUTF8(s, "\uFFFD") && back != string([]rune(s)) {
			t.Errorf("%q comes back as %q, %v", s, back, err)
		}
	})
}

// Headers of a part are read up to their bound, and a file as far as it goes.
func TestParts(t *testing.T) {
	part := func(header, content string) string {
		return "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n" + header + "\r\n" + content + "\r\n"
	}
	large := strings.Repeat("x", 2*wire.MaxPartHeader)
	form := wire.NewParts(strings.NewReader(part("", large)+part("", "b")+"--B--\r\nbehind"), "B")
	for _, want := range []int{len(large), 1} {
		p, err := form.Next()
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(p); err != nil || len(content) != want {
			t.Errorf("%d bytes, %v", len(content), err)
		}
	}
	if _, err := form.Next(); err != io.EOF { //nolint:errorlint // bare it is the closing boundary
		t.Errorf("at the end: %v", err)
	}
	if err := form.Drain(); err != nil {
		t.Error(err)
	}
	form = wire.NewParts(strings.NewReader(part("X: "+large+"\r\n", "a")+"--B--\r\n"), "B")
	if _, err := form.Next(); !errors.Is(err, wire.ErrHeaders) {
		t.Errorf("long headers: %v", err)
	}
}

// Names of files may have control characters, which net/textproto refuses in headers. Contents, and
// characters that are spelled as ours are, stay what they are.
func TestControlsInNames(t *testing.T) {
	content := "x--B \x01\x7f\xc1\xbf\r\n\r\n--BB\r\n" + strings.Repeat("\x7f", 10_000) + "\n--B x\r\n"
	for _, name := range []string{"a\x7f.csv", "\x01\x1f\x00b", "tab\there", "\xc0\xaf..", "x\ry", "é\x7f"} {
		body := "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content +
			"\r\n--B--\r\n"
		for _, from := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body))} {
			form := wire.NewParts(from, "B")
			p, err := form.Next()
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			_, file, _ := wire.PartName(p.Header.Get("Content-Disposition"))
			got, err := io.ReadAll(p)
			if file != name || string(got) != content || err != nil {
				t.Errorf("%q: %q, %v, %.100q", name, file, err, got)
			}
			if _, err := form.Next(); err != io.EOF { //nolint:errorlint // bare it is the closing boundary
				t.Errorf("at the end: %v", err)
			}
		}
	}
}
