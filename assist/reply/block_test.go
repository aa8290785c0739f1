package reply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// blockCase is a reply and what its blocks are, one line each: type, verdict,
// ids, percent, fields.
type blockCase struct {
	name, text string
	want       []string
}

func progress(percent string) string {
	return "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: " + percent +
		"\ncompleted: c\nnext: n\n=== END PROGRESS UPDATE ===\n"
}

const submission = "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence: src/a.ts, src/b.ts\n" +
	"=== END SUBMISSION ===\n"

var (
	submitted = []string{"SUBMISSION ok A1 summary=s evidence=[src/a.ts|src/b.ts]"}
	progress5 = "PROGRESS UPDATE ok A1 5% completed=c next=[n]"
)

var blockCases = []blockCase{
	// The seed's own examples.
	{"submission", "=== SUBMISSION ===\nassignment_id: A1234\nsummary: Implemented user authentication\n" +
		"evidence: src/api/auth.ts, src/hooks/useAuth.ts\n=== END SUBMISSION ===\n",
		[]string{"SUBMISSION ok A1234 summary=Implemented user authentication " +
			"evidence=[src/api/auth.ts|src/hooks/useAuth.ts]"}},
	{"progress", "=== PROGRESS UPDATE ===\nassignment_id: A1234\npercent: 75\ncompleted: Implemented login endpoint\n" +
		"next: Add password reset functionality\n=== END PROGRESS UPDATE ===\n",
		[]string{"PROGRESS UPDATE ok A1234 75% completed=Implemented login endpoint " +
			"next=[Add password reset functionality]"}},
	{"escalation", "=== ESCALATION ===\nassignment_id: A1234\ndecision_needed: Authentication strategy\n" +
		"options: JWT vs Session-based\nrecommendation: JWT for better scalability\n" +
		"rationale: Easier to implement microservices\n=== END ESCALATION ===\n",
		[]string{"ESCALATION ok A1234 decision_needed=Authentication strategy options=[*JWT|Session-based] " +
			"recommendation=JWT for better scalability rationale=Easier to implement microservices"}},
	{"standup", "=== STANDUP ===\nworking_on: x\ncompleted: y\nblocked: no\nnext: z\nestimate: 2 h\n=== END STANDUP ===\n",
		[]string{"STANDUP ok  working_on=x completed=y blocked=no next=[z] estimate=2 h"}},
	{"decision", "=== DECISION ===\nescalation_id: E1\nchoice: JWT\nnote: go\n=== END DECISION ===\n",
		[]string{"DECISION ok E1 choice=JWT note=go"}},

	// 4.1: what the published expressions drop or misread.
	{"approximate percent", progress("~75"), []string{"PROGRESS UPDATE ok A1 75% completed=c next=[n]"}},
	{"negative percent", progress("-5"), []string{"PROGRESS UPDATE invalid A1 completed=c next=[n]"}},
	{"percent in words", progress("three quarters"), []string{"PROGRESS UPDATE invalid A1 completed=c next=[n]"}},
	{"no next", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 100\ncompleted: all\n=== END PROGRESS UPDATE ===\n",
		[]string{"PROGRESS UPDATE ok A1 100% completed=all"}},
	{"empty next", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 100\ncompleted: all\nnext:\n" +
		"=== END PROGRESS UPDATE ===\n", []string{"PROGRESS UPDATE ok A1 100% completed=all next=[]"}},
	{"fraction of one", progress("0.75"), []string{"PROGRESS UPDATE ok A1 75% completed=c next=[n]"}},
	{"fraction", progress("3/4"), []string{"PROGRESS UPDATE ok A1 75% completed=c next=[n]"}},
	{"above 100", progress("150"), []string{"PROGRESS UPDATE invalid A1 completed=c next=[n]"}},
	{"empty completed does not take the next line",
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\ncompleted:\nnext: n\n=== END PROGRESS UPDATE ===\n",
		[]string{"PROGRESS UPDATE ok A1 5% completed= next=[n]"}},
	{"a list keeps all its bullets", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\nnext:\n- one\n- two\n" +
		"  more of two\n- [ ] three\n=== END PROGRESS UPDATE ===\n",
		[]string{"PROGRESS UPDATE ok A1 5% next=[one|two more of two|three]"}},
	{"a value with a key in it", "=== SUBMISSION ===\nassignment_id: A1\nsummary: the evidence: is below, see evidence: " +
		"x\nevidence: src/a.ts\n=== END SUBMISSION ===\n", []string{
		"SUBMISSION ok A1 summary=the evidence: is below, see evidence: x evidence=[src/a.ts]"}},
	{"bold key", strings.ReplaceAll(submission, "assignment_id:", "**assignment_id:**"), submitted},
	{"bold key, colon outside", strings.ReplaceAll(submission, "assignment_id:", "**assignment_id**:"), submitted},
	{"key in words", strings.ReplaceAll(submission, "assignment_id:", "Assignment ID:"), submitted},
	{"no END", "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n", []string{"SUBMISSION ambiguous A1 summary=s"}},
	{"no END, then another of the type", "=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n\n=== SUBMISSION ===\n" +
		"assignment_id: A2\nsummary: t\n=== END SUBMISSION ===\n",
		[]string{"SUBMISSION ambiguous A1 summary=s", "SUBMISSION ok A2 summary=t"}},
	{"bold frame", strings.NewReplacer("=== SUBMISSION ===", "**=== SUBMISSION ===**", "=== END SUBMISSION ===",
		"**=== END SUBMISSION ===**").Replace(submission), submitted},
	{"four signs", strings.ReplaceAll(submission, "===", "===="), submitted},
	{"lower case", strings.NewReplacer("SUBMISSION", "submission", "END", "end").Replace(submission), submitted},
	{"plain END", strings.ReplaceAll(submission, "END SUBMISSION", "END"), submitted},
	{"in a fence", "For example:\n\n```\n" + submission + "```\n", nil},
	{"in a fence with a language", "```text\n" + submission + "```\n", nil},
	{"in a wrapper without files", "```markdown\n" + submission + "```\n",
		[]string{"SUBMISSION example A1 summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"in a wrapper with files", "```markdown\n```ts:src/a.ts\nx\n```\n" + submission + "```\n",
		[]string{"SUBMISSION ambiguous A1 summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"in a thought", "<think>\n" + submission + "</think>\n", nil},
	{"in a thought that did not begin", submission + "</think>\nok\n",
		[]string{"SUBMISSION example A1 summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"in a file", "````md:docs/a.md\n" + submission + "````\n", nil},
	{"twice the same", submission + "\n" + submission, []string{
		submitted[0], "SUBMISSION duplicate A1 summary=s evidence=[src/a.ts|src/b.ts]"}},

	// Frames.
	{"no spaces", strings.NewReplacer("=== SUBMISSION ===", "===SUBMISSION===", "=== END SUBMISSION ===",
		"===END SUBMISSION===").Replace(submission), submitted},
	{"heading", strings.ReplaceAll(submission, "=== SUBMISSION", "### === SUBMISSION"), submitted},
	{"underscore", "=== PROGRESS_UPDATE ===\nid: A1\nprogress: 5%\n=== END_OF_PROGRESS_UPDATE ===\n",
		[]string{"PROGRESS UPDATE ok A1 5%"}},
	{"slash", strings.ReplaceAll(submission, "=== END SUBMISSION", "=== /SUBMISSION"), submitted},
	{"indented a little", "  " + strings.ReplaceAll(submission, "\n", "\n  "), submitted},
	{"quoted", "> " + strings.ReplaceAll(strings.TrimSpace(submission), "\n", "\n> ") + "\n",
		[]string{"SUBMISSION ambiguous A1 summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"indented as code", "Text:\n\n    " + strings.ReplaceAll(strings.TrimSpace(submission), "\n", "\n    ") + "\n", nil},
	{"unknown name is prose", "=== WORK ORDER ===\nassignment_id: A1\n=== GATE STATUS ===\n", nil},
	{"unknown name does not end a block",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n=== WORK ORDER ===\nx\n=== END SUBMISSION ===\n",
		[]string{"SUBMISSION ok A1 summary=s\n=== WORK ORDER ===\nx"}},
	{"END of another", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n=== END SUBMISSION ===\n",
		[]string{"PROGRESS UPDATE ok A1 5%"}},
	{"closed by bare signs", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n===\nmore\n",
		[]string{"PROGRESS UPDATE ok A1 5%"}},
	{"CRLF", strings.ReplaceAll(submission, "\n", "\r\n"), submitted},
	{"a colon behind the frame", strings.ReplaceAll(submission, "=== SUBMISSION ===", "=== SUBMISSION ===:"), submitted},
	{"no END, progress, then a paragraph",
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\nnext: n\n\nLet me know what you think.\n",
		[]string{"PROGRESS UPDATE ok A1 5% next=[n]"}},
	{"no END, then a heading", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\nnext:\n- n\n## Files\nx\n",
		[]string{"PROGRESS UPDATE ok A1 5% next=[n]"}},
	{"no END, then a file",
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n\nNow the file:\n\n```ts:src/a.ts\nx\n```\n",
		[]string{"PROGRESS UPDATE ok A1 5%"}},
	{"paragraphs before END stay",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\n\nMore of it.\n\n## And this\n=== END SUBMISSION ===\n",
		[]string{"SUBMISSION ok A1 summary=s\n\nMore of it.\n\n## And this"}},

	// Fields.
	{"full-width colon", strings.ReplaceAll(submission, "summary:", "summary："), submitted},
	{"bulleted fields", "=== SUBMISSION ===\n- **assignment_id:** A1\n- **summary:** s\n" +
		"- **evidence:** src/a.ts, src/b.ts\n=== END SUBMISSION ===\n", submitted},
	{"a bullet that looks like a field",
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\nnext:\n- completed: no, not yet\n- two\n=== END ===\n",
		[]string{"PROGRESS UPDATE ok A1 5% next=[completed: no, not yet|two]"}},
	{"colons, times and URLs", "=== SUBMISSION ===\nassignment_id: A1\nsummary: done at 10:30, see https://x.org:80/a\n" +
		"note that: this stays\nevidence: https://x.org/a,https://x.org/b\n=== END ===\n",
		[]string{"SUBMISSION ok A1 summary=done at 10:30, see https://x.org:80/a\n" +
			"note that: this stays evidence=[https://x.org/a|https://x.org/b] +note_that"}},
	{"unknown key is kept", "=== SUBMISSION ===\nassignment_id: A1\nreviewer: me\nsummary: s\n=== END ===\n",
		[]string{"SUBMISSION ok A1 summary=s +reviewer"}},
	{"a sentence with a comma is one item",
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\nnext: tests, then docs\n=== END ===\n",
		[]string{"PROGRESS UPDATE ok A1 5% next=[tests, then docs]"}},
	{"quotes protect commas",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence: \"a, b.ts\", \"c.ts\"\n=== END ===\n",
		[]string{"SUBMISSION ok A1 summary=s evidence=[a, b.ts|c.ts]"}},
	{"evidence in backticks",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence:\n- `src/a.ts`\n- [src/b.ts](src/b.ts)\n=== END ===\n",
		submitted},
	{"none is no item", "=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 100\nnext: None.\n=== END ===\n",
		[]string{"PROGRESS UPDATE ok A1 100% next=[]"}},
	{"file in a block",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary: s\nevidence:\n```ts:src/a.ts\nx\n```\n=== END ===\n",
		[]string{"SUBMISSION ok A1 summary=s evidence=[src/a.ts] 1 file"}},
	{"a fence in a value is a value",
		"=== SUBMISSION ===\nassignment_id: A1\nsummary:\n```\nevidence: x\n```\n=== END ===\n",
		[]string{"SUBMISSION ok A1 summary=```\nevidence: x\n```"}},
	{"options in lines",
		"=== ESCALATION ===\nassignment_id: A1\nquestion: q\noptions:\n1. JWT (recommended)\n2. Sessions\n=== END ===\n",
		[]string{"ESCALATION ok A1 decision_needed=q options=[*JWT|Sessions]"}},
	{"options with pipes", "=== ESCALATION ===\nassignment_id: A1\nquestion: q\noptions: [JWT | Sessions]\n=== END ===\n",
		[]string{"ESCALATION ok A1 decision_needed=q options=[JWT|Sessions]"}},
	{"options with semicolons", "=== ESCALATION ===\nassignment_id: A1\nquestion: q\noptions: A) JWT; B) Sessions\n" +
		"recommendation: sessions\n=== END ===\n",
		[]string{"ESCALATION ok A1 decision_needed=q options=[JWT|*Sessions] recommendation=sessions"}},

	// Ids and placeholders.
	{"hostile id", strings.ReplaceAll(submission, "A1", "../../admin"),
		[]string{"SUBMISSION invalid  summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"id with dots", strings.ReplaceAll(submission, "A1", "a..b"),
		[]string{"SUBMISSION invalid  summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"long id", strings.ReplaceAll(submission, "A1", strings.Repeat("A", 65)),
		[]string{"SUBMISSION invalid  summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"id with words", strings.ReplaceAll(submission, "A1", "A1 (login)"), submitted},
	{"id in backticks", strings.ReplaceAll(submission, "A1", "`A1`"), submitted},
	{"several ids", strings.ReplaceAll(submission, "A1", "A1, A2 and A3"),
		[]string{"SUBMISSION ambiguous A1,A2,A3 summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"placeholder id", strings.ReplaceAll(submission, "A1", "[assignment ID]"),
		[]string{"SUBMISSION example  summary=s evidence=[src/a.ts|src/b.ts]"}},
	{"placeholder summary", strings.ReplaceAll(submission, "summary: s", "summary: <what was done>"),
		[]string{"SUBMISSION example A1 summary=<what was done> evidence=[src/a.ts|src/b.ts]"}},
	{"placeholder of dots", strings.ReplaceAll(submission, "summary: s", "summary: ..."),
		[]string{"SUBMISSION example A1 summary=... evidence=[src/a.ts|src/b.ts]"}},
	{"placeholder options", "=== ESCALATION ===\nassignment_id: A1\nquestion: q\noptions: [a | b | ...]\n=== END ===\n",
		[]string{"ESCALATION example A1 decision_needed=q options=[a|b]"}},
	{"no summary", "=== SUBMISSION ===\nassignment_id: A1\n=== END ===\n", []string{"SUBMISSION invalid A1"}},
	{"no id", "=== SUBMISSION ===\nsummary: s\n=== END ===\n", []string{"SUBMISSION invalid  summary=s"}},
	{"two submissions for one id", submission + strings.ReplaceAll(submission, "summary: s", "summary: t"),
		[]string{"SUBMISSION ambiguous A1 summary=s evidence=[src/a.ts|src/b.ts]",
			"SUBMISSION ambiguous A1 summary=t evidence=[src/a.ts|src/b.ts]"}},
	{"two progresses for one id", progress("5") + progress("10"),
		[]string{strings.Replace(progress5, "ok", "superseded", 1), "PROGRESS UPDATE ok A1 10% completed=c next=[n]"}},
	{"two ids", progress("5") + strings.ReplaceAll(progress("5"), "A1", "A2"),
		[]string{progress5, strings.Replace(progress5, "A1", "A2", 1)}},

	// Other syntaxes.
	{"JSON", "=== PROGRESS UPDATE ===\n{\"assignment_id\": \"A1\", \"percent\": 5, \"completed\": \"c\", \"next\": " +
		"[\"n\"], \"mood\": 1}\n=== END ===\n", []string{"PROGRESS UPDATE ok A1 5% completed=c next=[n] +mood"}},
	{"JSON in a fence", "=== PROGRESS UPDATE ===\n```json\n{\n  \"assignment_id\": \"A1\",\n  \"percent\": 5,\n" +
		"  \"completed\": \"c\",\n  \"next\": [\"n\"]\n}\n```\n=== END ===\n", []string{progress5}},
	{"JSON that is none", "=== PROGRESS UPDATE ===\n{\"assignment_id\": \n=== END ===\n",
		[]string{"PROGRESS UPDATE invalid "}},
	{"YAML in a fence", "=== PROGRESS UPDATE ===\n```yaml\nassignment_id: A1\npercent: 5\ncompleted: |\n  c\nnext:\n" +
		"  - n\n```\n=== END ===\n", []string{progress5}},
}

func describe(it *Item) string {
	b := it.Block
	s := fmt.Sprintf("%s %s %s", b.Type, it.Verdict, strings.Join(b.IDs, ","))
	if b.Percent != nil {
		s += fmt.Sprintf(" %d%%", b.Percent.Value)
	}
	for _, f := range b.Fields {
		switch f.Key {
		case KeyPercent, KeyAssignment, KeyEscalation:
		case KeyEvidence, KeyNext:
			s += " " + f.Key + "=[" + strings.Join(f.List, "|") + "]"
		case KeyOptions:
			var options []string
			for _, o := range b.Options {
				if o.Recommended {
					o.Text = "*" + o.Text
				}
				options = append(options, o.Text)
			}
			s += " options=[" + strings.Join(options, "|") + "]"
		default:
			s += " " + f.Key + "=" + f.Text
		}
	}
	for _, f := range b.Extra {
		s += " +" + f.Key
	}
	if n := len(b.Files); n > 0 {
		s += fmt.Sprintf(" %d file", n)
	}
	return s
}

func TestBlocks(t *testing.T) {
	for _, c := range blockCases {
		t.Run(c.name, func(t *testing.T) {
			r := Parse([]byte(c.text))
			var got []string
			for _, it := range r.Items {
				if it.Kind == KindBlock {
					got = append(got, describe(it))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				b, _ := r.JSON()
				t.Errorf("%s\n%s", diff, b)
			}
		})
	}
}

// TestExamplesAreCounted: a block in a fence is not posted, and not passed over
// in silence.
func TestExamplesAreCounted(t *testing.T) {
	r := Parse([]byte("```\n" + submission + "```\n" + strings.ReplaceAll(submission, "A1", "[id]")))
	if r.Examples != 2 || len(r.Blocks()) != 0 {
		t.Errorf("%d examples, %d blocks", r.Examples, len(r.Blocks()))
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]int{
		"75": 75, "75%": 75, "75 %": 75, "~75": 75, "~ 75%": 75, "about 75": 75, "75/100": 75, "3/4": 75, "3 of 4": 75,
		"3 out of 4": 75, "0.75": 75,
		"75.5": 76, "70-80": 70, "70–80%": 70, "70% - 80%": 70, "0": 0, "100": 100, "1": 1, "1.0": 100, "0.5%": 1,
		"75% complete": 75, "100% (done)": 100,
		"75％": 75, "**75**": 75, "75.": 75, "75% of 100": 75, "≈75": 75, "0/4": 0, "75,": 75,
		"": -1, "-5": -1, "150": -1, "100.5": -1, "5/4": -1, "1/0": -1, "three quarters": -1, "7 5": -1, "75 80": -1,
		"80-70": -1, "50,5": -1, "1e1": -1, "5x": -1, "NaN": -1,
		"70 -> 80": -1, "70 → 80": -1, "a lot": -1, "-": -1, "%": -1, "99999999999999999999999": -1,
	} {
		got, err := readPercent(text)
		switch {
		case want < 0 && err == nil:
			t.Errorf("%q is read as %d", text, got.Value)
		case want >= 0 && (err != nil || got.Value != want || got.Raw != text):
			t.Errorf("%q: %+v, %v; want %d", text, got, err, want)
		}
	}
}

func TestDefine(t *testing.T) {
	r := Standard()
	err := r.Define(BlockType{Name: "brainstorm artifact", Keys: []Key{
		{Name: "title", Required: true}, {Name: "ideas", Kind: FieldList}}})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("=== BRAINSTORM ARTIFACT ===\n{\"title\": \"t\", \"ideas\": [\"a\", \"b\"]}\n" +
		"=== END BRAINSTORM ARTIFACT ===\n")
	got := ParseWith(text, Options{Registry: r})
	if len(got.Items) != 1 || !got.Items[0].OK() || got.Items[0].Block.Text("title") != "t" ||
		len(got.Items[0].Block.List("ideas")) != 2 {
		b, _ := got.JSON()
		t.Errorf("%s", b)
	}
	if n := len(Parse(text).Items); n != 0 {
		t.Errorf("a type defined in one registry is known in another: %d items", n)
	}
	for _, bad := range []BlockType{{Name: ""}, {Name: "END X"}, {Name: "A = B"},
		{Name: "X", Keys: []Key{{Name: "a"}, {Name: "b", Aliases: []string{"A"}}}}, {Name: "X", Keys: []Key{{}}}} {
		if err := r.Define(bad); err == nil {
			t.Errorf("Define(%+v) passes", bad)
		}
	}
}

func TestProgressAtTheEndWithoutSubmissionWarns(t *testing.T) {
	if w := Parse([]byte(progress("100"))).Warnings; len(w) != 1 || w[0].Code != "block.no_submission" {
		t.Errorf("%+v", w)
	}
	if w := Parse([]byte(progress("100") + submission)).Warnings; len(w) != 0 {
		t.Errorf("%+v", w)
	}
}

func TestControlTags(t *testing.T) {
	r := Parse([]byte("Done.\n\n[PHASE_ADVANCE:X]\n[not:this] [Nor:that]\n"))
	if diff := cmp.Diff([]string{"PHASE_ADVANCE:X"}, r.Tags); diff != "" {
		t.Error(diff)
	}
}

func FuzzBlock(f *testing.F) {
	for _, c := range blockCases {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 5000 {
			t.Skip()
		}
		sound(t, []byte("=== PROGRESS UPDATE ===\n"+body+"\n=== END ===\n"))
		for _, it := range Parse([]byte(body)).Items {
			if it.Kind != KindBlock || !it.OK() {
				continue
			}
			for _, id := range it.Block.IDs {
				if !idPattern().MatchString(id) || strings.Contains(id, "..") {
					t.Errorf("id %q", id)
				}
			}
			if p := it.Block.Percent; p != nil && (p.Value < 0 || p.Value > 100) {
				t.Errorf("percent %d", p.Value)
			}
		}
	})
}

// TestUnregisteredKey has keys that no block has: they are shown, and not sent with the field
// before them.
func TestUnregisteredKey(t *testing.T) {
	r := Parse([]byte("=== SUBMISSION ===\nassignment_id: A1\nsummary: done\nevidence:\n- src/a.ts\nreviewer: bob\n" +
		"Approved by:\n- carol\n=== END SUBMISSION ===\n"))
	if len(r.Items) != 1 || r.Items[0].Verdict != VerdictOK {
		t.Fatalf("%+v; want one block", r.Items)
	}
	it := r.Items[0]
	if got := strings.Join(it.Block.List(KeyEvidence), ", "); got != "src/a.ts" {
		t.Errorf("evidence: %q, want src/a.ts alone", got)
	}
	if len(it.Block.Extra) != 2 || it.Block.Extra[0].Text != "bob" || !strings.Contains(it.Block.Extra[1].Text, "carol") ||
		len(it.Warnings) != 2 {
		t.Errorf("shown %+v with warnings %v; want reviewer and Approved by", it.Block.Extra, it.Warnings)
	}
	// In a text, a sentence with a colon stays.
	r = Parse([]byte("=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 50\ncompleted: half is done\n" +
		"Next step: tests\nticket: 7\n=== END PROGRESS UPDATE ===\n"))
	got := r.Items[0].Block.Text(KeyCompleted)
	if !strings.Contains(got, "Next step: tests") || strings.Contains(got, "ticket") {
		t.Errorf("completed: %q; want the sentence, and no unregistered key", got)
	}
}
