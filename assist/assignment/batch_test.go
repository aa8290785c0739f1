package assignment_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/reply"
)

const api = "https://projects.example.com"

func read(t *testing.T, text string, known ...string) assignment.Batch {
	t.Helper()
	r := reply.Parse([]byte(text))
	return assignment.NewBatch(r.Items, assignment.Source{API: api, Project: "P1", Reply: r.SHA256, Assignments: known})
}

// show writes a batch in lines, as the tests compare it.
func show(b assignment.Batch) string {
	var out strings.Builder
	for _, p := range b.Posts {
		state := ""
		for _, h := range p.Holds {
			state += " held:" + string(h.Reason)
		}
		fmt.Fprintf(&out, "%s %s%s %s\n", p.Kind, p.Assignment, state, p.Body)
	}
	for _, p := range b.Problems {
		fmt.Fprintf(&out, "problem %s\n", p.Block)
	}
	return strings.TrimSpace(out.String())
}

// The examples of the format's own documentation, to the byte.
func TestGoldenBodies(t *testing.T) {
	b := read(t, `
=== SUBMISSION ===
assignment_id: A1234
summary: Implemented user authentication
evidence: src/api/auth.ts, src/hooks/useAuth.ts
=== END SUBMISSION ===

=== PROGRESS UPDATE ===
assignment_id: A1234
percent: 75
completed: Completed login implementation
next: Password reset functionality
=== END PROGRESS UPDATE ===

=== ESCALATION ===
assignment_id: A1234
decision_needed: Authentication strategy
options: JWT vs Session-based
recommendation: JWT for better scalability
rationale: Easier to implement microservices
=== END ESCALATION ===
`)
	want := strings.TrimSpace(`
progress A1234 {"progress_percent":75,"progress_notes":"Completed login implementation","remaining_items":["Password reset functionality"]}
escalation A1234 {"escalation_id":"` + b.Posts[1].Escalation + `","assignment_id":"A1234","question":"Authentication strategy","options":["JWT","Session-based"],"recommendation":"JWT for better scalability","rationale":"Easier to implement microservices"}
submission A1234 {"submission_summary":"Implemented user authentication","submission_evidence":["src/api/auth.ts","src/hooks/useAuth.ts"]}`)
	if diff := cmp.Diff(want, show(b)); diff != "" {
		t.Error(diff)
	}
}

