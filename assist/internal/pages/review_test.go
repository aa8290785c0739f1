package pages

import (
	"archive/zip"
	"bytes"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/web"
)

// filePolicy is the policy of every file that somebody else made.
const filePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

const projectAPI = "https://projects.example.com"

// reviewer is a visitor of pages that have a folder and a project's API.
type reviewer struct {
	*pagetest.Visitor
	folder string // that the service was given
	root   string // of the project, below it
	owner  engine.Owner
	review *Review
	sender *assignment.Sender
}

func newReviewer(t *testing.T) *reviewer {
	t.Helper()
	r := &reviewer{owner: engine.Local, folder: t.TempDir()}
	r.root = filepath.Join(r.folder, "site")
	data := t.TempDir()
	db, err := state.Open(t.Context(), data, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := os.Mkdir(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	desk := changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(),
		Outbox: assignment.NewOutbox(db.Outbox()), Protected: []string{data}})
	r.sender = assignment.NewSender(db.Outbox(), assignment.SenderOptions{
		HTTP: &http.Client{Transport: &demo.Project{}}})
	r.review = &Review{Scoped: &changes.Scoped{Replies: desk, Folders: []string{r.folder}, Wake: func() {}},
		Replies: db.Projects()}
	r.Visitor = pagetest.Visit(t, true, nil, func(o page.Options, e *engine.Service) (*page.Site, error) {
		o.Caller = func(*http.Request) (engine.Caller, bool) { return engine.Caller{Owner: r.owner}, r.owner != "" }
		return web.New(web.Options{Site: o, Engine: e, Languages: noLanguages, Parts: []page.Part{Part(nil, r.review)}})
	})
	return r
}

// do sends a form with the token, and expects a status and texts.
func (r *reviewer) do(path string, fields url.Values, status int, contains ...string) pagetest.Answer {
	r.T.Helper()
	if fields == nil {
		fields = url.Values{}
	}
	fields.Set("token", r.Token())
	return r.expect("POST "+path, r.Post(path, fields), status, contains...)
}

func (r *reviewer) see(path string, status int, contains ...string) string {
	r.T.Helper()
	return r.expect(path, r.Get(path), status, contains...).Body
}

func (r *reviewer) expect(what string, got pagetest.Answer, status int, contains ...string) pagetest.Answer {
	r.T.Helper()
	if got.Status != status {
		r.T.Fatalf("%s: status %d, want %d: %s", what, got.Status, status, mainText(got.Body))
	}
	for _, text := range contains {
		if !strings.Contains(mainText(got.Body), text) {
			r.T.Errorf("%s: %q is not in %s", what, text, mainText(got.Body))
		}
	}
	return got
}

var tags = regexp.MustCompile(`<[^>]*>`)

// mainText returns the text of a page without its markup.
func mainText(body string) string {
	_, body, _ = strings.Cut(body, "<main")
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))), " ")
}

func (r *reviewer) link() {
	r.T.Helper()
	r.do("/projects", url.Values{"project": {"P1"}, "folder": {r.root}, "api": {projectAPI}}, 303)
}

