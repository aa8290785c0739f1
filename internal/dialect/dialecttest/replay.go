// Package dialecttest replays recorded exchanges against a dialect: what a
// client sent, and the answer that it is to get, byte for byte.
//
// A recording is a txtar file. Its sections come in pairs, "request" and
// "response", in the order in which they are played; the comment above the
// first says what it shows.
//
//	-- request --
//	POST /v1/execute
//	Content-Type: application/json
//
//	{"code":"print hello"}
//	-- response --
//	200
//	Content-Type: application/json
//
//	{"stdout":"hello\n","stderr":"","exit_code":0,"duration_ms":<<int>>}
//
// What differs from run to run is written <<kind>>, or <<name:kind>> if a
// later request, or a later place, says <<name>> for what was there. The kinds are int, float,
// uuid, hex (32 digits), id (21 characters), word, time and any. Only the headers that a
// response lists are compared; "!Name" says that one must not be there. One
// newline at the end of a section belongs to the recording, not to the body.
package dialecttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Replay plays every recording that a pattern matches, each against a handler
// of its own.
func Replay(t *testing.T, pattern string, handler func(t *testing.T) http.Handler) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings match %s: %v", pattern, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, txtar.Parse(text), handler(t))
		})
	}
}

func replay(t *testing.T, recording *txtar.Archive, handler http.Handler) {
	t.Helper()
	known := map[string]string{}
	var got *httptest.ResponseRecorder
	for i, section := range recording.Files {
		text := strings.TrimSuffix(string(section.Data), "\n")
		switch kind, _, _ := strings.Cut(section.Name, " "); kind {
		case "request":
			got = httptest.NewRecorder()
			handler.ServeHTTP(got, request(t, fill(text, known)))
		case "response":
			if got == nil {
				t.Fatalf("section %d is a response without a request", i+1)
			}
			for _, wrong := range compare(got, text, known) {
				t.Errorf("%s (section %d): %s", section.Name, i+1, wrong)
			}
		default:
			t.Fatalf("section %d is neither a request nor a response: %s", i+1, section.Name)
		}
	}
}

// request reads "METHOD address", headers, an empty line and a body. In the
// body of a form a line ends with CR LF.
func request(t *testing.T, text string) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, address, ok := strings.Cut(lines[0], " ")
	if !ok {
		t.Fatalf("%q is no request line", lines[0])
	}
	header := http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	if strings.HasPrefix(header.Get("Content-Type"), "multipart/") {
		body = strings.ReplaceAll(body, "\n", "\r\n")
	}
	req := httptest.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	req.Header = header
	return req
}

var hole = regexp.MustCompile(`<<([a-z_0-9]+)(?::([a-z]+))?>>`)

var kinds = map[string]string{
	"int":   `-?[0-9]+`,
	"float": `[0-9]+\.[0-9]+`,
	"uuid":  `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`,
	"hex":   `[0-9a-f]{32}`,
	"id":    `[A-Za-z0-9_-]{21}`,
	"word":  `[A-Za-z0-9_-]+`,
	"time":  `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|\+00:00)`,
	"any":   `(?s:.*?)`,
}

// fill inserts the values that earlier answers had.
func fill(text string, known map[string]string) string {
	return hole.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := known[hole.FindStringSubmatch(found)[1]]; ok {
			return value
		}
		return found
	})
}

func compare(got *httptest.ResponseRecorder, want string, known map[string]string) (wrong []string) {
	head, body, _ := strings.Cut(want, "\n\n")
	lines := strings.Split(head, "\n")
	if status, err := strconv.Atoi(lines[0]); err != nil || status != got.Code {
		wrong = append(wrong, fmt.Sprintf("status %d, want %s: %s", got.Code, lines[0], got.Body))
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if absent, ok := strings.CutPrefix(name, "!"); ok {
			if values := got.Header().Values(absent); len(values) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s is there: %q", absent, values))
			}
			continue
		}
		if err := match(got.Header().Get(name), value, known); err != nil {
			wrong = append(wrong, name+": "+err.Error())
		}
	}
	if err := match(got.Body.String(), body, known); err != nil {
		wrong = append(wrong, "body: "+err.Error())
	}
	return wrong
}

// match compares a text with a pattern, and records the values of its named holes.
func match(got, want string, known map[string]string) error {
	want = fill(want, known)
	var pattern strings.Builder
	var names []string
	given := map[string]string{} // kinds of the names in this text
	pattern.WriteString(`^`)
	rest := 0
	for _, at := range hole.FindAllStringSubmatchIndex(want, -1) {
		pattern.WriteString(regexp.QuoteMeta(want[rest:at[0]]))
		name, kind := want[at[2]:at[3]], want[at[2]:at[3]]
		if at[4] >= 0 {
			kind = want[at[4]:at[5]]
			given[name] = kind
		} else if earlier, ok := given[name]; ok {
			kind = earlier
		}
		expr, ok := kinds[kind]
		if !ok {
			return fmt.Errorf("the recording has <<%s>>, which no answer has filled", name)
		}
		pattern.WriteString("(" + expr + ")")
		names = append(names, name)
		rest = at[1]
	}
	pattern.WriteString(regexp.QuoteMeta(want[rest:]) + `$`)
	found := regexp.MustCompile(pattern.String()).FindStringSubmatch(got)
	if found == nil {
		return fmt.Errorf("\n got %q\nwant %q", got, want)
	}
	here := map[string]string{}
	for i, name := range names {
		if _, isKind := kinds[name]; isKind {
			continue
		}
		if before, twice := here[name]; twice && before != found[i+1] {
			return fmt.Errorf("<<%s>> is first %q, then %q", name, before, found[i+1])
		}
		here[name], known[name] = found[i+1], found[i+1]
	}
	return nil
}
