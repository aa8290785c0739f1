package pages

import (
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/workspace"
)

// TestReviewHostile checks that names and contents from a model are always text.
func TestReviewHostile(t *testing.T) {
	r := newReviewer(t)
	r.link()
	const script = `<script>alert("HOSTILE")</script>`
	page := r.paste("```js:src/$x'&.js\n" + script + "\u202e\n```\n" +
		"```html:../x&'.html\nx\n```\n" +
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 40\ncompleted: " + script +
		"\nnext: <img src=x onerror=alert(1)>\u202e\n=== END PROGRESS UPDATE ===\n" +
		"=== SUBMISSION ===\nassignment_id: A2\nsummary: " + script + "\nevidence: <b>x</b>.go\n=== END SUBMISSION ===\n" +
		"=== ESCALATION ===\nassignment_id: A3\ndecision_needed: " + script +
		"\noptions: <i>a</i> | \"><script>b</script>\nrationale: " + script + "\n=== END ESCALATION ===\n")
	r.see(page, 200, "2 files", "src/$x'&.js", "../x&'.html", "U+202E")
	loose := r.do("/review", url.Values{"text": {"```js:a.js\n</textarea>" + script + "\n```\n"}}, 200).Body
	r.apply(page, 303, url.Values{"post": {"p1", "p2", "p3"}})
	for path, body := range map[string]string{page: r.see(page, 200), "/projects/P1": r.see("/projects/P1", 200),
		"/outbox": r.see("/outbox", 200), "/review": r.see("/review", 200), "unlinked": loose} {
		_, text, _ := strings.Cut(body, "<main")
		for _, markup := range []string{"<script", "<img", "<b>", "<i>", "\u202e"} {
			if strings.Contains(text, markup) {
				t.Errorf("%s has %q in it", path, markup)
			}
		}
	}
	r.see(page, 200, script)
	page = r.paste("```html:a.html\n" + script + "\n```\n```svg:a.svg\n<svg onload=alert(1)/>\n```\n")
	for _, file := range []string{"f1", "f2"} {
		got := r.Get(page + "/files/" + file + "/content")
		if h := got.Header; got.Status != 200 || h.Get("Content-Type") != "application/octet-stream" ||
			!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			h.Get("Content-Security-Policy") != filePolicy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file, got.Status, h)
		}
	}
	r.see(page+"/files/f9/content", 404)
}

// TestReviewPicture checks that a picture is served under a policy without scripts.
func TestReviewPicture(t *testing.T) {
	r := newReviewer(t)
	r.link()
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	page := r.paste("```png:dot.png encoding=base64\n" + png + "\n```\n")
	body := r.see(page, 200, "image/png, 1 × 1 pixels")
	if !strings.Contains(body, `<img src="/ui`+page+`/files/f1/content"`) {
		t.Error("it is not shown")
	}
	got := r.Get(page + "/files/f1/content")
	if h := got.Header; h.Get("Content-Type") != "image/png" || h.Get("Content-Security-Policy") != filePolicy ||
		h.Get("Content-Disposition") != "" {
		t.Errorf("%v", h)
	}
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if !strings.HasPrefix(r.file("dot.png"), "\x89PNG") {
		t.Error("it was not written")
	}
}

// TestReviewCutsOff checks that files that are cut off are reported and not preselected.
func TestReviewCutsOff(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste("```txt:many.txt\n" + strings.Repeat("line\n", fileLines+1) + "```\n```txt:long.txt\n" +
		strings.Repeat("x", lineBytes+7) + "\n```\n```txt:small.txt\nx\n```\n")
	body := r.see(page, 200, "1 more place of this file are not shown here", "… 7 more characters")
	checked := strings.Count(body, `class="whole" checked`)
	if checked != 1 {
		t.Errorf("%d files are preselected", checked)
	}
	r.see(page+"/files/f1", 200, "line", "What changes")
}

// TestMostOfAFileGone checks that a change that removes most of a file is flagged and not
// preselected.
func TestMostOfAFileGone(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int64
		removed       int
		want          bool // marked
	}{
		"a stub":     {9000, 400, 300, false},
		"an edit":    {9000, 8500, 20, true},
		"a few":      {90, 10, 4, true},
		"a new file": {0, 400, 0, true},
	} {
		f := workspace.FileChange{ID: "f1", Path: "a.go", Removed: c.removed, Checked: true, Text: &workspace.TextFacts{},
			Pre: workspace.Fact{Exists: c.before > 0, Size: c.before}, Post: workspace.Fact{Exists: true, Size: c.after}}
		got := changeOf(&f, &budget{page: 100, file: 100, line: 100})
		if got.Checked != c.want || (len(got.Findings) == 0) != c.want {
			t.Errorf("%s: marked is %v, said is %v", name, got.Checked, got.Findings)
		}
	}
}
