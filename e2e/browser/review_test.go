package browser

import (
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const serverBefore = `package main

import (
	"fmt"
	"log"
	"net/http"
)

func main() {
	http.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe(":8080", nil))
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "hello")
}

// Figures for the page of numbers.
func one() int   { return 1 }
func two() int   { return 2 }
func three() int { return 3 }
func four() int  { return 4 }

func last() string {
	return "the last"
}
`

var serverAfter = strings.NewReplacer(
	"\t\"net/http\"\n", "\t\"net/http\"\n\t\"os\"\n",
	"ListenAndServe(\":8080\", nil))\n}\n", "ListenAndServe(address(), nil))\n}\n\n// address is where to listen.\n"+
		"func address() string {\n\tif port := os.Getenv(\"PORT\"); port != \"\" {\n\t\treturn \":\" + port\n\t}\n"+
		"\treturn \":8080\"\n}\n",
	"\"hello\")", "\"hello, world\")",
	"the last", "the very last",
).Replace(serverBefore)

const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

var reviewReply = "The server now listens on PORT.\n\n```go:src/server.go\n" + serverAfter + "```\n\n" +
	"```md:docs/guide.md\n# Guide\n\nSet `PORT` to choose the port.\n```\n\n" +
	"```yaml:.github/workflows/ci.yml\non: push\n```\n\n" +
	"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 70\ncompleted: The server listens on PORT.\nnext:\n" +
	"- write a test for address()\n- document it\n=== END PROGRESS UPDATE ===\n\n" +
	"=== SUBMISSION ===\nassignment_id: A2\nsummary: The guide tells about PORT.\n" +
	"evidence: docs/guide.md, src/server.go\n=== END SUBMISSION ===\n\n" +
	"=== ESCALATION ===\nassignment_id: A3\ndecision_needed: How shall people sign in?\n" +
	"options: Magic links | Passwords with a second factor | Single sign-on\nrecommendation: Magic links\n" +
	"rationale: They need no password to keep, and mail is there already.\n=== END ESCALATION ===\n"

// site is a project's folder that a service may write to.
type site struct {
	*service
	folder  string // that the service was given
	project string
	root    string
}

func serveSite(t *testing.T) *site {
	t.Helper()
	folder, err := os.MkdirTemp("", "airlock-site-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &site{service: serve(t, "--workspace", folder, "--demo-project"), folder: folder}
	return s.of(t, "shop")
}

// of is another project of the service, for a test of its own.
func (s *site) of(t *testing.T, project string) *site {
	t.Helper()
	at := *s.service
	at.t = t
	one := &site{service: &at, folder: s.folder, project: project, root: filepath.Join(s.folder, project)}
	if err := os.MkdirAll(filepath.Join(one.root, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	one.put("src/server.go", serverBefore)
	return one
}

// onSites goes through a flow in each look, with a project each.
func onSites(t *testing.T, flow func(s *site, b *tab)) {
	t.Helper()
	s := serveSite(t)
	inEachSize(t, func(t *testing.T, how look) { flow(s.of(t, "shop-"+how.name), open(t, how)) })
}

// put writes a file as the service's user has it.
func (s *site) put(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	owner, err := user.Lookup("airlock")
	if err != nil {
		s.t.Fatal(err)
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	err = filepath.WalkDir(s.folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) file(name string) string {
	text, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return "missing"
	}
	return string(text)
}

// link links the project by the page's own form.
func (s *site) link(b *tab) {
	b.t.Helper()
	b.goTo(s.url + "/projects")
	b.fill("#project", s.project)
	b.fill("#folder", s.root)
	b.fill("#api", strings.TrimSuffix(s.url, "/ui")+"/demo")
	b.click(".link-form .primary")
	b.wait(`document.querySelector(` + quote(`.projects a[href$="/`+s.project+`"]`) + `)`)
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.run(`const f = document.querySelector(` + quote(selector) + `); f.value = ` + quote(text) +
		`; f.dispatchEvent(new Event('input', {bubbles: true}))`)
}

// paste hands a reply in and waits for its page.
func (s *site) paste(b *tab, text string) {
	b.t.Helper()
	b.goTo(s.url + "/review")
	b.fill("#text", text)
	b.fill("#project", s.project)
	b.click(".paste .primary")
	b.wait(`document.querySelector('#decide') && document.querySelector('.keys:not([hidden])')`) // the script is there too
}

func (b *tab) key(keys string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(string(key)))
	}
}

// TestReviewLooks takes a reply through in every look: pasted, reviewed, edited
// in place, applied, answered, undone, redone, and reverted in part.
func TestReviewLooks(t *testing.T) { onSites(t, reviewAll) }

func reviewAll(s *site, b *tab) {
	timeline := s.url + "/projects/" + s.project
	s.link(b)
	b.show("projects")
	s.paste(b, reviewReply)
	b.show("reply")
	if b.look.width > 700 {
		b.click("label[for=view-split]")
		b.show("reply-split")
		b.click("label[for=view-unified]")
	}
	b.click("a.edit[aria-label='Edit docs/guide.md']")
	b.wait(`document.querySelector('#text')`)
	b.show("edit")
	b.fill("#text", "# The guide\n\nSet `PORT`.\n")
	b.click(".edit-form .primary")
	b.wait(`document.querySelector('#decide')`)
	b.click("#apply")
	b.wait(`document.querySelector('#receipt')`)
	b.wait(`document.querySelector('#reports .badge.ok')`) // the progress has left
	b.show("receipt")
	if got := s.file("docs/guide.md"); got != "# The guide\n\nSet `PORT`.\n" {
		b.t.Errorf("guide.md is %q", got)
	}
	if got := s.file(".github/workflows/ci.yml"); got != "missing" {
		b.t.Errorf("a workflow was written that nobody has marked: %q", got)
	}
	b.click(".answer label:nth-of-type(2)")
	b.click(".answer .primary")
	b.wait(`document.querySelector('.answered')?.innerText.includes('Passwords')`)
	b.goTo(s.url + "/outbox")
	b.show("outbox")
	b.goTo(timeline)
	b.show("timeline")
	b.click(".event form button")
	s.applied(b, "undo")
	if got := s.file("src/server.go"); got != serverBefore {
		b.t.Errorf("after the undo: %q", got)
	}
	b.goTo(timeline)
	b.click(".bar-line form button")
	s.applied(b, "redo")
	if got := s.file("src/server.go"); got != serverAfter {
		b.t.Errorf("after the redo: %q", got)
	}
	// One place of the redo is reverted, from its own page.
	b.goTo(timeline)
	b.show("timeline-after")
	b.click(".event h3 a")
	b.wait(`document.querySelector('#decide') && document.querySelector('.keys:not([hidden])')`)
	b.run(`document.querySelectorAll('.whole').forEach((w) => w.click()); [...document.querySelectorAll('.part')].at(-1).click()`)
	b.show("transaction")
	b.click("#decide button")
	s.applied(b, "undo-of-a-place")
	if got := s.file("src/server.go"); got != strings.Replace(serverAfter, "the very last", "the last", 1) {
		b.t.Errorf("after one place was reverted: %q", got)
	}
	b.goTo(s.url + "/review")
	b.show("review")
	s.unlink(b)
}

// applied looks at a proposal and applies it.
func (s *site) applied(b *tab, name string) {
	b.t.Helper()
	b.wait(`document.querySelector('#decide') && document.querySelector('#apply')`)
	b.show(name)
	b.click("#apply")
	b.wait(`document.querySelector('#receipt')`)
}

// unlink finds the folder read-only, and removes the link.
func (s *site) unlink(b *tab) {
	b.t.Helper()
	if err := os.Chmod(s.root, 0o555); err != nil {
		b.t.Fatal(err)
	}
	b.goTo(s.url + "/projects")
	card := `[...document.querySelectorAll('.projects .card')].find((c) => c.querySelector('h2').innerText === ` +
		quote(s.project) + `)`
	if got := eval[string](b, card+".innerText"); os.Geteuid() == 0 &&
		(!strings.Contains(got, "readable, not writable") || !strings.Contains(got, "write access")) {
		b.t.Errorf("a folder that cannot be written to: %q", got)
	}
	b.show("projects-readable")
	b.run(`window.confirm = () => true; ` + card + `.querySelector('.danger').click()`)
	b.wait(`document.readyState === 'complete' && ![...document.querySelectorAll('.projects h2')].some((h) => h.innerText === ` + quote(s.project) + `)`)
}

// TestReviewKeys goes through a reply with the keyboard alone, and rejects one
// place of a file.
func TestReviewKeys(t *testing.T) { onSites(t, reviewByKeys) }

func reviewByKeys(s *site, b *tab) {
	t := b.t
	s.link(b)
	s.paste(b, reviewReply)
	at := func() string { return eval[string](b, `document.activeElement.getAttribute('aria-label') ?? ''`) }
	b.key("j")
	if got := at(); got != "src/server.go, changed" {
		t.Errorf("after j: %q", got)
	}
	b.key("jj")
	if got := at(); !strings.Contains(got, "Place @@") {
		t.Errorf("after jjj: %q", got)
	}
	b.key("x")
	if !eval[bool](b,
		`document.querySelector('.whole[value=f1]').indeterminate && document.querySelectorAll('.part:checked').length === document.querySelectorAll('.part').length - 1`) {
		t.Error("x takes one place out, and the file's mark says so")
	}
	b.key("k")
	b.wait(`document.querySelector('#marked').innerText.includes('2 of 3 files and 3 of 3 reports')`)
	// Marks follow each other both ways.
	b.run(`document.querySelector('.whole[value=f1]').click(); document.querySelector('.whole[value=f1]').click()`)
	b.key("jx")
	b.run(`document.querySelectorAll('input[name=post]').forEach((p) => p.click())`)
	b.click("#apply")
	b.wait(`document.querySelector('#receipt')`)
	want := strings.Replace(serverAfter, "the very last", "the last", 1)
	if got := s.file("src/server.go"); got != want {
		t.Errorf("%q", got)
	}
	if got := b.text("#reports"); strings.Contains(got, "sent") {
		t.Errorf("a report left that nobody has marked: %s", got)
	}
	// A key that is typed into a field is text.
	b.goTo(s.url + "/review")
	b.run(`document.querySelector('#text').focus()`)
	b.key("jkx")
	if got := eval[string](b, `document.querySelector('#text').value`); got != "jkx" {
		t.Errorf("typed: %q", got)
	}
}

// TestReviewConflicts brings two versions of a file together in the page, after
// somebody saved it while the proposal was looked at.
func TestReviewConflicts(t *testing.T) { onSites(t, reviewConflict) }

func reviewConflict(s *site, b *tab) {
	t := b.t
	s.link(b)
	s.paste(b, reviewReply)
	mine := strings.Replace(serverBefore, "the last", "the first", 1)
	s.put("src/server.go", mine)
	b.click("#apply")
	b.wait(`document.querySelector('.in-conflict')`)
	if got := s.file("docs/guide.md"); got != "missing" {
		t.Errorf("half of the reply was applied: %q", got)
	}
	b.show("conflict")
	b.click(".in-conflict .primary")
	b.wait(`document.querySelector('.sides')`)
	b.show("three-versions")
	b.run(`const f = document.querySelector('#text'); f.value = f.value.replace(/<<<<<<< in the folder\n(.*\n)=======\n(.*\n)>>>>>>> proposed\n/, '\treturn "the very first"\n')`)
	b.click(".edit-form .primary")
	b.wait(`document.querySelector('#decide') && !document.querySelector('.in-conflict')`)
	b.run(`document.querySelectorAll('.whole').forEach((w) => { if (w.value === 'f1' && !w.checked) w.click() })`)
	b.click("#apply")
	b.wait(`document.querySelector('#receipt h2')?.innerText === 'What was done'`)
	if got := s.file("src/server.go"); got != strings.Replace(serverAfter, "the very last", "the very first", 1) {
		t.Errorf("%q", got)
	}
}

// TestReviewTwoTabs: who approves in one tab what was edited in another is
// shown it anew.
func TestReviewTwoTabs(t *testing.T) {
	s := serveSite(t)
	b := open(t, light)
	s.link(b)
	s.paste(b, reviewReply)
	page := eval[string](b, "location.href")
	other := open(t, light)
	other.goTo(page)
	other.click("a.edit[aria-label='Edit docs/guide.md']")
	other.wait(`document.querySelector('#text')`)
	other.fill("#text", "# Another guide\n")
	other.click(".edit-form .primary")
	other.wait(`document.querySelector('#decide')`)
	b.click("#apply")
	b.wait(`document.querySelector('[role=alert]')?.innerText.includes('has changed since')`)
	if got := s.file("docs/guide.md"); got != "missing" {
		t.Errorf("guide.md is %q", got)
	}
	b.click("#apply")
	b.wait(`document.querySelector('#receipt .done')`)
	if got := s.file("docs/guide.md"); got != "# Another guide\n" {
		t.Errorf("guide.md is %q", got)
	}
}

// TestReviewUnlinked copies a file of a reply that has no folder.
func TestReviewUnlinked(t *testing.T) {
	s := serveSite(t)
	inEachSize(t, func(t *testing.T, how look) {
		b := open(t, how)
		b.goTo(s.url + "/review")
		b.fill("#text", reviewReply+"\n```png:dot.png encoding=base64\n"+dot+"\n```\n")
		b.click(".paste .primary")
		b.wait(`document.querySelector('.copy:not([hidden])')`)
		b.show("without-a-folder")
		b.run(`Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text }}})`)
		b.click(".copy")
		b.wait(`window.copied`)
		if got := eval[string](b, "window.copied"); got != serverAfter {
			t.Errorf("copied: %q", got)
		}
	})
}

// TestReviewHostilePage: what a model has written does nothing in the page.
func TestReviewHostilePage(t *testing.T) {
	const script = `<script>window.HOSTILE=1</script><img src=x onerror="window.HOSTILE=1">`
	s := serveSite(t)
	b := open(t, light)
	s.link(b)
	s.paste(b, "```html:src/$x'&.html\n"+script+"\u202etxt.exe\u200b\x1b[31m\n</textarea>"+script+
		"\n```\n```svg:../x&'.svg\nx\n```\n"+
		"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 10\ncompleted: "+script+"\n=== END PROGRESS UPDATE ===\n"+
		"=== ESCALATION ===\nassignment_id: A1\ndecision_needed: "+script+"\noptions: "+script+
		" | b\n=== END ESCALATION ===\n")
	b.show("review-hostile")
	if got := b.text(".change"); !strings.Contains(got, "U+202E") || !strings.Contains(got, "U+200B") ||
		!strings.Contains(got, "ESC") {
		t.Errorf("characters that do not show are not spelled out: %q", got)
	}
	page := eval[string](b, "location.href")
	b.goTo(page + "/files/f1")
	b.wait(`document.querySelector('#text').value.includes('</textarea>')`)
	b.goTo(page)
	b.run(`document.querySelectorAll('.whole:not(:checked)').forEach((w) => w.click())`)
	b.click("#apply")
	b.wait(`document.querySelector('#receipt')`)
	for _, path := range []string{page, s.url + "/projects/shop", s.url + "/outbox", s.url + "/review"} {
		b.goTo(path)
		if eval[bool](b, "'HOSTILE' in window || document.querySelector('main script, main img') !== null") {
			t.Errorf("%s runs what a model has written", path)
		}
	}
}

// TestReviewFromElsewhere: another site's page changes nothing here.
func TestReviewFromElsewhere(t *testing.T) {
	s := serveSite(t)
	b := open(t, light)
	s.link(b)
	token := eval[string](b, `document.querySelector('meta[name=airlock-token]').content`)
	for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/projects/shop/unlink",
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(header, value)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 403 {
			t.Errorf("%s: %d", header, answer.StatusCode)
		}
	}
	b.goTo(s.url + "/projects")
	if got := b.text(".projects"); !strings.Contains(got, "shop") {
		t.Error("the project was unlinked")
	}
}
