package native

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
)

const jsonType = "Content-Type: application/json"

func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// ofAssistant reports whether the routes of a path are the assistant's, which compares them.
func ofAssistant(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"replies", "proposals", "projects", "outbox", "conversations"}, first)
}

// TestDocumentHasRoutes compares both ways. Health is served by whoever mounts
// the dialect.
func TestDocumentHasRoutes(t *testing.T) {
	served := []string{"GET /health", "GET /ready"}
	for _, r := range routes {
		served = append(served, r.method+" "+strings.Replace(r.path, "...}", "}", 1))
	}
	var written []string
	doc := loadDocument(t)
	for path, item := range doc.Paths.Map() {
		if ofAssistant(path) {
			continue
		}
		for method := range item.Operations() {
			written = append(written, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(written)
	if diff := cmp.Diff(served, written); diff != "" {
		t.Error(diff)
	}
}

// TestDocumentIsTrue calls every operation, with success and without, and
// holds each answer against its schema.
func TestDocumentIsTrue(t *testing.T) {
	r := newRig(t, hello)
	doc := loadDocument(t)
	file, run := r.put("a.txt", "hello"), r.run("x")
	spare := r.put("b.txt", "hello")
	key, _, err := r.engine.CreateKey(t.Context(), r.caller, engine.NewKey{Owner: "carol"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := r.engine.CreateSession(t.Context(), r.caller,
		engine.SessionRequest{Files: []engine.FileRef{{ID: file.ID, ReadOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := r.engine.AddSnapshot(t.Context(), r.caller, session.ID, "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	unknown := engine.NewID().String()
	calls := []struct {
		method, path, id, query, header, body string
		status                                int
	}{
		{"POST", "/runs", "", "", jsonType, `{"language":"python","code":"x"}`, 200},
		{"POST", "/runs", "", "", jsonType + "\nIdempotency-Key: k", `{"language":"python","code":"x","wait":false}`, 202},
		{"POST", "/runs", "", "", jsonType + "\nIdempotency-Key: k", `{"language":"python","code":"y"}`, 409},
		{"POST", "/runs", "", "", accept, `{"language":"python","code":"x"}`, 200},
		{"POST", "/runs", "", "", "", `{}`, 415},
		{"POST", "/runs", "", "", jsonType, `{}`, 400},
		{"POST", "/runs", "", "", jsonType, `{"language":"` + strings.Repeat("x", 25<<20) + `"}`, 413},
		{"GET", "/runs", "", "?limit=1", "", "", 200},
		{"GET", "/runs", "", "?limit=x", "", "", 400},
		{"GET", "/runs/{id}", run.ID.String(), "", "", "", 200},
		{"GET", "/runs/{id}", unknown, "", "", "", 404},
		{"GET", "/runs/{id}/events", run.ID.String(), "", "", "", 200},
		{"GET", "/runs/{id}/events", unknown, "", "", "", 404},
		{"DELETE", "/runs/{id}", run.ID.String(), "", "", "", 204},
		{"DELETE", "/runs/{id}", unknown, "", "", "", 404},
		{"POST", "/files", "", "?name=a", "", "hello", 201},
		{"POST", "/files", "", "", "", "hello", 400},
		{"GET", "/files", "", "", "", "", 200},
		{"GET", "/files/{id}", file.ID.String(), "", "", "", 200},
		{"GET", "/files/{id}", unknown, "", "", "", 404},
		{"GET", "/files/{id}/content", file.ID.String(), "", "", "", 200},
		{"GET", "/files/{id}/content", file.ID.String(), "", "Range: bytes=0-1", "", 206},
		{"GET", "/files/{id}/content", file.ID.String(), "", "If-None-Match: \"" + file.SHA256.String() + `"`, "", 304},
		{"GET", "/files/{id}/content", unknown, "", "", "", 404},
		{"DELETE", "/files/{id}", spare.ID.String(), "", "", "", 204},
		{"DELETE", "/files/{id}", unknown, "", "", "", 404},
		{"POST", "/sessions", "", "", jsonType, `{}`, 201},
		{"POST", "/sessions", "", "", jsonType, `{"kind":"x"}`, 400},
		{"GET", "/sessions", "", "", "", "", 200},
		{"GET", "/sessions/{id}", session.ID.String(), "", "", "", 200},
		{"GET", "/sessions/{id}", unknown, "", "", "", 404},
		{"GET", "/sessions/{id}/files", session.ID.String(), "", "", "", 200},
		{"GET", "/sessions/{id}/files", unknown, "", "", "", 404},
		{"GET", "/sessions/{id}/archive", session.ID.String(), "", "", "", 200},
		{"GET", "/sessions/{id}/archive", unknown, "", "", "", 404},
		{"GET", "/snapshots", "", "?limit=1", "", "", 200},
		{"GET", "/snapshots", "", "?session=" + session.ID.String() + "&name=v1", "", "", 200},
		{"GET", "/snapshots", "", "?session=x", "", "", 400},
		{"GET", "/snapshots/{id}", snapshot.ID.String(), "", "", "", 200},
		{"GET", "/snapshots/{id}", "v1", "", "", "", 200},
		{"GET", "/snapshots/{id}", unknown, "", "", "", 404},
		{"POST", "/sessions", "", "", jsonType, `{"snapshot":"v1","kind":"live"}`, 400},
		{"DELETE", "/snapshots/{id}", snapshot.ID.String(), "", "", "", 204},
		{"DELETE", "/snapshots/{id}", unknown, "", "", "", 404},
		{"POST", "/volumes", "", "", jsonType, `{"name":"data"}`, 201},
		{"POST", "/volumes", "", "", jsonType, `{"name":"data"}`, 409},
		{"POST", "/volumes", "", "", jsonType, `{"name":"../data"}`, 400},
		{"GET", "/volumes", "", "", "", "", 200},
		{"GET", "/volumes/{name}", "data", "", "", "", 200},
		{"GET", "/volumes/{name}", "other", "", "", "", 404},
		{"POST", "/runs", "", "", jsonType, `{"language":"python","code":"x","volumes":[{"name":"data"}]}`, 200},
		{"POST", "/runs", "", "", jsonType, `{"language":"python","code":"x","volumes":[{"name":"other"}]}`, 400},
		{"DELETE", "/volumes/{name}", "data", "", "", "", 204},
		{"DELETE", "/volumes/{name}", "data", "", "", "", 404},
		{"DELETE", "/sessions/{id}", session.ID.String(), "", "", "", 204},
		{"DELETE", "/sessions/{id}", unknown, "", "", "", 404},
		{"POST", "/keys", "", "", jsonType, `{"owner":"dora","admin":true,"python_packages":"onyx"}`, 201},
		{"POST", "/keys", "", "", jsonType, `{"owner":"dora","wall":"gvisor"}`, 201},
		{"POST", "/keys", "", "", jsonType, `{}`, 400},
		{"GET", "/keys", "", "", "", "", 200},
		{"DELETE", "/keys/{id}", key.ID, "", "", "", 204},
		{"GET", "/keys", "", "", "", "", 200},
		{"DELETE", "/keys/{id}", "abcdefghjkmn", "", "", "", 404},
		{"GET", "/status", "", "", "", "", 200},
		{"GET", "/network", "", "", "", "", 200},
		{"GET", "/audit", "", "", "", "", 200},
		{"GET", "/audit", "", "?since=2026-11-01T00:00:00Z&before=2030-01-01T00:00:00Z&limit=2", "", "", 200},
		{"GET", "/audit", "", "?since=yesterday", "", "", 400},
		{"GET", "/audit", "", "?limit=1001", "", "", 400},
		{"GET", "/usage", "", "", "", "", 200},
		{"GET", "/usage", "", "?month=2026-11&owner=alice&users=true", "", "", 200},
		{"GET", "/usage", "", "?month=november", "", "", 400},
		{"POST", "/keys", "", "", jsonType, `{"owner":"dora","month":"runs=5,cpu=1h"}`, 201},
		{"POST", "/keys", "", "", jsonType, `{"owner":"dora","month":"much"}`, 400},
		{"GET", "/languages", "", "", "", "", 200},
		{"GET", "/images", "", "", "", "", 200},
		{"POST", "/runs", "", "", jsonType, `{"language":"python","code":"1","image":"py313"}`, 200},
		{"POST", "/keys", "", "", jsonType, `{"owner":"dora","images":["py313","host"]}`, 201},
		{"GET", "/limits", "", "", "", "", 200},
		{"GET", "/openapi.yaml", "", "", "", "", 200},
	}
	r.nodes = func() []engine.Node {
		return []engine.Node{{Name: "w", Role: engine.RoleWorker, Slots: 2, Load: engine.Load{Running: 1}, Silent: time.Hour}}
	}
	r.handler = r.over(r.engine)
	check(t, r.send("GET", "/status", "", ""), 200, `"nodes":[{"name":"w","role":"worker","state":"silent"`)
	called := map[string]bool{}
	for _, c := range calls {
		name := c.method + " " + c.path
		called[name] = true
		t.Run(fmt.Sprint(name, " ", c.status), func(t *testing.T) {
			w := r.send(c.method, strings.NewReplacer("{id}", c.id, "{name}", c.id).Replace(c.path)+c.query, c.header, c.body)
			check(t, w, c.status)
			checkAnswer(t, doc, doc.Paths.Find(c.path).GetOperation(c.method), w)
		})
	}
	r.caller = engine.Caller{Owner: "bob"}
	checkAnswer(t, doc, doc.Paths.Find("/keys").Get, r.send("GET", "/keys", "", ""))
	checkAnswer(t, doc, doc.Paths.Find("/status").Get, r.send("GET", "/status", "", ""))
	for _, route := range routes {
		if name := route.method + " " + route.path; !called[name] && !aboutLive(route.path) {
			t.Errorf("%s is not called", name)
		}
	}
}

// checkAnswer holds status, headers and body of an answer against what the
// document says of it.
func checkAnswer(t *testing.T, doc *openapi3.T, op *openapi3.Operation, w *httptest.ResponseRecorder) {
	t.Helper()
	ref := op.Responses.Value(strconv.Itoa(w.Code))
	if ref == nil && w.Code >= 400 {
		ref = op.Responses.Default()
	}
	if ref == nil {
		t.Fatalf("status %d is not in the document", w.Code)
	}
	for name, header := range ref.Value.Headers {
		value := w.Header().Get(name)
		if value == "" && header.Value.Required {
			t.Errorf("header %s is missing", name)
		}
		if pattern := header.Value.Schema.Value.Pattern; value != "" && pattern != "" {
			validate(t, doc, header.Value.Schema.Value, value)
		}
	}
	contentType, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	media := ref.Value.Content.Get(contentType)
	switch {
	case w.Code == 204 || w.Code == 304:
		if w.Body.Len() > 0 || len(ref.Value.Content) > 0 {
			t.Errorf("%d has the body %q", w.Code, w.Body)
		}
	case media == nil:
		t.Errorf("%d is %s, which is not in the document", w.Code, contentType)
	case contentType == "application/json":
		var body any
		decode(t, w.Body, &body)
		validate(t, doc, media.Schema.Value, body)
	case contentType == "text/event-stream":
		for _, e := range parseEvents(t, w.Body) {
			schema, ok := map[string]string{
				"output": "Output", "result": "Run", "done": "Cell", "stdout": "CellOutput", "stderr": "CellOutput",
				"display": "CellOutput", "error": "CellOutput",
				"input": "InputRequest", "terminal": "ProcessOutput", "dropped": "ProcessGap", "exit": "Process",
				"comm": "CommMessage", "moved": "FileEvent", "overflow": "FileEvent",
			}[e.event]
			if cells := strings.Contains(op.OperationID, "Cell") || op.OperationID == "cellEvents" ||
				op.OperationID == "sendComm" || op.OperationID == "installPackages"; cells &&
				e.event == "result" {
				schema = "CellOutput"
			} else if e.event == "started" {
				schema, ok = "Run", true
				if cells {
					schema = "Cell"
				}
			}
			if !ok {
				t.Errorf("the event %s has no schema", e.event)
				continue
			}
			validate(t, doc, doc.Components.Schemas[schema].Value, e.data)
		}
	default:
		_, _ = io.Copy(io.Discard, w.Body)
	}
}

func validate(t *testing.T, doc *openapi3.T, schema *openapi3.Schema, value any) {
	t.Helper()
	if err := doc.ValidateSchemaJSON(schema, value, openapi3.EnableJSONSchema2020()); err != nil {
		text, _ := json.Marshal(value)
		t.Errorf("%s: %v", text, err)
	}
}

// TestDocumentRefuses makes sure that the checks above can fail.
func TestDocumentRefuses(t *testing.T) {
	doc := loadDocument(t)
	schema := doc.Components.Schemas["Session"].Value
	good := map[string]any{"id": engine.NewID().String(), "kind": "held", "created_at": "2026-11-21T02:16:00.000Z",
		"expires_at": "2026-11-21T02:16:00.000Z"}
	validate(t, doc, schema, good)
	for field, bad := range map[string]any{"id": "x", "kind": "odd", "created_at": "2026-11-21", "more": 1,
		"expires_at": nil} {
		value := maps.Clone(good)
		value[field] = bad
		if doc.ValidateSchemaJSON(schema, value, openapi3.EnableJSONSchema2020()) == nil {
			t.Errorf("%s: %v is accepted", field, bad)
		}
	}
}

// TestRequestSchema holds the reader of requests against the document: a field
// that one knows, the other does too.
func TestRequestSchema(t *testing.T) {
	doc := loadDocument(t)
	for name, read := range map[string]func(*rest.Object) error{
		"RunRequest":  func(o *rest.Object) error { _, _, err := readRun(o); return err },
		"Limits":      func(o *rest.Object) error { readLimits(o); return *o.Failed },
		"CellRequest": func(o *rest.Object) error { _, _, err := readCell(o); return err },
	} {
		for field := range doc.Components.Schemas[name].Value.Properties {
			o := &rest.Object{Members: map[string]any{"language": "x", "code": "x", field: nil}, Failed: new(error)}
			switch name {
			case "Limits":
				o.Members = map[string]any{field: nil}
			case "CellRequest":
				o.Members = map[string]any{"code": "x", field: nil}
			}
			if err := read(o); err != nil && strings.Contains(err.Error(), "not a field") {
				t.Errorf("%s has %s: %v", name, field, err)
			}
			if _, left := o.Members[field]; left {
				t.Errorf("%s.%s is not read", name, field)
			}
		}
	}
}
