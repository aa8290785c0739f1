package workspace

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/reply"
)

// sources returns files of code that people wrote: those of Go itself.
func sources(t *testing.T) []string {
	t.Helper()
	var texts []string
	root := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the tests run where they were built
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || len(texts) >= 600 || !slices.Contains(
			[]string{".go", ".js", ".css", ".html", ".s", ".py", ".pl", ".bash"}, filepath.Ext(name)) {
			return nil //nolint:nilerr // what cannot be read is left out
		}
		if text, err := os.ReadFile(name); err == nil && len(text) > 600 && len(text) < 60_000 &&
			!strings.Contains(string(text), "\r") {
			texts = append(texts, string(text))
		}
		return nil
	})
	return texts
}

// drift is a typical deviation of models in the lines that they search for, and in the
// replacements.
type drift struct {
	name  string
	block func(lines []string) ([]string, bool) // false: it does not apply to these lines
	file  func(text string) string
}

func each(f func(line string) string) func([]string) ([]string, bool) {
	return func(lines []string) ([]string, bool) {
		out := make([]string, len(lines))
		for i, line := range lines {
			out[i] = line
			if strings.TrimSpace(line) != "" {
				out[i] = f(line)
			}
		}
		return out, true
	}
}

// least returns the common indentation of the lines.
func least(lines []string) string {
	common := ""
	for i, line := range lines {
		in := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if i == 0 {
			common = in
		}
		for strings.TrimSpace(line) != "" && !strings.HasPrefix(in, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

func spaces(width int) func([]string) ([]string, bool) {
	return each(func(line string) string {
		rest := strings.TrimLeft(line, "\t")
		return strings.Repeat(" ", width*(len(line)-len(rest))) + rest
	})
}

var same = each(func(line string) string { return line })

var drifts = []drift{
	{"exact", same, nil},
	{"CRLF in the file", same, func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }},
	{"spaces at the ends of the file's lines", same, func(text string) string {
		return strings.ReplaceAll(text, "{\n", "{  \n")
	}},
	{"spaces at the ends of lines", each(func(line string) string { return line + " " }), nil},
	{"deeper", each(func(line string) string { return "    " + line }), nil},
	{"not indented", func(lines []string) ([]string, bool) {
		in := least(lines)
		moved, _ := each(func(line string) string { return strings.TrimPrefix(line, in) })(lines)
		return moved, in != ""
	}, nil},
	{"four spaces for a tab", spaces(4), nil},
	{"two spaces for a tab", spaces(2), nil},
	{"the first line not indented", func(lines []string) ([]string, bool) {
		out := slices.Clone(lines)
		out[0] = strings.TrimLeft(out[0], " \t")
		return out, out[0] != lines[0] && out[0] != ""
	}, nil},
	{"blank lines left out", func(lines []string) ([]string, bool) {
		out := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.TrimSpace(line) == "" })
		return out, len(out) > 3
	}, nil},
	{"a blank line before and behind", func(lines []string) (
		[]string, bool) {
		return slices.Concat([]string{""}, lines, []string{""}), true
	}, nil},
	{"elided", func(lines []string) ([]string, bool) {
		if len(lines) < 8 {
			return nil, false
		}
		return slices.Concat(lines[:4], []string{"..."}, lines[len(lines)-3:]), true
	}, nil},
}

// TestEditCorpus changes lines of real code with the SEARCH/REPLACE edits that models
// write, which rarely match the file's exact bytes. Edits that are written without a person
// are correct, and nearly all are written.
func TestEditCorpus(t *testing.T) {
	texts := sources(t)
	if len(texts) < 100 {
		t.Skipf("only %d files of code are at hand on this machine", len(texts))
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range drifts {
		d := &drifts[i]
		n := map[string]int{}
		for _, text := range texts {
			kind := tryEdit(t, d, text, random)
			n[kind]++
			if kind == "wrong" {
				t.Errorf("%s: a wrong write", d.name)
			}
		}
		all := n["placed"] + n["asked"] + n["wrong"]
		t.Logf("%-40s %4d of %4d placed, %d asked about, %d stand in the file more than once", d.name, n["placed"], all,
			n["asked"], n["several"])
		if n["placed"]*100 < all*97 {
			t.Errorf("%s: too few are placed", d.name)
		}
	}
}

// tryEdit changes a line or two of a block of a text, and returns the outcome.
func tryEdit(t *testing.T, d *drift, text string, random *rand.Rand) string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	size := 4 + random.IntN(10)
	if len(lines) < size+2 {
		return "short"
	}
	at := random.IntN(len(lines) - size)
	old := slices.Clone(lines[at : at+size])
	changed := slices.Clone(old)
	k := 1 + random.IntN(2) // near the beginning, so that an elision leaves it
	if strings.TrimSpace(old[k]) == "" || strings.TrimSpace(old[0]) == "" || strings.TrimSpace(old[size-1]) == "" {
		return "short"
	}
	in := old[k][:len(old[k])-len(strings.TrimLeft(old[k], " \t"))]
	changed[k] = in + "changed(1)"
	if random.IntN(2) == 0 && d.name != "elided" {
		changed = slices.Insert(changed, k+1, in+"added(2)")
	}
	want := strings.Join(slices.Concat(lines[:at], changed, lines[at+size:]), "\n") + "\n"
	search, ok := d.block(old)
	replace, _ := d.block(changed)
	if !ok || strings.Join(search, "\n") == strings.Join(replace, "\n") {
		return "short"
	}
	if strings.Count("\n"+text, "\n"+strings.Join(old, "\n")+"\n") > 1 || d.name == "elided" &&
		(strings.Count(text, strings.Join(old[:4], "\n")) > 1 ||
			strings.Count(strings.Join(lines[at+4:], "\n"), strings.Join(old[size-3:], "\n")) > 1) {
		return "several"
	}
	current := text
	if d.file != nil {
		current = d.file(text)
		if want = d.file(want); d.name != "CRLF in the file" {
			want = strings.ReplaceAll(want, "changed(1)  \n", "changed(1)\n")
		}
	}
	edit := fmt.Sprintf("src/a.txt\n```\n<<<<<<< SEARCH\n%s\n=======\n%s\n>>>>>>> REPLACE\n```\n",
		strings.Join(search, "\n"), strings.Join(replace, "\n"))
	r := reply.Parse([]byte(edit))
	if len(r.Items) != 1 {
		return "asked"
	}
	c, ok := FromItem(r.Items[0])
	if !ok || c.Doubt != "" || c.Refusal != "" {
		return "asked"
	}
	got, err := c.Edit([]byte(current))
	if inexact, ok := err.(*Inexact); err != nil && (!ok || !inexact.Sure) { //nolint:errorlint // it is never wrapped here
		return "asked"
	}
	if plain(string(got)) != plain(want) {
		t.Logf("at line %d:\n%s\n%s", at+1, edit, cmp.Diff(plain(want), plain(string(got))))
		return "wrong"
	}
	return "placed"
}

// plain returns a text without trailing white space, with LF line ends. The test ignores
// these differences of an added line.
func plain(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.Join(lines, "\n")
}
