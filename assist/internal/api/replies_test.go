package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// workRig is the dialect with a folder and a project's API, without a network.
type workRig struct {
	t       *testing.T
	api     *native.API
	caller  engine.Caller
	work    *Work
	doc     *openapi3.T
	folder  string
	project *demo.Project
	sender  *assignment.Sender
	called  map[string]bool
}

const projectAPI = "https://projects.example.com"

func newWorkRig(t *testing.T) *workRig {
	t.Helper()
	r := &workRig{t: t, caller: engine.Caller{Owner: "alice", Admin: true}, folder: t.TempDir(), project: &demo.Project{},
		called: map[string]bool{}}
	data := t.TempDir()
	db, err := state.Open(t.Context(), data, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	outbox := assignment.NewOutbox(db.Outbox())
	r.sender = assignment.NewSender(db.Outbox(), assignment.SenderOptions{HTTP: &http.Client{Transport: r.project}})
	r.work = &Work{
		OneMachine: func() string { return "" },
		Scoped: &changes.Scoped{
			Replies: changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(), Outbox: outbox,
				Protected: []string{data}}),
			Wake:    func() {},
			Folders: []string{r.folder},
		},
		Outbox: outbox,
	}
	e := enginetest.Start(t, engine.Config{}, sandboxtest.NewFake(nil))
	r.api = native.New(e, native.Options{Caller: func(*http.Request) engine.Caller { return r.caller },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Routes: r.work.Routes()})
	r.doc, err = openapi3.NewLoader().LoadFromData(r.send("GET", "/openapi.yaml", "", "").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send makes a request, as a caller of the moment; header is a "Name: value" line.
func (r *workRig) send(method, url, header, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if name, value, ok := strings.Cut(header, ": "); ok {
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "test-request")
	r.api.ServeHTTP(w, req)
	return w
}

func (r *workRig) json(method, url, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.send(method, url, "Content-Type: application/json", body)
}

func check(t *testing.T, w *httptest.ResponseRecorder, status int, contains ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, s := range contains {
		if !strings.Contains(w.Body.String(), s) {
			t.Errorf("%q is not in %s", s, w.Body)
		}
	}
}

// checkAnswer holds status and body of an answer against what the document says of it.
func checkAnswer(t *testing.T, doc *openapi3.T, op *openapi3.Operation, w *httptest.ResponseRecorder) {
	t.Helper()
	ref := op.Responses.Value(strconv.Itoa(w.Code))
	if ref == nil && w.Code >= 400 {
		ref = op.Responses.Default()
	}
	if ref == nil {
		t.Fatalf("status %d is not in the document", w.Code)
	}
	contentType, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	media := ref.Value.Content.Get(contentType)
	switch {
	case w.Code == http.StatusNoContent:
		if w.Body.Len() > 0 {
			t.Errorf("%d has the body %q", w.Code, w.Body)
		}
	case media == nil:
		t.Errorf("%d is %s, which is not in the document", w.Code, contentType)
	case contentType == "application/json":
		var body any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if err := doc.ValidateSchemaJSON(media.Schema.Value, body, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: %v", w.Body, err)
		}
	}
}

// The document has the routes, and no others of their first names.
func TestRoutesOfDocument(t *testing.T) {
	r := newWorkRig(t)
	first := func(path string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return name
	}
	var served, written []string
	names := map[string]bool{}
	for _, route := range r.work.Routes() {
		served, names[first(route.Path)] = append(served, route.Method+" "+route.Path), true
	}
	for path, item := range r.doc.Paths.Map() {
		for method := range item.Operations() {
			if names[first(path)] {
				written = append(written, method+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(written)
	if diff := cmp.Diff(served, written); diff != "" {
		t.Error(diff)
	}
}

// do makes a request and holds the answer against the document.
func (r *workRig) do(method, pattern, path, body string, status int, contains ...string) map[string]any {
	r.t.Helper()
	header := ""
	if method != "GET" && method != "DELETE" {
		header = "Content-Type: application/json"
	}
	w := r.send(method, path, header, body)
	r.called[method+" "+pattern] = true
	check(r.t, w, status, contains...)
	var answer map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			r.t.Fatal(err)
		}
	}
	checkAnswer(r.t, r.doc, r.doc.Paths.Find(pattern).GetOperation(method), w)
	return answer
}

func (r *workRig) link() {
	r.t.Helper()
	r.do("PUT", "/projects/{id}", "/projects/P1", fmt.Sprintf(`{"folder":%q,"api":%q}`, r.folder, projectAPI), 200)
}

// reply hands a reply in and returns its id and token.
func (r *workRig) reply(text, phase string) (id, token string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"text":%q,"project":"P1","conversation":{"objective":"o","capsule":{"phase":%q}}}`, text, phase)
	p := r.do("POST", "/replies", "/replies", body, 201)
	return p["id"].(string), p["token"].(string)
}

// TestUnlinkedProposal: a link is consent; revoked, nothing that waits can be
// approved, and linked anew it can.
func TestUnlinkedProposal(t *testing.T) {
	r := newWorkRig(t)
	r.link()
	id, token := r.reply(bothReply, "E")
	approve := fmt.Sprintf(`{"token":%q,"only":["f1"]}`, token)
	r.do("DELETE", "/projects/{id}", "/projects/P1", "", 204)
	if p := r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 200); p["token"] != "" {
		t.Errorf("it can be approved with the token %q", p["token"])
	}
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", approve, 409,
		"not linked with this folder any more")
	if got := r.content("a.go"); got != "missing" {
		t.Fatalf("a.go is %q", got)
	}
	r.link()
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", approve, 200)
	if got := r.content("a.go"); got != "package a\n" {
		t.Errorf("a.go is %q", got)
	}
}

func (r *workRig) drain() {
	r.t.Helper()
	if err := r.sender.Drain(r.t.Context(), assignment.Query{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *workRig) content(name string) string {
	text, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		return "missing"
	}
	return string(text)
}

const bothReply = "```go:a.go\npackage a\n```\n\n```go:b.go\npackage b\n```\n\n" +
	"=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 100\n=== END PROGRESS UPDATE ===\n" +
	"=== SUBMISSION ===\nassignment_id: A1\nsummary: done\nevidence: a.go, b.go\n=== END SUBMISSION ===\n"

// TestWorkIsTrue takes replies through, and holds each answer against its
// schema.
func TestWorkIsTrue(t *testing.T) {
	r := newWorkRig(t)
	r.do("GET", "/projects", "/projects", "", 200, `"projects":[]`)
	r.do("POST", "/replies", "/replies", `{"text":"x","project":"P1"}`, 404)
	r.link()
	r.do("POST", "/replies", "/replies", `{}`, 400)
	r.do("PUT", "/projects/{id}", "/projects/P1", `{"folder":"/"}`, 403)
	r.do("PUT", "/projects/{id}", "/projects/P1", `{"folder":"relative"}`, 403)
	r.do("PUT", "/projects/{id}", "/projects/P1", fmt.Sprintf(
		`{"folder":%q,"api":"http://projects.example.com"}`, r.folder), 400, "without encryption")

	id, token := r.reply(bothReply, "E")
	if got := r.content("a.go"); got != "missing" {
		t.Errorf("before the approval a.go is %q", got)
	}
	r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 200, `"op":"create"`, `"id":"p2"`)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", `{"token":"another"}`, 409)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q,"only":["f9"]}`, token),
		400)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve",
		fmt.Sprintf(`{"token":%q,"only":["f1","p1","p2"]}`, token), 200,
		`"filesCreated":["a.go"]`, `"progressUpdates":1`, `"submissions":1`, "b.go was not written")
	if a, b := r.content("a.go"), r.content("b.go"); a != "package a\n" || b != "missing" {
		t.Errorf("a.go is %q, b.go is %q", a, b)
	}
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q}`, token), 409)
	r.drain()
	posts := r.do("GET", "/outbox", "/outbox", "", 200, `"state":"held"`)["posts"].([]any)
	if len(posts) != 1 {
		t.Fatalf("%d posts wait", len(posts))
	}
	post := posts[0].(map[string]any)["id"].(string)
	r.do("GET", "/outbox", "/outbox?all=x", "", 400)
	r.do("POST", "/outbox/{id}", "/outbox/"+post, `{"action":"retry"}`, 409)
	r.do("POST", "/outbox/{id}", "/outbox/"+post, `{"action":"confirm"}`, 200, `"state":"pending"`)
	r.do("POST", "/outbox/{id}", "/outbox/unknown", `{"action":"drop"}`, 404)
	r.drain()
	r.do("GET", "/projects", "/projects", "", 200, `"work":"complete"`, `"accepted_percent":100`)
	r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 200, `"state":"sent"`)

	undo := r.do("POST", "/proposals/{id}/undo", "/proposals/"+id+"/undo", `{}`, 201, `"op":"delete"`)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+undo["id"].(string)+"/approve",
		fmt.Sprintf(`{"token":%q}`, undo["token"]), 200, `"filesDeleted":["a.go"]`)
	if got := r.content("a.go"); got != "missing" {
		t.Errorf("after the undo a.go is %q", got)
	}
	r.escalate()
	r.do("DELETE", "/projects/{id}", "/projects/P1", "", 204)
	r.do("DELETE", "/projects/{id}", "/projects/P1", "", 404)
	for _, route := range r.work.Routes() {
		if name := route.Method + " " + route.Path; !strings.HasPrefix(route.Path, "/conversations") && !r.called[name] {
			t.Errorf("%s is not called", name)
		}
	}
}

func (r *workRig) escalate() {
	r.t.Helper()
	id, token := r.reply(
		"=== ESCALATION ===\nassignment_id: A2\ndecision_needed: Which?\noptions: JWT | Sessions\n=== END ESCALATION ===\n",
		"E")
	answer := r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q}`, token), 200,
		`"escalations":1`)
	result := answer["metadata"].(map[string]any)["executionResult"].(map[string]any)
	path := "/projects/P1/escalations/" + result["questions"].([]any)[0].(map[string]any)["id"].(string)
	const pattern = "/projects/{id}/escalations/{escalation}"
	r.do("POST", pattern, path, `{}`, 400)
	r.do("POST", pattern, "/projects/P1/escalations/unknown", `{"choice":"1"}`, 404)
	r.do("POST", pattern, path, `{"choice":"2"}`, 200, `"choice":"Sessions"`)
	r.do("POST", pattern, path, `{"choice":"1"}`, 409, "by alice")
	r.do("POST", "/projects/{id}/prompt", "/projects/P1/prompt", `{}`, 200, "choice: Sessions")
	r.do("POST", "/projects/{id}/prompt", "/projects/P1/prompt", `{}`, 200, `"decisions":""`)
	declined, _ := r.reply("```go:c.go\npackage c\n```\n", "")
	r.do("DELETE", "/proposals/{id}", "/proposals/"+declined, "", 204)
	r.do("DELETE", "/proposals/{id}", "/proposals/"+declined, "", 409)
}