func (r *reviewer) put(name, content string) {
	r.T.Helper()
	path := filepath.Join(r.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

func (r *reviewer) file(name string) string {
	text, err := os.ReadFile(filepath.Join(r.root, name))
	if err != nil {
		return "missing"
	}
	return string(text)
}

// paste submits a reply and returns the path of its page.
func (r *reviewer) paste(text string) string {
	r.T.Helper()
	return r.where(r.do("/review", url.Values{"text": {text}, "project": {"P1"}}, 303))
}

func (r *reviewer) where(a pagetest.Answer) string {
	return strings.TrimPrefix(a.Header.Get("Location"), "/ui")
}

var revisionOf = regexp.MustCompile(`name="revision" value="([^"]+)"`)

// revision returns the revision in the form of a reply's page.
func (r *reviewer) revision(path string) string {
	r.T.Helper()
	found := revisionOf.FindStringSubmatch(r.see(path, 200))
	if found == nil {
		r.T.Fatalf("nothing on %s can be approved", path)
	}
	return found[1]
}

func (r *reviewer) apply(path string, status int, marks url.Values, contains ...string) pagetest.Answer {
	r.T.Helper()
	if marks.Get("revision") == "" {
		marks.Set("revision", r.revision(path))
	}
	return r.do(path+"/apply", marks, status, contains...)
}

const wholeReply = "```go:a.go\npackage a\n```\n\n```go:sub/b.go\npackage b\n```\n\n" +
	"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 40\ncompleted: half of it\nnext: the rest\n" +
	"=== END PROGRESS UPDATE ===\n" +
	"=== SUBMISSION ===\nassignment_id: A2\nsummary: all of it\nevidence: a.go, sub/b.go, none.go\n" +
	"=== END SUBMISSION ===\n" +
	"=== ESCALATION ===\nassignment_id: A3\ndecision_needed: Which of both?\noptions: JWT | Sessions\n" +
	"=== END ESCALATION ===\n" +
	"=== STANDUP ===\nworking_on: a\n=== END STANDUP ===\n"

// TestReviewFlow pastes, views, partly applies and undoes a reply.
func TestReviewFlow(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste(wholeReply)
	r.see("/review", 200, "Waiting for you", "create a.go (+1 -0)", "3 reports")
	r.see(page, 200, "2 files", "package b", "40 %", "half of it", "the rest", "all of it", "comes with this reply",
		"missing", "Which of both?", "Sessions", "STANDUP", "It can be answered once it was asked")
	if got := r.file("a.go"); got != "missing" {
		t.Fatalf("before the approval a.go is %q", got)
	}
	r.apply(page, 400, url.Values{}, "Nothing is marked")
	r.apply(page, 303, url.Values{"file": {"f1"}, "post": {"p1", "p2", "p3"}})
	if a, b := r.file("a.go"), r.file("sub/b.go"); a != "package a\n" || b != "missing" {
		t.Errorf("a.go is %q, b.go is %q", a, b)
	}
	r.see(page, 200, "applied", "What was done", "new a.go", "left out sub/b.go", "waits to be sent", "held back",
		"sub/b.go was not written")
	r.apply(page, 409, url.Values{"revision": {"x"}, "file": {"f2"}}, "decided before")
	r.see("/review", 200, "Nothing waits", "Settled", "create a.go")

	undo := r.where(r.do(page+"/undo", nil, 303))
	r.see(undo, 200, "Undo for P1", "a.go", "deleted")
	r.apply(undo, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.go"); got != "missing" {
		t.Errorf("after the undo a.go is %q", got)
	}
	r.do(page+"/undo", nil, 409, "nothing to revert")
}

const tenLines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"

func twoPlaces() string {
	return strings.Replace(strings.Replace(tenLines, "2\n", "two\n", 1), "\n19\n", "\nnineteen\n", 1)
}

// TestReviewHunks accepts one of two hunks of a file.
func TestReviewHunks(t *testing.T) {
	r := newReviewer(t)
	r.link()
	for name, c := range map[string]struct {
		marks url.Values
		want  string
	}{
		"one": {url.Values{"file": {"f1"}, "byhunk": {"f1"}, "hunk": {"f1:h2"}},
			strings.Replace(tenLines, "\n19\n", "\nnineteen\n", 1)},
		"both":     {url.Values{"file": {"f1"}, "byhunk": {"f1"}, "hunk": {"f1:h1", "f1:h2"}}, twoPlaces()},
		"no parts": {url.Values{"file": {"f1"}}, twoPlaces()},
	} {
		r.put("a.txt", tenLines)
		page := r.paste("```txt:a.txt\n" + twoPlaces() + "```\n<!-- " + name + " -->\n")
		r.see(page, 200, "@@ -1,5 +1,5 @@", "@@ -16,5 +16,5 @@")
		r.apply(page, 303, c.marks)
		if got := r.file("a.txt"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	r.put("a.txt", tenLines)
	page := r.paste("```txt:a.txt\n" + twoPlaces() + "```\n")
	r.apply(page, 400, url.Values{"file": {"f1"}, "byhunk": {"f1"}}, "Nothing is marked")
	r.apply(page, 400, url.Values{"file": {"f9"}})
	r.apply(page, 400, url.Values{"file": {"f1"}, "byhunk": {"f1"}, "hunk": {"f1:h9"}})
	if got := r.file("a.txt"); got != tenLines {
		t.Errorf("%q", got)
	}
}

// TestReviewStale checks that the approval of one proposal does not apply another.
func TestReviewStale(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste("```go:a.go\npackage a\n```\n")
	seen := r.revision(page)
	edited := r.do(page+"/files/f1", url.Values{"revision": {seen}, "choice": {"edited"}, "text": {"package evil\r\n"}},
		303)
	if r.where(edited) != page+"#f1" {
		t.Errorf("to %s", r.where(edited))
	}
	r.apply(page, 409, url.Values{"revision": {seen}, "file": {"f1"}}, "has changed since you looked at it",
		"package evil")
	for _, revision := range []string{"0", strings.ToUpper(seen), seen[:10]} {
		r.apply(page, 409, url.Values{"revision": {revision}, "file": {"f1"}})
	}
	r.do(page+"/apply", url.Values{"file": {"f1"}}, 409) // no revision
	r.do(page+"/files/f1", url.Values{"revision": {seen}, "choice": {"skip"}}, 409, "has changed since you looked")
	r.do(page+"/rebase", url.Values{"revision": {seen}}, 409)
	if got := r.file("a.go"); got != "missing" {
		t.Fatalf("a.go is %q", got)
	}
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.go"); got != "package evil\n" {
		t.Errorf("a.go is %q", got)
	}
}

// TestReviewEdit checks that an edit in place keeps the file's line ends.
func TestReviewEdit(t *testing.T) {
	r := newReviewer(t)
	r.link()
	r.put("a.txt", "one\r\ntwo\r\n")
	page := r.paste("```txt:a.txt\none\nTWO\n```\n")
	body := r.see(page+"/files/f1", 200, "Edit", "What changes")
	if !strings.Contains(body, "<textarea id=\"text\"") || !strings.Contains(body, ">\none\nTWO\n</textarea>") {
		t.Errorf("the field: %s", body)
	}
	r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {"nothing"}}, 400)
	r.do(page+"/files/f9", url.Values{"revision": {r.revision(page)}, "choice": {"edited"}}, 404)
	r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {"edited"}, "text": {"one\r\nthree\r\n"}},
		303)
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.txt"); got != "one\r\nthree\r\n" {
		t.Errorf("%q", got)
	}
	r.see(page+"/files/f1", 303)
}

