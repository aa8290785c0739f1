package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// leftOut is the line that stands where output is missing.
var leftOut = regexp.MustCompile(`\n\[\.\.\. (\d+) bytes of output left out[^]\n]*\.\.\.\]\n`)

// Of output over the limit every surface has the beginning and the end, and between them a line
// that counts the rest.
func TestOutputOverLimit(t *testing.T) {
	const code = `print("first"); print("x" * 3_000_000); print("last")`
	whole := len("first\n") + 3_000_000 + len("\nlast\n")
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataFolder(t, who)
	s := serve(t, who, data)
	check := func(surface, text string, truncated bool) {
		t.Helper()
		at := leftOut.FindStringSubmatchIndex(text)
		if at == nil || len(text) > 1<<20 ||
			!strings.HasPrefix(text, "first\nxxx") || !strings.HasSuffix(text, "xxx\nlast\n") {
			t.Fatalf("%s: %d bytes, %.20q ... %q", surface, len(text), text, text[max(0, len(text)-20):])
		}
		dropped, err := strconv.Atoi(text[at[2]:at[3]])
		if kept := len(text) - (at[1] - at[0]); err != nil || kept+dropped != whole {
			t.Errorf("%s: %d bytes are kept and %d said to be left out, of %d: %v", surface, kept, dropped, whole, err)
		}
		if !truncated {
			t.Errorf("%s: it is not said to be truncated", surface)
		}
	}
	var ran struct {
		Stdout    string
		Truncated bool
	}
	body, err := json.Marshal(python(code))
	if err != nil {
		t.Fatal(err)
	}
	s.do("POST", "/api/v1/runs", string(body)).decode(t, &ran)
	check("a run", ran.Stdout, ran.Truncated)
	var got cell
	l := s.live(`{"kind":"live"}`)
	answer := l.ask("POST", "/cells", codeBody(code))
	answer.decode(t, &got)
	check("a cell", got.text(), strings.Contains(string(answer.body), `"truncated":true`))
	body, err = json.Marshal(map[string]string{"lang": "py", "code": code})
	if err != nil {
		t.Fatal(err)
	}
	answer = s.do("POST", "/librechat/exec", string(body))
	if answer.status != http.StatusOK {
		t.Fatalf("LibreChat: %d %s", answer.status, answer.body)
	}
	answer.decode(t, &ran)
	check("LibreChat", ran.Stdout, true)
	said := who.run(t, nil, "run", "--data", data, "--max-output", "1MiB", "-c", code)
	check("airlock run", said.stdout, said.code == 123)
	if said = who.run(t, nil, "run", "--data", data, "-c", code); said.code != 0 || len(said.stdout) != whole {
		t.Errorf("airlock run: code %d, %d of %d bytes: %s", said.code, len(said.stdout), whole, said.stderr)
	}
}
