package native

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the dialect over a real engine, whose programs are Go functions.
type rig struct {
	t       *testing.T
	engine  *engine.Service
	blobs   *enginetest.Blobs
	handler http.Handler
	caller  engine.Caller
	nodes   func() []engine.Node
	live    *fakeLive
}

const requestID = "test-request"

func newRig(t *testing.T, program sandboxtest.Program) *rig {
	t.Helper()
	r := &rig{t: t, caller: engine.Caller{Owner: "alice", Admin: true}, blobs: enginetest.NewBlobs()}
	r.engine = enginetest.StartOn(t, engine.Config{MaxUpload: 1 << 20, Volumes: enginetest.NewFolders(),
		Images: engine.ImageRules{Store: enginetest.SomeImages()}}, sandboxtest.NewFake(program), r.blobs,
		enginetest.NewIndex())
	r.handler = r.over(r.engine)
	return r
}

// over serves an engine as httpd would: with a request id, and as the rig's
// caller of the moment.
func (r *rig) over(e *engine.Service) http.Handler {
	o := Options{
		Caller: func(*http.Request) engine.Caller { return r.caller },
		Log:    slog.New(slog.NewTextHandler(r.t.Output(), nil)),
		Nodes:  r.nodes,
	}
	if r.live != nil {
		o.Live = r.live
	}
	api := New(e, o)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Request-Id", requestID)
		api.ServeHTTP(w, req)
	})
}