// TestReviewReadings shows a document of uncertain end with each reading. The chosen
// reading is written.
func TestReviewReadings(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste("```markdown:README.md\n# T\n```\nnpm i\n```\nthe end\n```\n")
	r.see(page, 200, "can be paired in more than one way")
	body := r.see(page+"/files/f1", 200, "The reply can be read in 2 ways", "This one is proposed", "Take this reading",
		"the end")
	if strings.Count(body, "Take this reading") != 1 {
		t.Error("the reading that is proposed is offered, too")
	}
	r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {"r3"}}, 400)
	for _, c := range []struct{ choice, want string }{{"r2", "# T\n"}, {"r1", "# T\n```\nnpm i\n```\nthe end\n"}} {
		r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {c.choice}}, 303)
		_, p, err := r.review.OpenReply(t.Context(), "local", strings.TrimPrefix(page, "/review/"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Files[0].After().Bytes(t.Context(), 1<<20); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", c.choice, got, err)
		}
	}
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if got := r.file("README.md"); got != "# T\n```\nnpm i\n```\nthe end\n" {
		t.Errorf("%q", got)
	}
}

// TestReviewPlaces takes each match of an ambiguous edit.
func TestReviewPlaces(t *testing.T) {
	r := newReviewer(t)
	r.link()
	r.put("a.txt", "x\nb\nx\n")
	page := r.paste("a.txt\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n")
	r.see(page, 200, "It fits in several places; there are 2 ways to choose from")
	r.see(page+"/files/f1", 200, "can be read in 2 ways", "line 1 is taken", "line 3 is taken", "This one is proposed")
	r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {"r2"}}, 303)
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.txt"); got != "x\nb\ny\n" {
		t.Errorf("%q", got)
	}
}

// TestReviewConflict shows the three versions of a conflict, and resolves it in each way.
func TestReviewConflict(t *testing.T) {
	for choice, want := range map[string]string{"mine": "one\nMINE\nthree\n", "theirs": "one\nTHEIRS\nthree\n",
		"edited": "one\nboth\nthree\n", "skip": "one\nMINE\nthree\n"} {
		r := newReviewer(t)
		r.link()
		r.put("a.txt", "one\ntwo\nthree\n")
		page := r.paste("```txt:a.txt\none\nTHEIRS\nthree\n```\n```txt:b.txt\nb\n```\n")
		r.put("a.txt", "one\nMINE\nthree\n")
		r.apply(page, 409, url.Values{"file": {"f1", "f2"}}, "have changed since the proposal was made",
			"Resolve the conflict", "merge.overlap")
		if got := r.file("b.txt"); got != "missing" {
			t.Fatalf("half of it was applied: %q", got)
		}
		r.see(page+"/files/f1", 200, "Base: what both began with", "In the folder now", "Theirs: proposed", "MINE",
			"THEIRS", "Take the proposed version", "<<<<<<< in the folder")
		r.apply(page, 409, url.Values{"file": {"f1"}}, "cannot be approved as it is")
		r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {"edited"},
			"text": {"<<<<<<< in the folder\nMINE\n=======\nTHEIRS\n>>>>>>> proposed\n"}}, 400, "conflict mark")
		r.do(page+"/files/f1", url.Values{"revision": {r.revision(page)}, "choice": {choice}, "text": {"one\nboth\nthree\n"}},
			303)
		files := []string{"f1", "f2"}
		if choice == "mine" || choice == "skip" {
			files = []string{"f2"}
		}
		r.apply(page, 303, url.Values{"file": files})
		if a, b := r.file("a.txt"), r.file("b.txt"); a != want || b != "b\n" {
			t.Errorf("%s: a is %q, b is %q", choice, a, b)
		}
	}
}