func TestGates(t *testing.T) {
	r := newWorkRig(t)
	r.link()
	for phase, open := range map[string]bool{"E": true, "e": true, "EXECUTE": true, "": true, "B": false, "P": false,
		"REVIEW": false} {
		id, token := r.reply("```go:a.go\npackage a\n```\n", phase)
		if (token != "") != open {
			t.Errorf("phase %q: token %q", phase, token)
		}
		if !open {
			r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", `{"token":""}`, 409, "EXECUTE")
		}
	}
	if got := r.content("a.go"); got != "missing" {
		t.Errorf("a.go is %q", got)
	}
}

// Data of another owner, or outside of the service's folders, does not exist.
func TestWorkOfOthers(t *testing.T) {
	r := newWorkRig(t)
	r.link()
	id, token := r.reply(bothReply, "E")
	alice := r.caller
	r.caller = engine.Caller{Owner: "bob"}
	r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 404)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q}`, token), 404)
	r.do("POST", "/replies", "/replies", `{"text":"x","project":"P1"}`, 404)
	r.do("GET", "/projects", "/projects", "", 200, `"projects":[]`)
	r.do("GET", "/outbox", "/outbox", "", 200, `"posts":[]`)
	r.caller = alice
	r.work.Folders = nil
	r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 404)
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q}`, token), 404)
	r.do("POST", "/replies", "/replies", `{"text":"x","project":"P1"}`, 404)
	r.do("GET", "/projects", "/projects", "", 200, `"projects":[]`)
	// A link that leads out of an allowed folder is not inside of it.
	r.work.Folders = []string{r.folder}
	if err := os.Symlink(t.TempDir(), filepath.Join(r.folder, "out")); err != nil {
		t.Fatal(err)
	}
	r.do("PUT", "/projects/{id}", "/projects/P2", fmt.Sprintf(`{"folder":%q}`, filepath.Join(r.folder, "out")), 403)
}