func TestBatch(t *testing.T) {
	block := func(name string, lines ...string) string {
		return "\n=== " + name + " ===\n" + strings.Join(lines, "\n") + "\n=== END " + name + " ===\n"
	}
	progress := func(lines ...string) string { return block("PROGRESS UPDATE", lines...) }
	submission := func(lines ...string) string { return block("SUBMISSION", lines...) }
	cases := []struct{ name, text, want string }{
		{"nothing next", progress("assignment_id: A1", "percent: 100%"),
			`progress A1 {"progress_percent":100,"progress_notes":"","remaining_items":[]}`},
		{"a list", progress("assignment_id: A1", "percent: 3 of 4", "completed: x", "next:", "- one", "- two"),
			`progress A1 {"progress_percent":75,"progress_notes":"x","remaining_items":["one","two"]}`},
		{"no percentage", progress("assignment_id: A1", "completed: x"), "problem PROGRESS UPDATE"},
		{"words", progress("assignment_id: A1", "percent: three quarters"), "problem PROGRESS UPDATE"},
		{"over 100", progress("assignment_id: A1", "percent: 150"), "problem PROGRESS UPDATE"},
		{"negative", progress("assignment_id: A1", "percent: -5"), "problem PROGRESS UPDATE"},
		{"a path as id", progress("assignment_id: ../../admin", "percent: 5"), "problem PROGRESS UPDATE"},
		{"no id", progress("percent: 5"), "problem PROGRESS UPDATE"},
		{"not of this work", progress("assignment_id: A9", "percent: 5"), "problem PROGRESS UPDATE"},
		{"example", "```\n" + submission("assignment_id: A1", "summary: s") + "```\n", ""},
		{"placeholder", submission("assignment_id: [assignment ID]", "summary: [summary]"), ""},
		{"the last progress", progress("assignment_id: A1", "percent: 10") + progress("assignment_id: A1", "percent: 20"),
			`progress A1 {"progress_percent":20,"progress_notes":"","remaining_items":[]}`},
		{"twice the same", submission("assignment_id: A1", "summary: s") + submission("assignment_id: A1", "summary: s"),
			`submission A1 {"submission_summary":"s","submission_evidence":[]}`},
		{"two that differ", submission("assignment_id: A1", "summary: s") + submission("assignment_id: A1", "summary: t"),
			"submission A1 held:confirm {\"submission_summary\":\"s\",\"submission_evidence\":[]}\n" +
				"submission A1 held:confirm {\"submission_summary\":\"t\",\"submission_evidence\":[]}"},
		{"no END", "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n",
			`submission A1 held:confirm {"submission_summary":"s","submission_evidence":[]}`},
		{"progress without END", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n",
			`progress A1 {"progress_percent":5,"progress_notes":"","remaining_items":[]}`},
		{"two ids", submission("assignment_id: A1, A2", "summary: s"),
			"submission A1 held:confirm {\"submission_summary\":\"s\",\"submission_evidence\":[]}\n" +
				"submission A2 held:confirm {\"submission_summary\":\"s\",\"submission_evidence\":[]}"},
		{"a stand-up", block("STANDUP", "working_on: x"), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := read(t, c.text, "A1", "A2")
			if c.name == "placeholder" {
				b.Problems = nil // told or not, it is no post
			}
			if diff := cmp.Diff(c.want, show(b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWeigh(t *testing.T) {
	states := map[string]assignment.FileState{"there.go": assignment.Present, "left.go": assignment.Left,
		"gone.go": assignment.Missing}
	for _, c := range []struct {
		evidence string
		held     bool
		warned   bool
	}{{"there.go", false, false}, {"left.go", true, false}, {"gone.go", false, true},
		{"https://example.com/a.go", false, false}} {
		b := read(t, "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence: "+c.evidence+"\n=== END SUBMISSION ===\n")
		b.CheckEvidence(func(e string) assignment.FileState { return states[e] })
		if held := len(b.Posts[0].Holds) > 0; held != c.held || (len(b.Warnings) > 0) != c.warned {
			t.Errorf("%s: held %v, warnings %q", c.evidence, held, b.Warnings)
		}
	}
}

func TestKey(t *testing.T) {
	lane := assignment.LaneID{API: api, Project: "P", Assignment: "A"}
	key := func(l assignment.LaneID, k assignment.Kind, body, reply string) string {
		return assignment.NewKey(l, k, json.RawMessage(body), reply)
	}
	same := key(lane, assignment.Progress, `{"a":1,"b":2}`, "r")
	if key(lane, assignment.Progress, `{ "b": 2, "a": 1 }`, "r") != same {
		t.Error("the layout of JSON makes another key")
	}
	other := []string{same}
	for _, k := range []string{
		key(lane, assignment.Submission, `{"a":1,"b":2}`, "r"),
		key(lane, assignment.Progress, `{"a":1,"b":3}`, "r"),
		key(lane, assignment.Progress, `{"a":1,"b":2}`, "s"),
		key(assignment.LaneID{API: api, Project: "PA"}, assignment.Progress, `{"a":1,"b":2}`, "r"),
		key(assignment.LaneID{API: api, Project: "P", Assignment: "B"}, assignment.Progress, `{"a":1,"b":2}`, "r"),
	} {
		if slices.Contains(other, k) {
			t.Error("two keys are the same")
		}
		other = append(other, k)
	}
}

func TestCheckAPI(t *testing.T) {
	for address, want := range map[string]string{
		"https://Projects.example.com/": "https://projects.example.com", "https://x.example/base/": "https://x.example/base",
		"http://127.0.0.1:8000/demo": "http://127.0.0.1:8000/demo", "http://localhost:1": "http://localhost:1",
		"http://[::1]:1":              "http://[::1]:1",
		"http://projects.example.com": "", "ftp://x": "", "https://u:p@x": "", "https://x/?q": "", "x.example": "", "": "",
		"http://127.0.0.1.example.com": "",
	} {
		got, err := assignment.CheckAPI(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
}
