package reply

import (
	"strings"
	"testing"
)

// TestForeignForms puts forms of other tools beside a fence. Each is read, or named as one that
// is not: none vanishes.
func TestForeignForms(t *testing.T) {
	const fence = "```ts:src/ok.ts\nok\n```\n\n"
	for _, c := range []struct {
		text, path string
		verdict    Verdict
		content    string
	}{
		{"<dyad-write path=\"src/a.tsx\" description=\"x\">\na\n</dyad-write>\n", "src/a.tsx", VerdictOK, "a\n"},
		{"<lov-write file_path=\"src/a.tsx\">\na\n</lov-write>\n", "src/a.tsx", VerdictOK, "a\n"},
		{"<create_file path=\"src/a.ts\">\na\n</create_file>\n", "src/a.ts", VerdictOK, "a\n"},
		{"<boltArtifact id=\"x\" title=\"y\"><boltAction type=\"file\" filePath=\"src/a.ts\">a</boltAction></boltArtifact>\n",
			"src/a.ts", VerdictOK, "a"},
		{"  <boltAction type=\"file\" filePath=\"src/a.ts\">\na\n  </boltAction>\n", "src/a.ts", VerdictOK, "a\n"},
		{"<dyad-delete path=\"src/a.ts\"></dyad-delete>\n", "src/a.ts", VerdictInvalid, ""},
		{"<dyad-rename from=\"src/a.ts\" to=\"src/b.ts\"></dyad-rename>\n", "src/a.ts", VerdictInvalid, ""},
		{"<antArtifact identifier=\"x\" type=\"application/vnd.ant.code\" title=\"X\">\na\n</antArtifact>\n", "",
			VerdictInvalid, ""},
		{"<invoke name=\"str_replace_based_edit_tool\">\n<parameter name=\"command\">create</parameter>\n" +
			"<parameter name=\"path\">src/a.ts</parameter>\n</invoke>\n", "src/a.ts", VerdictInvalid, ""},
		{"<edit_file>\n<path>src/a.ts</path>\n</edit_file>\n", "src/a.ts", VerdictInvalid, ""},
		{`{"name":"write_file","arguments":{"path":"src/a.ts","content":"a"}}` + "\n", "src/a.ts", VerdictInvalid, ""},
		{`{"tool":"Edit","input":{"file_path":"src/a.ts"}}` + "\n", "src/a.ts", VerdictInvalid, ""},
		{`{"command":["apply_patch","*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch\n"]}` + "\n", "a.txt", VerdictOK, "a\n"},
		{"File: my file.cpp\n```cpp\na\n```\n", "my file.cpp", VerdictAmbiguous, "a\n"},
	} {
		items := Parse([]byte(fence + c.text)).Items
		if len(items) != 2 {
			t.Errorf("%q: %d items, want it beside the fence", c.text, len(items))
			continue
		}
		if it := items[1]; it.Path != c.path || it.Verdict != c.verdict || string(it.Content) != c.content ||
			c.verdict == VerdictInvalid && !strings.Contains(it.Reason, "form of another tool") {
			t.Errorf("%q: %q is %s (%s) with %q; want %q, %s, %q", c.text, it.Path, it.Verdict, it.Reason, it.Content, c.path,
				c.verdict, c.content)
		}
	}
	for _, text := range []string{"<invoke name=\"get_weather\">\n</invoke>\n", `{"name":"search","arguments":{"q":"x"}}` + "\n",
		`{"name":"write_file"}` + "\n", "Use `<dyad-write>` for it.\n"} {
		if items := Parse([]byte(fence + text)).Items; len(items) != 1 {
			t.Errorf("%q: %+v; want no item", text, items[1])
		}
	}
}

// TestLooseEnvelope has lines of context without their blank, in an envelope outside of a fence.
func TestLooseEnvelope(t *testing.T) {
	const patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\ntwo\n-old\n+new\n"
	items := Parse([]byte(patch + "*** End Patch\nDone.\n")).Items
	if len(items) != 1 || items[0].Verdict != VerdictAmbiguous || !items[0].Guessed {
		t.Fatalf("%d items, the first is %s (%s); want a guess", len(items), items[0].Verdict, items[0].Reason)
	}
	r, err := Apply(items[0], []byte("one\ntwo\nold\n"))
	if err != nil || string(r.Content) != "one\ntwo\nnew\n" {
		t.Errorf("applied: %q, %v", r.Content, err)
	}
	// Without an end, what follows is read as if the envelope ended where its signs end.
	items = Parse([]byte(patch + "```ts:b.ts\nb\n```\n" + patch + "*** End Patch\n")).Items
	if len(items) != 3 || items[0].Verdict != VerdictTruncated || items[1].Path != "b.ts" ||
		items[1].Verdict != VerdictOK {
		t.Errorf("%d items: %s, then %s %s; want a truncated edit and b.ts", len(items), items[0].Verdict, items[1].Path,
			items[1].Verdict)
	}
}

func TestEnvelopeReplaces(t *testing.T) {
	items := Parse([]byte("*** Begin Patch\n*** Delete File: a.txt\n*** Add File: a.txt\n+new\n*** End Patch\n")).Items
	last := items[len(items)-1]
	if r, err := Apply(last, []byte("old\n")); err != nil || string(r.Content) != "new\n" {
		t.Errorf("Add after Delete of the same file: %v; want it replaced", err)
	}
}
