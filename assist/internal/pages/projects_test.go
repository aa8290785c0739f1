package pages

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
)

// Projects are linked with folders that the service was given, and unlinked.
func TestProjects(t *testing.T) {
	r := newReviewer(t)
	r.see("/projects", 200, "No project has a folder yet", r.folder)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(r.folder, "out")); err != nil {
		t.Fatal(err)
	}
	for folder, status := range map[string]int{outside: 403, "/": 403, filepath.Join(r.folder, "out"): 403,
		r.folder + "/..": 403, "site": 403, filepath.Join(r.folder, "nothing"): 403, "": 400} {
		r.do("/projects", url.Values{"project": {"P2"}, "folder": {folder}}, status)
	}
	for project, status := range map[string]int{"": 400, "../x": 400, "a b": 400, strings.Repeat("x", 65): 400} {
		r.do("/projects", url.Values{"project": {project}, "folder": {r.root}}, status)
	}
	r.do("/projects", url.Values{"project": {"P1"}, "folder": {r.root}, "api": {"http://projects.example.com"}}, 400,
		"without encryption")
	r.link()
	r.see("/projects", 200, "P1", r.root, "readable and writable", "Reports go to "+projectAPI)
	page := r.paste(wholeReply)

	// What the command line has linked is in the same list.
	if _, err := r.review.Link(t.Context(), changes.Link{Owner: "local", Project: "P3", Root: outside}); err != nil {
		t.Fatal(err)
	}
	r.see("/projects", 200, "P3", "out of reach")
	r.see("/projects/P3", 404)
	r.do("/review", url.Values{"text": {"x"}, "project": {"P3"}}, 404)
	r.do("/projects/P3/unlink", nil, 303)
	r.do("/projects/P3/unlink", nil, 404)

	// A revoked link closes pending replies.
	revision := r.revision(page)
	r.do("/projects/P1/unlink", nil, 303)
	r.see(page, 200, "It can only be looked at", "not linked with this folder any more")
	r.apply(page, 409, url.Values{"revision": {revision}, "file": {"f1"}}, "only shown")
	r.do(page+"/files/f1", url.Values{"revision": {revision}, "choice": {"skip"}}, 409)
	if got := r.file("a.go"); got != "missing" {
		t.Errorf("a.go is %q", got)
	}
	r.see(page+"/files.zip", 200)
}

