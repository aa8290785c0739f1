package reply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// examples are the bodies of the prompt's own fences.
func examples(t *testing.T) []string {
	t.Helper()
	var all []string
	var fence string
	var body strings.Builder
	for line := range strings.Lines(Prompt()) {
		run := strings.TrimRight(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(run, "```"):
			fence = run[:len(run)-len(strings.TrimLeft(run, "`"))]
			body.Reset()
		case fence != "" && run == fence:
			all, fence = append(all, body.String()), ""
		case fence != "":
			body.WriteString(line)
		}
	}
	if fence != "" {
		t.Fatal("the prompt has a fence that does not end")
	}
	return all
}

// TestPromptExamples checks that the parser reads the prompt's examples.
func TestPromptExamples(t *testing.T) {
	var got []string
	for _, text := range examples(t) {
		for _, it := range Parse([]byte(text)).Items {
			if !it.OK() {
				t.Errorf("%s %s is %s: %s", it.Kind, it.Path, it.Verdict, it.Reason)
			}
			if it.Kind == KindBlock {
				got = append(got, it.Block.Type)
				continue
			}
			got = append(got, string(it.Kind)+" "+it.Path)
		}
	}
	want := []string{"file src/api/auth.ts", "edit src/api/auth.ts", "delete src/api/old.ts", "rename src/api/names.ts",
		"file assets/dot.gif", BlockProgress, BlockSubmission, BlockEscalation}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPromptEchoIsHarmless: a model that repeats the prompt changes nothing.
func TestPromptEchoIsHarmless(t *testing.T) {
	for _, text := range []string{Prompt(), "Here is what I was told:\n\n" + Prompt(), "```\n" + Prompt() + "```\n",
		"```markdown\n" + Prompt() + "```\n"} {
		r := Parse([]byte(text))
		for _, it := range r.Items {
			if it.OK() {
				t.Errorf("%s %s is OK", it.Kind, it.Path)
			}
		}
	}
}

func TestPromptNamesEveryStandardBlock(t *testing.T) {
	for _, kind := range standardTypes() {
		if !strings.Contains(Prompt(), kind.Name) {
			t.Errorf("the prompt does not mention %s", kind.Name)
		}
	}
	if PromptVersion != "v1" {
		t.Errorf("version %s", PromptVersion)
	}
}
