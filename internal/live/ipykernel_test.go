package live

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// answer is what ipykernel said to a snippet; scripts/live-answers asks it.
type answer struct {
	Code    string         `json:"code"`
	Status  string         `json:"status"`
	Count   int            `json:"count"`
	Outputs []answerOutput `json:"outputs"`
}

type answerOutput struct {
	Type   string   `json:"type"`
	Text   string   `json:"text"`
	Kinds  []string `json:"kinds"`
	Plain  string   `json:"plain"`
	Update bool     `json:"update"`
	Name   string   `json:"name"`
	Value  string   `json:"value"`
}

// asAnswer is a cell in ipykernel's terms.
func asAnswer(t *testing.T, code string, c Cell) answer {
	a := answer{Code: code, Status: string(c.Status), Count: c.ExecutionCount, Outputs: []answerOutput{}}
	for _, o := range c.Outputs {
		as := answerOutput{Type: string(o.Type), Text: o.Text, Name: o.Name, Value: o.Value, Update: o.Update}
		if o.Data != nil {
			kinds := maps.Clone(o.Data)
			delete(kinds, TableForm) // which ipykernel does not have
			as.Kinds = slices.Sorted(maps.Keys(kinds))
			as.Plain = form(t, o, "text/plain")
		}
		a.Outputs = append(a.Outputs, as)
	}
	return a
}

// whatever differs from one run to the next, or between the two, and is the same to a
// person.
var differing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	// the name of a cell's file
	{regexp.MustCompile(`<ipython-input-\d+-[0-9a-f]+>|\d+\.py|/tmp/ipykernel_\d+/\d+\.py`), "<cell>"},
	// where IPython lies
	{regexp.MustCompile(`(?:/[\w.-]+)+/interactiveshell\.py:\d+`), "interactiveshell.py"},
	{regexp.MustCompile(`\d+(\.\d+)?(e[+-]?\d+)? [^ ,\n]{0,2}s\b`), "<time>"}, // of %time
	// of a command: ipykernel runs it on a terminal, and there is none here
	{regexp.MustCompile(`\r\n`), "\n"},
	{regexp.MustCompile(`at 0x[0-9a-f]+`), "at <address>"},
	// our sentence says what to do
	{regexp.MustCompile(`raw_input was called[^\n]*|this cell has no input[^\n]*`), "<no input>"},
	// what programs expect at the end of an input
	{regexp.MustCompile(`StdinNotImplementedError`), "EOFError"},
}

func TestBesideIPykernel(t *testing.T) {
	raw, err := os.ReadFile("testdata/ipykernel.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []answer
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) < 25 {
		t.Fatalf("%d snippets", len(want))
	}
	p := openWithPackages(t, Config{})
	s := p.session("python")
	for _, wanted := range want {
		got := asAnswer(t, wanted.Code, p.run(s, wanted.Code))
		if diff := gocmp.Diff(plainly(wanted), plainly(got)); diff != "" {
			t.Errorf("%q: - ipykernel, + ours:\n%s", wanted.Code, diff)
		}
	}
}

// plainly leaves out what differs for a reason.
func plainly(a answer) answer {
	a.Outputs = slices.DeleteFunc(a.Outputs, func(o answerOutput) bool { // of sys.exit; see TestExitCodes
		return o.Name == "SystemExit" || strings.Contains(o.Text, "To exit: use 'exit', 'quit', or Ctrl-D.")
	})
	slices.SortStableFunc(a.Outputs, func(x, y answerOutput) int { // the order of two streams is not ipykernel's promise
		return cmp.Compare(strings.Index("stderr stdout", x.Type), strings.Index("stderr stdout", y.Type))
	})
	for i := range a.Outputs {
		o := &a.Outputs[i]
		for _, d := range differing {
			for _, field := range []*string{&o.Text, &o.Plain, &o.Name, &o.Value} {
				*field = d.pattern.ReplaceAllString(*field, d.instead)
			}
		}
	}
	return a
}