func TestPermission(t *testing.T) {
	dir := t.TempDir()
	if got := permissionOf(dir); got.Words != "readable and writable" {
		t.Errorf("%+v", got)
	}
	if got := permissionOf(filepath.Join(dir, "nothing")); got.Words != "not there" {
		t.Errorf("%+v", got)
	}
	if os.Geteuid() == 0 {
		t.Log("root may do everything: folders without permissions are not tried")
		return
	}
	for mode, want := range map[os.FileMode]string{0o500: "readable, not writable", 0: "not readable"} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if got := permissionOf(dir); got.Words != want {
			t.Errorf("%v: %+v", mode, got)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

var transactionLink = regexp.MustCompile(`/projects/P1/history/([a-z0-9]+)"`)

// TestTimeline undoes by transaction, file and hunk, undoes all later transactions, and
// redoes, from the timeline.
func TestTimeline(t *testing.T) {
	r := newReviewer(t)
	r.link()
	r.see("/projects/P1", 200, "Nothing was done to this folder yet")
	r.put("a.txt", tenLines)
	r.apply(r.paste("```txt:a.txt\n"+twoPlaces()+"```\n```txt:b.txt\nb\n```\n"), 303, url.Values{"file": {"f1", "f2"}})
	body := r.see("/projects/P1", 200, "Reply", "update a.txt (+2 -2)", "create b.txt", "Undo")
	txn := transactionLink.FindStringSubmatch(body)[1]
	r.see("/projects/P1/history/"+txn, 200, "nineteen", "Revert what is marked")
	r.see("/projects/P1/history/unknown", 404)

	// One hunk of one file.
	undo := r.where(r.do("/projects/P1/undo", url.Values{"txn": {txn}, "parts": {"1"}, "file": {"f1"}, "byhunk": {"f1"},
		"hunk": {"f1:h1"}}, 303))
	r.see("/projects/P1", 200, "waits for you")
	r.apply(undo, 303, url.Values{"file": {"f1"}})
	if got := r.file("a.txt"); got != strings.Replace(tenLines, "\n19\n", "\nnineteen\n", 1) {
		t.Fatalf("%q", got)
	}
	r.do("/projects/P1/undo", url.Values{"txn": {txn}, "parts": {"1"}}, 400, "Nothing is marked")
	r.do("/projects/P1/undo", url.Values{"txn": {"unknown"}}, 404)
	r.do("/projects/P1/undo", nil, 404)

	// Redo restores it. Undoing the transaction reverts all of it.
	r.see("/projects/P1", 200, "Redo")
	r.apply(r.where(r.do("/projects/P1/redo", nil, 303)), 303, url.Values{"file": {"f1"}})
	if got := r.file("a.txt"); got != twoPlaces() {
		t.Fatalf("after the redo: %q", got)
	}
	const pasted = "```txt:c.txt\nc\n```\n"
	r.paste(pasted)
	r.see("/projects/P1", 200, "waits for you")
	r.apply(r.paste(pasted), 303, url.Values{"file": {"f1"}}) // nothing of it waits any more
	if body := r.see("/projects/P1", 200); strings.Contains(body, "waits for you") {
		t.Error("the same reply, which is applied, waits")
	}
	r.put("mine.txt", "mine\n")
	back := r.where(r.do("/projects/P1/undo", url.Values{"txn": {txn}, "after": {"1"}}, 303))
	r.see(back, 200, "c.txt")
	r.apply(back, 303, url.Values{"file": {"f1"}})
	if c, mine := r.file("c.txt"), r.file("mine.txt"); c != "missing" || mine != "mine\n" {
		t.Errorf("c is %q, mine is %q", c, mine)
	}
	// All files.
	r.apply(r.where(r.do("/projects/P1/undo", url.Values{"txn": {txn}}, 303)), 303, url.Values{"file": {"f1", "f2"}})
	if a, b := r.file("a.txt"), r.file("b.txt"); a != tenLines || b != "missing" {
		t.Errorf("a is %q, b is %q", a, b)
	}
	r.see("/projects/P1", 200, "reverted")
}

var escalationPath = regexp.MustCompile(`action="/ui(/projects/P1/escalations/[a-z0-9]+)"`)

// TestEscalation checks that a question is sent when its reply is applied. The first answer counts.
func TestEscalation(t *testing.T) {
	for name, c := range map[string]struct {
		fields url.Values
		want   string
	}{
		"option": {url.Values{"choice": {"2"}, "note": {"as said"}}, "Sessions"},
		"own":    {url.Values{"choice": {"other"}, "other": {" Passkeys "}}, "Passkeys"},
		"reject": {url.Values{"choice": {"reject"}}, "rejected"},
	} {
		r := newReviewer(t)
		r.link()
		page := r.paste(wholeReply)
		r.apply(page, 303, url.Values{"file": {"f1", "f2"}, "post": {"p1", "p2", "p3"}})
		path := escalationPath.FindStringSubmatch(r.see(page, 200))[1]
		r.see("/projects", 200, "1 open question")
		r.see("/projects/P1", 200, "Which of both?", "A1", "40 %")
		r.do(path, url.Values{"choice": {"other"}, "other": {" "}}, 400, "no answer yet")
		r.do(path, nil, 400)
		r.do("/projects/P1/escalations/unknown", url.Values{"choice": {"1"}}, 404)
		c.fields.Set("back", page)
		if got := r.where(r.do(path, c.fields, 303)); got != page {
			t.Errorf("%s: sent to %q", name, got)
		}
		r.see(page, 200, c.want)
		r.do(path, url.Values{"choice": {"1"}, "back": {"https://evil.example/"}}, 409, "This came too late")
		r.see("/outbox", 200, "Decision")
	}
}

var outboxPath = regexp.MustCompile(`action="/ui(/outbox/[a-z0-9]+)"`)

// TestOutboxPage shows pending reports with their errors, retries them, and drops them.
func TestOutboxPage(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste("```go:a.go\npackage a\n```\n```go:b.go\npackage b\n```\n=== SUBMISSION ===\nassignment_id: A1\n" +
		"summary: done\nevidence: a.go, b.go\n=== END SUBMISSION ===\n")
	r.apply(page, 303, url.Values{"file": {"f1"}, "post": {"p1"}})
	body := r.see("/outbox", 200, "Submission of A1", "held back", "b.go was not written", "It is right: send it")
	path := outboxPath.FindStringSubmatch(body)[1]
	r.do(path, url.Values{"action": {"retry"}}, 409)
	r.do(path, url.Values{"action": {"other"}}, 400)
	r.do("/outbox/unknown", url.Values{"action": {"drop"}}, 404)
	r.do(path, url.Values{"action": {"confirm"}, "back": {"/outbox"}}, 303)
	r.see("/outbox", 200, "waits to be sent", "Retry now", "Send all now")
	r.do("/outbox", nil, 303)
	if err := r.sender.Drain(t.Context(), assignment.Query{}); err != nil {
		t.Fatal(err)
	}
	r.see("/outbox", 200, "Nothing waits.", "sent")
	r.see(page, 200, "sent")
	r.do(path, url.Values{"action": {"drop"}}, 409)
}

// TestReviewWantsTheToken checks that changes need the token of the visitor's pages.
func TestReviewWantsTheToken(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste(wholeReply)
	revision := r.revision(page)
	stranger := r.Another()
	for _, path := range []string{"/review", "/review/files.zip", page + "/apply", page + "/decline", page + "/rebase",
		page + "/undo", page + "/files/f1",
		"/projects", "/projects/P1/unlink", "/projects/P1/undo", "/projects/P1/redo", "/projects/P1/escalations/x", "/outbox",
		"/outbox/x"} {
		fields := url.Values{"revision": {revision}, "file": {"f1"}, "choice": {"skip"}, "text": {"x"}, "project": {"P1"},
			"folder": {r.root}}
		r.expect(path+" without a token", r.Post(path, fields), 403)
		fields.Set("token", stranger.Token())
		r.expect(path+" with somebody else's", r.Post(path, fields), 403)
		fields.Set("token", r.Token())
		for _, kind := range []string{"text/plain", "multipart/form-data; boundary=x", "application/json", ""} {
			q := r.Request("POST", path, strings.NewReader(fields.Encode()))
			q.Header.Set("Content-Type", kind)
			r.expect(path+" as "+kind, r.Send(q), 415)
		}
		if got := r.Get(path + "?" + fields.Encode()); got.Status == 303 {
			t.Errorf("GET %s does something", path)
		}
	}
	if got := r.file("a.go"); got != "missing" {
		t.Errorf("a.go is %q", got)
	}
	r.do("/review", url.Values{"text": {strings.Repeat("x", 4<<20)}, "project": {"P1"}}, 413, "more than the 4 MiB")
	r.see(page, 200, "waits for you")
	if _, err := r.review.Linked(t.Context(), "local", "P1"); err != nil {
		t.Error(err)
	}
}

// TestReviewOfOthers checks that data of another owner does not exist for any page and form.
func TestReviewOfOthers(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste(wholeReply)
	revision := r.revision(page)
	r.owner = "bob"
	for _, path := range []string{page, page + "/files.zip", page + "/files/f1", page + "/files/f1/content",
		"/projects/P1", "/projects/P1/history/x"} {
		r.see(path, 404)
	}
	fields := func() url.Values {
		return url.Values{"revision": {revision}, "file": {"f1"}, "choice": {"1"}, "action": {"drop"}, "text": {"x"},
			"txn": {"x"}, "project": {"P1"}}
	}
	for _, path := range []string{"/review", page + "/apply", page + "/decline", page + "/rebase", page + "/undo",
		page + "/files/f1",
		"/projects/P1/unlink", "/projects/P1/undo", "/projects/P1/redo", "/projects/P1/escalations/x", "/outbox/x"} {
		r.do(path, fields(), 404)
	}
	for path, without := range map[string]string{"/review": "P1", "/projects": r.root, "/outbox": "A1"} {
		if body := r.see(path, 200); strings.Contains(mainText(body), without) {
			t.Errorf("%s shows %s", path, without)
		}
	}
	r.owner = "local"
	r.see(page, 200, "waits for you")

	// A folder that was withdrawn from the service does not exist either.
	r.review.Folders = nil
	r.see(page, 404)
	r.do(page+"/apply", fields(), 404)
	r.see("/review", 200, "1 more proposal")
	r.owner = ""
	if got := r.Get(page); got.Status != 303 {
		t.Errorf("a stranger gets %d", got.Status)
	}
	if _, err := os.Stat(filepath.Join(r.root, "a.go")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file is there")
	}
}

// TestNeighbours checks that a user with a project in the same folder cannot reach another
// owner's pending replies.
func TestNeighbours(t *testing.T) {
	r := newReviewer(t)
	r.link()
	page := r.paste(wholeReply)
	r.apply(page, 303, url.Values{"file": {"f1"}, "post": {"p1", "p2", "p3"}})
	question := strings.Replace(escalationPath.FindStringSubmatch(r.see(page, 200))[1], "P1", "P2", 1)
	post := outboxPath.FindStringSubmatch(r.see("/outbox", 200))[1]
	waiting := strings.TrimPrefix(r.paste("```go:c.go\npackage c\n```\n"), "/review/")

	r.owner = "bob"
	r.do("/projects", url.Values{"project": {"P2"}, "folder": {r.root}, "api": {projectAPI}}, 303)
	r.do(question, url.Values{"choice": {"1"}}, 404)
	for _, action := range []string{"drop", "retry", "confirm"} {
		r.do(post, url.Values{"action": {action}}, 404)
	}
	if body := r.see("/projects/P2", 200, "Reply", "create a.go"); strings.Contains(body, waiting) ||
		strings.Contains(body, "waits for you") {
		t.Error("the timeline shows what waits for somebody else")
	}
	r.owner = "local"
	r.see("/projects/P1", 200, "waits for you")
	r.see(page, 200, "Something else")
}