// A concurrent save of an editor between review and approval is not lost.
func TestConflictOverHTTP(t *testing.T) {
	r := newWorkRig(t)
	r.link()
	name := filepath.Join(r.folder, "a.go")
	if err := os.WriteFile(name, []byte("one\ntwo\nthree\nfour\nfive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, token := r.reply("```go:a.go\nONE\ntwo\nthree\nfour\nfive\n```\n", "E")
	if err := os.WriteFile(name, []byte("one\ntwo\nthree\nfour\nFIVE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve", fmt.Sprintf(`{"token":%q}`, token), 409)
	if got := r.content("a.go"); !strings.Contains(got, "FIVE") {
		t.Errorf("the edit is gone: %q", got)
	}
	again := r.do("GET", "/proposals/{id}", "/proposals/"+id, "", 200, `"conflicts":[{"path":"a.go"`)
	if again["token"] == token {
		t.Error("the merged proposal has the token of the old one")
	}
	r.do("POST", "/proposals/{id}/approve", "/proposals/"+id+"/approve",
		fmt.Sprintf(`{"token":%q,"only":["f1"]}`, again["token"]), 200)
	if got := r.content("a.go"); got != "ONE\ntwo\nthree\nfour\nFIVE\n" {
		t.Errorf("merged: %q", got)
	}
}

func TestNoWork(t *testing.T) {
	r := newWorkRig(t)
	r.work.Scoped = nil
	check(t, r.send("GET", "/projects", "", ""), 503)
	check(t, r.json("POST", "/replies", `{}`), 503)
}

// TestWorkRequestSchemas holds the readers of requests against the document.
func TestWorkRequestSchemas(t *testing.T) {
	r := newWorkRig(t)
	for field := range r.doc.Components.Schemas["ReplyRequest"].Value.Properties {
		members := map[string]any{field: nil, "text": "x", "project": "x"}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		o, err := rest.ParseObject(text)
		if err != nil {
			t.Fatal(err)
		}
		_ = readPolicy(o)
		if _, err := readMessage(o); err != nil && strings.Contains(err.Error(), "not a field") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestReplyPolicy hands replies in with rules: what they cover is carried out
// at once, and all else waits with the reason.
func TestReplyPolicy(t *testing.T) {
	r := newWorkRig(t)
	r.link()
	hand := func(name, policy string, status int, contains ...string) map[string]any {
		text := fmt.Sprintf("```go:%s\npackage a\n```\n", name)
		return r.do("POST", "/replies", "/replies", fmt.Sprintf(`{"text":%q,"project":"P1","policy":%s}`, text, policy),
			status, contains...)
	}
	const docs = `{"rules":[{"glob":"docs/**","decision":"allow"}]}`
	p := hand("docs/a.go", docs, 201)
	if p["state"] != "applied" || p["token"] != "" || r.content("docs/a.go") != "package a\n" {
		t.Errorf("covered: %v, the file %q", p, r.content("docs/a.go"))
	}
	p = hand("src/a.go", docs, 201, "no policy approves it")
	if p["state"] != "proposed" || p["token"] == "" || r.content("src/a.go") != "missing" {
		t.Errorf("not covered: %v, the file %q", p, r.content("src/a.go"))
	}
	if p := hand("docs/b.go", "null", 201); p["state"] != "proposed" || r.content("docs/b.go") != "missing" {
		t.Errorf("without a policy: %v", p)
	}
	p = r.do("POST", "/replies", "/replies",
		fmt.Sprintf(`{"text":%q,"project":"P1","policy":%s,"conversation":{"objective":"o","capsule":{"phase":"P"}}}`,
			"```go:docs/c.go\npackage c\n```\n", docs), 201)
	if p["state"] != "shown" || r.content("docs/c.go") != "missing" {
		t.Errorf("a phase that only shows: %v", p)
	}
	hand("x.go", `{"rules":[{"decision":"maybe"}]}`, 400, "policy is not a policy: rule 1 has the decision")
	hand("x.go", `{"rule":[]}`, 400, "unknown field")
	hand("x.go", `[]`, 400, "policy must be an object")
}

// Where several nodes answer, what is kept on one machine is refused, all of it, and
// the sentence says why.
func TestOneMachine(t *testing.T) {
	r := newWorkRig(t)
	r.work.Conversations = archived{}
	why := "kept on one machine"
	r.work.OneMachine = func() string { return why }
	for _, route := range r.work.Routes() {
		path := strings.NewReplacer("{id}", "x", "{escalation}", "x", "{sha256}", "x").Replace(route.Path)
		check(t, r.json(route.Method, path, `{}`), http.StatusConflict, `"code":"conflict"`, why)
	}
	why = "" // the others have left
	check(t, r.json("GET", "/projects", ""), http.StatusOK)
}