// send makes a request; header is "Name: value" lines.
func (r *rig) send(method, url, header, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

func (r *rig) json(method, url, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.send(method, url, "Content-Type: application/json", body)
}

func (r *rig) put(name, content string) engine.File {
	r.t.Helper()
	f, err := r.engine.PutFile(r.t.Context(), r.caller, engine.Upload{Name: name}, strings.NewReader(content))
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func (r *rig) run(code string) *engine.Run {
	r.t.Helper()
	run, err := r.engine.Run(r.t.Context(), r.caller, engine.RunRequest{Language: "python", Code: code})
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

// hello prints, and leaves a file.
func hello(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	host.Output(engine.Stdout, []byte("hello\n"))
	f, err := sandboxtest.File("dir/out.txt", "made here")
	outcome := sandboxtest.Exit(0)
	outcome.Outputs = []engine.Output{f}
	outcome.Dropped = []engine.DroppedFile{{Path: "huge.bin", Reason: "too large"}}
	return outcome, err
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

func TestRequests(t *testing.T) {
	r := newRig(t, hello)
	file := r.put("data.csv", "a,b\n1,2\n")
	run := r.run("x")
	unknown := engine.NewID().String()
	form := "Content-Type: multipart/form-data; boundary=B"
	cases := []struct {
		name, method, url, header, body string
		status                          int
		contains                        string
	}{
		{"run", "POST", "/runs", "Content-Type: application/json", `{"language":"python","code":"x","wait":null}`, 200,
			`"stdout":"hello\n"`},
		{"run, charset", "POST", "/runs", "Content-Type: application/json; charset=UTF-8", `{"language":"py","code":"x"}`,
			200, `"reason":"too large"`},
		{"no wait", "POST", "/runs", "Content-Type: application/json", `{"language":"python","code":"x","wait":false}`, 202,
			`"status":"`},
		{"no wait, stream", "POST", "/runs", "Content-Type: application/json\nAccept: text/event-stream",
			`{"language":"python","code":"x","wait":false}`, 400, "wait"},
		{"no media type", "POST", "/runs", "", `{"language":"python","code":"x"}`, 415, "unsupported_media_type"},
		{"text", "POST", "/runs", "Content-Type: text/plain", `{"language":"python","code":"x"}`, 415, "application/json"},
		{"UTF-16", "POST", "/runs", "Content-Type: application/json; charset=utf-16", `{}`, 415, ""},
		{"language unknown", "POST", "/runs", "Content-Type: application/json", `{"language":"cobol","code":"x"}`, 400,
			"language"},
		{"file unknown", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","files":[{"id":"` + unknown + `"}]}`, 404, "files[0].id " + unknown},
		{"file no id", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","files":[{"id":"../x"}]}`, 400, "files[0].id is not an id"},
		{"session unknown", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","session":"` + unknown + `"}`, 404, "session " + unknown},
		{"timeout above", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","timeout_ms":300001}`, 400, "timeout_ms"},
		{"timeout at maximum", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","timeout_ms":300000}`, 200, `"ok"`},
		{"timeout least", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","limits":{"timeout_ms":1,"cpus":0.5,"output_bytes":2000}}`, 200, `"ok"`},
		{"timeout twice", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","timeout_ms":1,"limits":{"timeout_ms":1}}`, 400, "twice"},
		{"memory above", "POST", "/runs", "Content-Type: application/json",
			`{"language":"python","code":"x","limits":{"memory_bytes":1152921504606846976}}`, 400, "limits.memory_bytes"},
		{"key too long", "POST", "/runs", "Content-Type: application/json\nIdempotency-Key: " + strings.Repeat("k", 300),
			`{"language":"python","code":"x"}`, 400, "Idempotency-Key"},
		{"runs", "GET", "/runs?limit=1", "", "", 200, `"next":"` + ""},
		{"runs whose code is kept", "GET", "/runs?limit=1", "", "", 200, `"code_kept":true`},
		{"runs of no session", "GET", "/runs?session=" + unknown, "", "", 200, `"runs":[],"next":""`},
		{"runs, bad limit", "GET", "/runs?limit=-1", "", "", 400, "limit"},
		{"runs, too many", "GET", "/runs?limit=1001", "", "", 400, "limit"},
		{"runs, bad after", "GET", "/runs?after=..", "", "", 400, "after"},
		{"runs, bad session", "GET", "/runs?session=x", "", "", 400, "session"},
		{"get run", "GET", "/runs/" + run.ID.String(), "", "", 200, `"exit_code":0,"signal":null`},
		{"get unknown run", "GET", "/runs/" + unknown, "", "", 404, "there is no such object: " + unknown},
		{"get no run", "GET", "/runs/..%2fx%1b", "", "", 404, `there is no such object: \"../x\\x1b\"`},
		{"cancel ended run", "DELETE", "/runs/" + run.ID.String(), "", "", 204, ""},
		{"cancel unknown run", "DELETE", "/runs/" + unknown, "", "", 404, "not_found"},
		{"events, bad number", "GET", "/runs/" + run.ID.String() + "/events", "Last-Event-ID: x", "", 400, "Last-Event-ID"},
		{"events of unknown run", "GET", "/runs/" + unknown + "/events", "", "", 404, "not_found"},

		{"raw upload", "POST", "/files?name=a.txt&ttl_seconds=60", "", "hello", 201, `"name":"a.txt"`},
		{"raw upload of nothing", "POST", "/files?name=a.txt", "", "", 201, `"size":0`},
		{"raw upload, nameless", "POST", "/files", "", "hello", 400, "name is missing"},
		{"raw upload, empty name", "POST", "/files?name=", "", "hello", 400, "name"},
		{"raw upload, bad ttl", "POST", "/files?name=a&ttl_seconds=1.5", "", "hello", 400, "ttl_seconds"},
		{"raw upload, up", "POST", "/files?name=../a", "", "hello", 400, "name"},
		{"raw upload at limit", "POST", "/files?name=a", "", strings.Repeat("x", 1<<20), 201, `"size":1048576`},
		{"raw upload over limit", "POST", "/files?name=a", "", strings.Repeat("x", 1<<20+1), 413, "too_large"},
		{"form", "POST", "/files", form,
			"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"dir/ä.txt\"\r\n\r\nhello\r\n--B--\r\n", 201,
			`"name":"dir/ä.txt","size":5`},
		{"form with ttl", "POST", "/files", form, "--B\r\nContent-Disposition: form-data; name=ttl_seconds\r\n\r\n60\r\n" +
			"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=a\r\n\r\nhello\r\n--B--", 201, `"name":"a"`},
		{"files", "GET", "/files", "", "", 200, file.ID.String()},
		{"files, paged", "GET", "/files?limit=1000&after=" + file.ID.String(), "", "", 200, `"files":[],"next":""`},
		{"get file", "GET", "/files/" + file.ID.String(), "", "", 200, `"sha256":"` + file.SHA256.String()},
		{"get unknown file", "GET", "/files/" + unknown, "", "", 404, "not_found"},
		{"delete unknown file", "DELETE", "/files/" + unknown, "", "", 404, "not_found"},
		{"content of unknown file", "GET", "/files/" + unknown + "/content", "", "", 404, "not_found"},

		{"session", "POST", "/sessions", "Content-Type: application/json",
			`{"kind":"files","ttl_seconds":60,"files":[{"id":"` + file.ID.String() + `","path":"in.csv","read_only":true}]}`,
			201, `"kind":"files"`},
		{"session of no kind", "POST", "/sessions", "Content-Type: application/json", `{"kind":"odd"}`, 400, "kind"},
		{"session without body", "POST", "/sessions", "Content-Type: application/json", "", 400, "JSON"},
		{"sessions", "GET", "/sessions", "", "", 200, `"sessions":[`},
		{"session unknown", "GET", "/sessions/" + unknown, "", "", 404, "not_found"},
		{"session files unknown", "GET", "/sessions/" + unknown + "/files", "", "", 404, "not_found"},
		{"archive unknown", "GET", "/sessions/" + unknown + "/archive", "", "", 404, "not_found"},
		{"delete session unknown", "DELETE", "/sessions/" + unknown, "", "", 404, "not_found"},

		{"key", "POST", "/keys", "Content-Type: application/json", `{"owner":"bob"}`, 201, `"token":"ak_`},
		{"key without owner", "POST", "/keys", "Content-Type: application/json", `{}`, 400, "owner is missing"},
		{"key of odd owner", "POST", "/keys", "Content-Type: application/json", `{"owner":"a b"}`, 400, "owner"},
		{"keys", "GET", "/keys", "", "", 200, `"owner":"bob"`},
		{"revoke unknown key", "DELETE", "/keys/abcdefghjkmn", "", "", 404, "not_found"},

		{"languages", "GET", "/languages", "", "", 200, `"entry":"main.py"`},
		{"images", "GET", "/images", "", "", 200, `{"images":[{"name":"ir","reference":"ir:latest","id":"sha256-ir",` +
			`"size_bytes":1048576,"languages":[{"name":"bash","version":"5.2"},{"name":"r","version":"4.4.1"}]},`},
		{"default image", "GET", "/images", "", "", 200, `"default":"host","host":true}`},
		{"run in an image", "POST", "/runs", jsonType, `{"language":"python","code":"1","image":"py313"}`, 200,
			`"image":"py313"`},
		{"unknown image", "POST", "/runs", jsonType, `{"language":"python","code":"1","image":"nosuch"}`, 400,
			`"message":"image \"nosuch\" is not known; there are host, ir (`},
		{"image without the language", "POST", "/runs", jsonType, `{"language":"python","code":"1","image":"ir"}`, 400,
			`"hint":"The image ir has Bash 5.2 and R 4.4.1: name one`},
		{"image and packages", "POST", "/runs", jsonType,
			`{"language":"python","code":"1","image":"py313","python_packages":"onyx"}`, 400, "cannot be combined"},
		{"image of no live session", "POST", "/sessions", jsonType, `{"image":"py313"}`, 400, "image"},
		{"limits", "GET", "/limits", "", "", 200, `"maxima":{"timeout_ms":300000`},
		{"openapi", "GET", "/openapi.yaml", "", "", 200, "openapi: 3.1.0"},

		{"nowhere", "GET", "/nowhere", "", "", 404, `"code":"not_found"`},
		{"wrong method", "PUT", "/runs", "", "", 405, "method_not_allowed"},
		{"override", "GET", "/limits", "X-HTTP-Method-Override: DELETE", "", 200, "defaults"},
		{"trace", "TRACE", "/runs", "", "", 405, "GET, HEAD, POST"},
		{"options", "OPTIONS", "/files/" + unknown, "", "", 405, "DELETE, GET, HEAD"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := r.send(c.method, c.url, c.header, c.body)
			check(t, w, c.status, c.contains)
			if c.status >= 400 && !strings.Contains(w.Body.String(), `"request_id":"`+requestID+`"`) {
				t.Errorf("no request id in %s", w.Body)
			}
			if c.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("no Allow header")
			}
			if (c.status == 201 || c.status == 202) && !strings.HasPrefix(c.url, "/keys") &&
				!strings.HasPrefix(w.Header().Get("Location"), "/api/v1/") {
				t.Errorf("Location is %q", w.Header().Get("Location"))
			}
		})
	}
}

// TestOtherOwner checks that another owner's data is answered exactly like missing data.
func TestOtherOwner(t *testing.T) {
	r := newRig(t, hello)
	file, run := r.put("a", "secret"), r.run("x")
	session, err := r.engine.CreateSession(t.Context(), r.caller, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r.caller = engine.Caller{Owner: "bob"}
	for _, c := range []struct {
		method, url string
		id          engine.ID
	}{
		{"GET", "/files/%", file.ID}, {"GET", "/files/%/content", file.ID}, {"DELETE", "/files/%", file.ID},
		{"GET", "/runs/%", run.ID}, {"GET", "/runs/%/events", run.ID}, {"DELETE", "/runs/%", run.ID},
		{"GET", "/sessions/%", session.ID}, {"GET", "/sessions/%/files", session.ID},
		{"GET", "/sessions/%/archive", session.ID}, {"DELETE", "/sessions/%", session.ID},
	} {
		unknown := engine.NewID().String()
		theirs := r.send(c.method, strings.ReplaceAll(c.url, "%", c.id.String()), "", "")
		nobodys := r.send(c.method, strings.ReplaceAll(c.url, "%", unknown), "", "")
		if theirs.Code != 404 || strings.ReplaceAll(theirs.Body.String(), c.id.String(), "") != strings.ReplaceAll(
			nobodys.Body.String(), unknown, "") {
			t.Errorf("%s %s: %d %s, and for an unknown id %s", c.method, c.url, theirs.Code, theirs.Body, nobodys.Body)
		}
	}
	check(t, r.json("POST", "/runs", `{"language":"python","code":"x","files":[{"id":"`+file.ID.String()+`"}]}`), 404)
	check(t, r.json("POST", "/runs", `{"language":"python","code":"x","session":"`+session.ID.String()+`"}`), 404)
	for _, list := range []string{"/files", "/runs", "/sessions"} {
		check(t, r.send("GET", list, "", ""), 200, `:[],"next":""`)
	}
	for _, admin := range []*httptest.ResponseRecorder{
		r.json("POST", "/keys", `{"owner":"bob"}`), r.send("GET", "/keys", "", ""),
		r.send("DELETE", "/keys/abcdefghjkmn", "", ""),
	} {
		check(t, admin, 403, "forbidden")
	}
	r.caller = engine.Caller{Owner: "alice"}
	check(t, r.send("GET", "/files/"+file.ID.String()+"/content", "", ""), 200, "secret")
}

func TestErrors(t *testing.T) {
	secret := errors.New("open /var/lib/secret: SQL error")
	cases := []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{&engine.Error{Kind: engine.ErrInvalid, Hint: "Try this.", Err: secret}, 400, "invalid", ""},
		{engine.ErrUnauthorized, 401, "unauthorized", ""},
		{engine.ErrForbidden, 403, "forbidden", ""},
		{engine.ErrNotFound, 404, "not_found", ""},
		{&engine.Error{Kind: engine.ErrConflict, Err: secret}, 409, "conflict", ""},
		{engine.ErrTooLarge, 413, "too_large", ""},
		{&engine.Error{Kind: engine.ErrBusy, RetryAfter: 1500 * 1e6}, 429, "busy", "2"},
		{&engine.Error{Kind: engine.ErrBusy, RetryAfter: 1}, 429, "busy", "1"},
		{engine.ErrBusy, 429, "busy", "1"},
		{&engine.Error{Kind: engine.ErrFull, Err: secret}, 507, "full", ""},
		{&engine.Error{Kind: engine.ErrUnavailable, Err: secret}, 503, "unavailable", "5"},
		{engine.ErrCanceled, 499, "canceled", ""},
		{&engine.Error{Kind: engine.ErrInternal, Hint: "secret", Err: secret}, 500, "internal", ""},
		{secret, 500, "internal", ""},
		{engine.Kind("new"), 500, "internal", ""},
	}
	a := &api{kit: &rest.Kit{
		Caller: func(*http.Request) engine.Caller { return engine.Caller{} },
		Log:    slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	for _, c := range cases {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", requestID)
		serve := a.handle(func(*request) (any, error) { return nil, c.err })
		serve(w, httptest.NewRequestWithContext(t.Context(), "POST", "/runs", nil))
		check(t, w, c.status, `"code":"`+c.code+`"`)
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("the cause is in %s", w.Body)
		}
		if got := w.Header().Get("Retry-After"); got != c.retry {
			t.Errorf("%v: Retry-After %q, want %q", c.err, got, c.retry)
		}
	}
}

func TestIdempotency(t *testing.T) {
	r := newRig(t, hello)
	key := "Content-Type: application/json\nIdempotency-Key: once"
	first := r.send("POST", "/runs", key, `{"language":"python","code":"x"}`)
	again := r.send("POST", "/runs", key, `{"language":"python","code":"x"}`)
	check(t, first, 200)
	if first.Body.String() != again.Body.String() {
		t.Errorf("%s and then %s", first.Body, again.Body)
	}
	check(t, r.send("POST", "/runs", key, `{"language":"python","code":"y"}`), 409, "conflict")
}

func TestPages(t *testing.T) {
	r := newRig(t, hello)
	for _, name := range []string{"a", "b", "c"} {
		r.put(name, name)
	}
	var names []string
	after := ""
	for range 4 {
		w := r.send("GET", "/files?limit=2"+after, "", "")
		var page struct {
			Files []struct{ Name string }
			Next  string
		}
		decode(t, w.Body, &page)
		for _, f := range page.Files {
			names = append(names, f.Name)
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	if strings.Join(names, "") != "cba" {
		t.Errorf("pages hold %q", names)
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAccess names the routes that callers from trusted networks may use without
// a key, and those that are open to all. A route that is added is closed.
func TestAccess(t *testing.T) {
	api := New(nil, Options{})
	network := []string{
		"DELETE /files/{id}", "DELETE /runs/{id}", "DELETE /sessions/{id}", "GET /files", "GET /files/{id}",
		"GET /files/{id}/content",
		"GET /images", "GET /languages", "GET /limits", "GET /openapi.yaml",
		"GET /runs", "GET /runs/{id}", "GET /runs/{id}/events",
		"GET /sessions",
		"GET /snapshots", "GET /snapshots/{id}", "DELETE /snapshots/{id}",
		"GET /volumes", "GET /volumes/{name}", "DELETE /volumes/{name}", "POST /volumes",
		"GET /sessions/{id}", "GET /sessions/{id}/archive", "GET /sessions/{id}/files", "POST /files", "POST /runs",
		"POST /sessions",
	}
	for _, r := range routes {
		if aboutLive(r.path) { // in a sandbox, all of it
			network = append(network, r.method+" "+r.path)
		}
	}
	for _, r := range routes {
		name := r.method + " " + r.path
		req := httptest.NewRequest(r.method, strings.NewReplacer(
			"{id}", "a%2Fb", "{name}", "a%2Fb",
			"{escalation}", "e", "{sha256}", "s", "{cell}", "c", "{process}", "p", "{port}", "1", "{path...}",
			"p", "{member}", "1-1", "{frame}", "f").Replace(r.path), http.NoBody)
		trusts, everyone := api.Access(req)
		if trusts != slices.Contains(network, name) || everyone != (name == "GET /openapi.yaml") {
			t.Errorf("%s: networks %v, everyone %v", name, trusts, everyone)
		}
	}
	for _, other := range []string{"PATCH /runs", "GET /nothing", "GET /", "POST /openapi.yaml", "GET /runs/a/b/c"} {
		method, path, _ := strings.Cut(other, " ")
		if trusts, everyone := api.Access(httptest.NewRequest(method, path, http.NoBody)); trusts || everyone {
			t.Errorf("%s is open", other)
		}
	}
	if trusts, everyone := api.Access(httptest.NewRequest("HEAD", "/runs", http.NoBody)); !trusts || everyone {
		t.Errorf("HEAD /runs: networks %v, everyone %v", trusts, everyone)
	}
}

// A run and a session name their walls, a key's is a floor, and a request for less is refused in words.
func TestWall(t *testing.T) {
	r := newRig(t, hello)
	for _, test := range []struct {
		key         engine.Wall
		asked, want string // empty: refused
	}{
		{"", "", "shared"}, {"", `,"wall":null`, "shared"}, {"", `,"wall":"gvisor"`, "gvisor"},
		{engine.WallGVisor, "", "gvisor"}, {engine.WallGVisor, `,"wall":"gvisor"`, "gvisor"},
		{engine.WallGVisor, `,"wall":"shared"`, ""}, {"", `,"wall":"kvm"`, ""},
	} {
		r.caller.Wall = test.key
		for path, body := range map[string]string{"/runs": `{"language":"python","code":"x"`, "/sessions": `{"kind":"held"`} {
			made := r.json("POST", path, body+test.asked+"}")
			if test.want == "" {
				if made.Code != 400 || !strings.Contains(made.Body.String(), `"message":"wall \"`) {
					t.Errorf("%+v: %d %s", test, made.Code, made.Body)
				}
				continue
			}
			var object struct{ ID, Wall string }
			decode(t, strings.NewReader(made.Body.String()), &object)
			if object.Wall != test.want {
				t.Errorf("%+v: %d %s", test, made.Code, made.Body)
			}
			if again := r.send("GET", path+"/"+object.ID, "", ""); !strings.Contains(again.Body.String(),
				`"wall":"`+test.want+`"`) {
				t.Errorf("%+v: %s", test, again.Body)
			}
		}
	}
	r.caller.Wall = ""
	if made := r.json("POST", "/keys", `{"owner":"bob","wall":"gvisor"}`); !strings.Contains(made.Body.String(),
		`"wall":"gvisor"`) {
		t.Errorf("%s", made.Body)
	}
	if all := r.send("GET", "/keys", "", ""); !strings.Contains(all.Body.String(), `"wall":"gvisor"`) {
		t.Errorf("%s", all.Body)
	}
}