// TestReviewRebase merges with a change that an editor saved elsewhere in the file, after a review.
func TestReviewRebase(t *testing.T) {
	r := newReviewer(t)
	r.link()
	r.put("a.txt", tenLines)
	page := r.paste("```txt:a.txt\n" + strings.Replace(tenLines, "2\n", "two\n", 1) + "```\n")
	r.put("a.txt", strings.Replace(tenLines, "\n19\n", "\nnineteen\n", 1))
	before := r.revision(page)
	r.do(page+"/rebase", url.Values{"revision": {before}}, 303)
	r.see(page, 200, "both changes are in this version")
	r.apply(page, 409, url.Values{"revision": {before}, "file": {"f1"}})
	r.apply(page, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.txt"); got != twoPlaces() {
		t.Errorf("%q", got)
	}
}

func TestReviewDecline(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste(wholeReply)
	revision := r.revision(page)
	r.do(page+"/decline", nil, 303)
	r.see(page, 200, "declined", "Nothing was changed")
	r.apply(page, 409, url.Values{"revision": {revision}, "file": {"f1"}})
	r.do(page+"/decline", nil, 409)
	r.see("/outbox", 200, "Nothing waits.")
	if got := r.file("a.go"); got != "missing" {
		t.Errorf("a.go is %q", got)
	}
}

// TestReviewWithoutFolder shows the files of a reply for copying, or as an archive in which
// no name leads outside.
func TestReviewWithoutFolder(t *testing.T) {
	r := newReviewer(t)
	text := wholeReply + "```sh:../../evil.sh\nrm -rf /\n```\n"
	page := r.do("/review", url.Values{"text": {text}}, 200, "A reply without a folder", "a.go", "package a", "Refused",
		"PROGRESS UPDATE", "All files as zip")
	if !strings.Contains(page.Body, "<textarea class=\"copied\"") {
		t.Error("there is nothing to copy from")
	}
	got := r.do("/review/files.zip", url.Values{"text": {text}}, 200)
	archive, err := zip.NewReader(bytes.NewReader([]byte(got.Body)), int64(len(got.Body)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	if strings.Join(names, " ") != "a.go sub/b.go" {
		t.Errorf("in the archive: %v", names)
	}
	if h := got.Header; h.Get("Content-Type") != "application/zip" ||
		!strings.Contains(h.Get("Content-Disposition"), "attachment") || h.Get("Content-Security-Policy") != filePolicy {
		t.Errorf("%v", h)
	}
	r.do("/review", url.Values{"text": {" \r\n"}}, 400, "no reply to look at")
	r.do("/review", url.Values{"text": {text}, "project": {"P1"}}, 404)
	r.see("/review", 200, "Nothing waits.")
}

// A reply's page shows the questions that were not sent to a project.
func TestReviewShowsUnsentQuestions(t *testing.T) {
	r := newReviewer(t)
	r.do("/projects", url.Values{"project": {"P1"}, "folder": {r.root}}, 303)
	page := r.paste("=== ESCALATION ===\nassignment_id: A7\ndecision_needed: Which login?\noptions: JWT | Session\n" +
		"recommendation: JWT\nrationale: It is simpler.\n=== END ESCALATION ===\n```txt:a.txt\na\n```\n")
	r.see(page, 200, "Which login?", "JWT; Session", "answer it in your next prompt")
}

// TestReviewPolicy checks that a policy approves only a pasted reply that it covers.
func TestReviewPolicy(t *testing.T) {
	r := newReviewer(t)
	r.link()
	paste := func(name, policy string, status int, contains ...string) pagetest.Answer {
		return r.do("/review", url.Values{"text": {"```go:" + name + "\npackage a\n```\n"}, "project": {"P1"},
			"policy": {policy}}, status, contains...)
	}
	const docs = `{"rules": [{"glob": "docs/**", "decision": "allow"}]}`
	page := r.where(paste("docs/a.go", docs, 303))
	r.see(page, 200, "applied", "new docs/a.go")
	page = r.where(paste("src/a.go", docs, 303))
	r.see(page, 200, "waits for you")
	if a, b := r.file("docs/a.go"), r.file("src/a.go"); a != "package a\n" || b != "missing" {
		t.Errorf("docs/a.go is %q, src/a.go is %q", a, b)
	}
	paste("docs/b.go", "allow all", 400, "The rules are not a policy")
	r.see("/review", 200, "Approve by rules")
}
