package librechat

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

type listed struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Modified string `json:"lastModified"`
}

func address(ref map[string]any) string {
	return fmt.Sprintf("/sessions/%s/objects/%s", ref["storage_session_id"], ref["id"])
}

// No name gives an owner access to another owner's files.
func TestOwners(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	ref := r.put("a.txt", "a")
	for name, headers := range map[string][]string{
		"bob":         {"X-API-Key", bobKey},
		"a user":      {"X-API-Key", "", "Authorization", "Bearer jwt/t/user/u"},
		"two at once": {"X-API-Key", aliceKey, "Authorization", "Bearer " + bobKey},
	} {
		if got := r.send("GET", address(ref), "", headers...); got.Code != http.StatusNotFound {
			t.Errorf("%s: object %d", name, got.Code)
		}
		if got := r.exec(map[string]any{"lang": "py", "code": "print x", "files": []any{ref}},
			headers...); got.Code != http.StatusForbidden {
			t.Errorf("%s: exec %d", name, got.Code)
		}
		if got := r.send("GET", "/files/"+ref["storage_session_id"].(string)+"?detail=summary", "",
			headers...); got.Code != http.StatusNotFound {
			t.Errorf("%s: list %d", name, got.Code)
		}
		if got := r.send("DELETE", address(ref), "", headers...); got.Code != http.StatusNotFound {
			t.Errorf("%s: delete %d", name, got.Code)
		}
	}
	if got := r.send("GET", address(ref), ""); got.Code != http.StatusOK {
		t.Errorf("the owner: %d %s", got.Code, got.Body)
	}
	wrongPair := map[string]any{"id": ref["id"], "storage_session_id": r.put("b", "b")["storage_session_id"], "name": "a"}
	if got := r.exec(map[string]any{"lang": "py", "code": "print x",
		"files": []any{wrongPair}}); got.Code != http.StatusForbidden {
		t.Errorf("a file under another session's id: %d", got.Code)
	}
}

// Skills belong to all users of a tenant, and to no other tenant.
func TestTenantsShareSkills(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	as := func(tenant, user string) []string {
		return []string{"X-API-Key", "", "Authorization", "Bearer jwt/" + tenant + "/user/" + user}
	}
	for name, parts := range map[string][]string{
		"fields first": {"kind=skill", "id=s1", "version=2", "x/SKILL.md<text"},
		"fields last":  {"x/SKILL.md<text", "version=2", "id=s1", "kind=skill"},
	} {
		up := decode[uploaded](t, r.upload("/upload", parts, as("t", "u1")...), 200)
		at := "/sessions/" + up.Session + "/objects/" + up.Files[0].ID
		ref := map[string]any{"id": up.Files[0].ID, "storage_session_id": up.Session, "name": "x/SKILL.md", "kind": "skill",
			"resource_id": "s1", "version": 2}
		for query, want := range map[string]int{"?kind=skill&id=s1&version=2": 200, "?kind=skill&id=s1&version=3": 403,
			"?kind=skill&id=s2&version=2": 403, "?kind=user": 403, "": 200} {
			if got := r.send("GET", at+query, "", as("t", "u2")...); got.Code != want {
				t.Errorf("%s, another user, %q: %d, want %d", name, query, got.Code, want)
			}
		}
		if got := r.send("GET", at+"?kind=skill&id=s1&version=2", "", as("t2", "u1")...); got.Code != http.StatusNotFound {
			t.Errorf("%s: another tenant: %d", name, got.Code)
		}
		out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "cat x/SKILL.md\nwrite out.txt o",
			"files": []any{ref}}, as("t", "u2")...), 200)
		if out.Stdout != "text" || len(out.Files) != 2 || !out.Files[1].Inherited {
			t.Fatalf("%s: %+v", name, out)
		}
		// A user's change of a shared file belongs to the user.
		made := "/sessions/" + out.SessionID + "/objects/" + out.Files[0].ID
		if got := r.send("GET", made, "", as("t", "u2")...); got.Code != http.StatusOK {
			t.Errorf("%s: what was made: %d", name, got.Code)
		}
		if got := r.send("GET", made, "", as("t", "u1")...); got.Code != http.StatusNotFound {
			t.Errorf("%s: what another user made: %d", name, got.Code)
		}
		ref["version"] = 3
		if got := r.exec(map[string]any{"lang": "py", "code": "print x", "files": []any{ref}},
			as("t", "u2")...); got.Code != http.StatusForbidden {
			t.Errorf("%s: another version: %d", name, got.Code)
		}
	}
}

// Code may be as long as the content of a file that a LibreChat tool writes.
func TestLongCode(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	long := func(n int) string { return "print x\nerr " + strings.Repeat("#", n-len("print x\nerr ")) }
	for size, status := range map[int]int{600 << 10: 200, 16 << 20: 200, 16<<20 + 1: 400} {
		body := `{"lang":"py","code":` + string(wire.Encode(long(size))) + `}`
		if got := r.send("POST", "/exec", body); got.Code != status ||
			status == 200 && decode[runReply](t, got, 200).Stdout != "x\n" {
			t.Errorf("%d bytes: %d, want %d: %.200s", size, got.Code, status, got.Body)
		}
	}
	if got := r.send("POST", "/exec", `{"lang":"py","code":"print x"}`); got.Code != 200 {
		t.Errorf("the next one: %d %s", got.Code, got.Body)
	}
}

// An output is found by the session of an input, as on servers that run a program in that
// session, and by no other session.
func TestOutputByTheSessionOfAnInput(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	ref, other := r.putAs("u1", "in.txt", "in"), r.put("other.txt", "x")
	out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "write out.txt left", "user_id": "u1",
		"files": []any{ref}}), 200)
	var made fileBody
	for _, f := range out.Files {
		if f.Name == "out.txt" {
			made = f
		}
	}
	for _, c := range []struct {
		sid, user, key string
		status         int
	}{
		{ref["storage_session_id"].(string), "u1", aliceKey, 200}, {ref["storage_session_id"].(string), "", aliceKey, 200},
		{out.SessionID, "u1", aliceKey, 200},
		{ref["storage_session_id"].(string), "u2", aliceKey, 404}, {ref["storage_session_id"].(string), "u1", bobKey, 404},
		{other["storage_session_id"].(string), "u1", aliceKey, 404}, {engine.NewID().String(), "u1", aliceKey, 404},
	} {
		got := r.send("GET", "/download/"+c.sid+"/"+made.ID, "", "X-API-Key", c.key, userHeader, c.user)
		if got.Code != c.status || c.status == 200 && got.Body.String() != "left" {
			t.Errorf("%+v: %d %s", c, got.Code, got.Body)
		}
	}
	named := map[string]any{"id": made.ID, "storage_session_id": ref["storage_session_id"], "name": "out.txt"}
	if got := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "cat out.txt", "files": []any{named}}),
		200); got.Stdout != "left" {
		t.Errorf("a program reads %q", got.Stdout)
	}
}

// Users of one key are separate once a request names a user.
func TestUsersOfOneKey(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	for name, ref := range map[string]map[string]any{
		"by its fields": r.put("a.txt", "a", "kind=user", "id=u1"),
		"by its header": r.putAs("u1", "a.txt", "a"),
	} {
		download := fmt.Sprintf("/download/%s/%s", ref["storage_session_id"], ref["id"])
		list := fmt.Sprintf("/files/%s", ref["storage_session_id"])
		for _, c := range []struct {
			path, user string
			status     int
		}{
			{address(ref) + "?kind=user&id=u2", "", 404}, {address(ref), "u2", 404}, {download, "u2", 404},
			{download + "?kind=user&id=u2", "", 404},
			{download + "?kind=user&id=u1", "u2", 404}, {list + "?detail=summary", "u2", 404},
			{address(ref), "", 200}, {address(ref) + "?kind=user&id=u1", "", 200}, {download, "u1", 200},
			{list + "?detail=summary", "u1", 200}, {download, "", 200},
		} {
			if got := r.send("GET", c.path, "", userHeader, c.user); got.Code != c.status {
				t.Errorf("%s: %s as %q: %d, want %d", name, c.path, c.user, got.Code, c.status)
			}
		}
		if got := r.send("DELETE", address(ref), "", userHeader, "u2"); got.Code != 404 {
			t.Errorf("%s: another one deletes it: %d", name, got.Code)
		}
		for user, status := range map[string]int{"u1": 200, "u2": 403, "": 200} {
			if got := r.exec(map[string]any{"lang": "py", "code": "write o p", "user_id": user,
				"files": []any{ref}}); got.Code != status {
				t.Errorf("%s: exec as %q: %d, want %d", name, user, got.Code, status)
			}
		}
		if got := r.exec(map[string]any{"lang": "py", "code": "write o p", "user_id": "u1", "files": []any{ref}}, userHeader,
			"u2"); got.Code != 403 {
			t.Errorf("%s: the body says another user than the header: %d", name, got.Code)
		}
	}
	made := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "write o p", "user_id": "u1"}), 200)
	if got := r.send("GET", "/files/"+made.SessionID+"?detail=summary&kind=user&id=u2", ""); got.Code != 404 {
		t.Errorf("list of another user's session: %d", got.Code)
	}
	if got := r.send("GET", fmt.Sprintf("/download/%s/%s", made.SessionID, made.Files[0].ID), "", userHeader,
		"u2"); got.Code != 404 {
		t.Errorf("another user's output: %d", got.Code)
	}
	for _, fields := range [][]string{{"kind=agent", "id=g1"}, {"entity_id=g1"}, {"kind=skill", "id=s1", "version=1"}} {
		ref := r.putAs("u1", "a.txt", "a", fields...)
		if got := r.exec(map[string]any{"lang": "py", "code": "inputs", "user_id": "u2",
			"files": []any{ref}}); got.Code != 200 {
			t.Errorf("%q: another user runs it: %d %s", fields, got.Code, got.Body)
		}
	}
}

// A strict server rejects a request without a user, but not the owner of a token.
func TestStrictUsers(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{StrictUsers: true})
	ref := r.putAs("u1", "a.txt", "a")
	if got := r.upload("/upload", []string{"a.txt<a"}); got.Code != 403 {
		t.Errorf("upload: %d", got.Code)
	}
	for user, status := range map[string]int{"u1": 200, "u2": 404, "": 403} {
		if got := r.send("GET", address(ref), "", userHeader, user); got.Code != status {
			t.Errorf("object as %q: %d, want %d", user, got.Code, status)
		}
	}
	for user, status := range map[string]int{"u1": 200, "": 403} {
		for _, path := range []string{"/exec", "/exec/programmatic"} {
			if got := r.send("POST", path, `{"lang":"py","code":"print x","user_id":"`+user+`"}`); got.Code != status {
				t.Errorf("%s as %q: %d, want %d: %s", path, user, got.Code, status, got.Body)
			}
		}
	}
	if got := r.send("POST", "/exec", `{"lang":"py","code":"print x"}`, "X-API-Key", "", "Authorization",
		"Bearer jwt/t/user/u"); got.Code != 200 {
		t.Errorf("with a token: %d %s", got.Code, got.Body)
	}
}

// Files are used under names of several generations.
func TestNames(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	ref := r.put("dir/report.txt", "r")
	coded := map[string]any{"id": ref["id"], "session_id": ref["storage_session_id"],
		"name": base64.StdEncoding.EncodeToString([]byte("dir/report.txt"))}
	out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "inputs", "files": []any{coded}}), 200)
	if out.Stdout != "dir/report.txt\n"+coded["name"].(string)+"\n" || len(out.Files) != 1 ||
		out.Files[0].Name != "dir/report.txt" {
		t.Errorf("by its base64 name: %q %+v", out.Stdout, out.Files)
	}
	if list := decode[[]listed](t, r.send("GET", "/files/"+out.SessionID+"?detail=full", ""), 200); len(list) != 1 {
		t.Errorf("the session lists %+v", list)
	}
	for name, want := range map[string]string{"../x": "dir/report.txt", "": "dir/report.txt", "/abs": "dir/report.txt",
		`a\b`: "dir/report.txt", "other/name.txt": "other/name.txt", "main.py": "main.py"} {
		moved := map[string]any{"id": ref["id"], "storage_session_id": ref["storage_session_id"], "name": name}
		out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "inputs", "files": []any{moved}}), 200)
		if out.Stdout != want+"\n" {
			t.Errorf("%q lies at %q, want %q", name, out.Stdout, want)
		}
	}
	if specs := r.sandbox.Specs(); !slices.ContainsFunc(specs,
		func(s engine.Spec) bool { return s.Entry == "main_1.py" }) {
		t.Error("the code lies where an input does")
	}
	other := r.put("b.txt", "b")
	a := map[string]any{"id": ref["id"], "storage_session_id": ref["storage_session_id"], "name": "same.txt"}
	b := map[string]any{"id": other["id"], "storage_session_id": other["storage_session_id"], "name": "same.txt"}
	out = decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "cat same.txt", "files": []any{a, a, b}}), 200)
	if out.Stdout != "b" || len(out.Files) != 1 || out.Files[0].ID != other["id"] {
		t.Errorf("two of one name: %+v", out)
	}
	many := slices.Repeat([]any{a}, 257)
	if got := r.exec(map[string]any{"lang": "py", "code": "1", "files": many}); got.Code != http.StatusBadRequest {
		t.Errorf("257 files: %d", got.Code)
	}
}

// A file expires seven days after its last use, and its age counts from its last use.
func TestExpiry(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	ref := r.put("a.txt", "a")
	for range 4 {
		r.clock.ahead += 6 * 24 * time.Hour
		got := decode[listed](t, r.send("GET", address(ref), ""), 200)
		if at, err := time.Parse(time.RFC3339, got.Modified); err != nil || r.clock.now().Sub(at) > time.Minute {
			t.Errorf("last modified %s, %v", got.Modified, err)
		}
	}
	r.clock.ahead += 6 * 24 * time.Hour
	if got := r.exec(map[string]any{"lang": "py", "code": "cat a.txt", "files": []any{ref}}); got.Code != http.StatusOK {
		t.Errorf("after six days: %d %s", got.Code, got.Body)
	}
	r.clock.ahead += 6 * 24 * time.Hour
	if got := r.send("GET", address(ref), ""); got.Code != http.StatusOK {
		t.Errorf("a run is no use: %d", got.Code)
	}
	r.clock.ahead += 8 * 24 * time.Hour
	if got := r.send("GET", address(ref), ""); got.Code != http.StatusNotFound {
		t.Errorf("after eight days: %d", got.Code)
	}
	if got := r.exec(map[string]any{"lang": "py", "code": "print x",
		"files": []any{ref}}); got.Code != http.StatusForbidden {
		t.Errorf("exec after eight days: %d", got.Code)
	}
}

// A lost blob makes one object 404, so that the client uploads it again.
func TestLostBytes(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	up := decode[uploaded](t, r.upload("/upload", []string{"a.txt<first", "b.txt<second"}), 200)
	digest := digestOf(t, r, up.Files[0].ID)
	if err := r.blobs.Delete(context.Background(), digest); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusNotFound, http.StatusOK} {
		at := up.Session + "/objects/" + up.Files[i].ID
		for _, method := range []string{"GET", "HEAD"} {
			if got := r.send(method, "/sessions/"+at, ""); got.Code != want {
				t.Errorf("%s %d: %d, want %d", method, i, got.Code, want)
			}
		}
		if got := r.send("GET", "/download/"+strings.Replace(at, "/objects", "", 1), ""); got.Code != want {
			t.Errorf("download %d: %d, want %d", i, got.Code, want)
		}
		ref := map[string]any{"id": up.Files[i].ID, "storage_session_id": up.Session, "name": "x"}
		got := r.exec(map[string]any{"lang": "py", "code": "cat x", "files": []any{ref}})
		if (got.Code == http.StatusOK) != (want == http.StatusOK) || got.Code == http.StatusInternalServerError {
			t.Errorf("exec %d: %d", i, got.Code)
		}
	}
}

func digestOf(t *testing.T, r *rig, id string) engine.Digest {
	t.Helper()
	parsed, err := engine.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.index.File(context.Background(), "alice", parsed)
	if err != nil {
		t.Fatal(err)
	}
	return f.SHA256
}

func TestBatches(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{MaxUpload: 1 << 20})
	var parts []string
	for i := range 203 {
		parts = append(parts, fmt.Sprintf("f%d.txt<%d", i, i))
	}
	out := decode[batchReply](t, r.upload("/upload/batch", parts), 200)
	if out.Succeeded != 200 || !out.LimitReached || out.MaxFiles != 200 || out.Files[7].Filename != "f7.txt" {
		t.Errorf("%d stored, %+v", out.Succeeded, out.Files[7])
	}
	if list := decode[[]string](t, r.send("GET", "/files/"+out.StorageID, ""), 200); len(list) != 200 {
		t.Errorf("%d listed", len(list))
	}
	big := strings.Repeat("x", 1<<20+1)
	some := decode[batchReply](t, r.upload("/upload/batch", []string{"big<" + big, "small<s", "small<t"}), 200)
	if some.Message != "partial_success" || some.Failed != 1 || some.Files[0].Error != fileTooLarge ||
		some.Files[1].ID == some.Files[2].ID {
		t.Errorf("%+v", some)
	}
	if got := r.upload("/upload/batch", []string{"big<" + big}); got.Code != http.StatusBadRequest ||
		!strings.Contains(got.Body.String(), `"message":"error"`) {
		t.Errorf("nothing stored: %d %s", got.Code, got.Body)
	}
	if got := r.upload("/upload", []string{"small<s", "big<" + big}); got.Code != http.StatusRequestEntityTooLarge ||
		!strings.Contains(got.Body.String(), fileTooLarge) {
		t.Errorf("too large: %d %s", got.Code, got.Body)
	}
	body, contentType := formOf("a<1", "b<2")
	if got := r.send("POST", "/upload", body[:len(body)-8], "Content-Type",
		contentType); got.Code != http.StatusBadRequest {
		t.Errorf("cut short: %d", got.Code)
	}
	files, err := r.index.Files(context.Background(), engine.FileQuery{Owner: "alice", Page: engine.Page{Limit: 1000}})
	if err != nil || len(files) != 202 {
		t.Errorf("%d files are kept, %v: what a failed upload left is to go", len(files), err)
	}
}

// Each upload creates a session, which must not count against the sessions that an owner
// opens.
func TestUploadsAreNoOpenSessions(t *testing.T) {
	r := newRig(t, engine.Config{Quota: engine.Quota{Sessions: 1}}, Options{})
	for range 3 {
		r.put("a.txt", "a")
	}
	if sessions, err := r.engine.ListSessions(t.Context(), engine.Caller{Owner: "alice"},
		engine.SessionQuery{}); err != nil || len(sessions) != 0 {
		t.Errorf("%v, %v", sessions, err)
	}
}

func TestUnknownSessions(t *testing.T) {
	for answer, want := range map[UnknownSession][2]int{UnknownAuto: {404, 200}, UnknownNotFound: {404, 404},
		UnknownForbidden: {403, 403}, UnknownEmpty: {200, 200}} {
		r := newRig(t, engine.Config{}, Options{UnknownSession: answer})
		for i, query := range []string{"?detail=summary", "?detail=full"} {
			if got := r.send("GET", "/files/AAAAAAAAAAAAAAAAAAAAA"+query, ""); got.Code != want[i] {
				t.Errorf("%s%s: %d", answer, query, got.Code)
			}
		}
	}
}

// Files that were not kept are named.
func TestTruncation(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	var code strings.Builder
	for i := range 330 {
		fmt.Fprintf(&code, "write f%03d.txt x\n", i)
	}
	code.WriteString("drop big.bin too large +1\ndrop .cache/x quota full +2\ndrop a/b too many folders deep\n" +
		"drop l not a regular file +9\ndrop late storing took too long\n")
	out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": code.String()}), 200)
	want := map[string]int{"max_files": 30, "size": 4, "depth": 1, "unreadable": 1}
	if got := out.Truncation; len(out.Files) != 300 || got == nil || got.Code != "artifact_truncated" || got.Count != 36 ||
		len(got.Skipped) != 20 || !slices.Contains(got.Skipped, "big.bin") || !maps.Equal(got.Reasons, want) ||
		!strings.Contains(out.Stderr, "big.bin") {
		t.Errorf("%d files, %+v, %q", len(out.Files), out.Truncation, out.Stderr)
	}
}

// A file keeps its name from the upload to the program and back, even if the file system
// does not allow it.
func TestOddNames(t *testing.T) {
	r := newRig(t, engine.Config{}, Options{})
	for _, name := range []string{
		"می\u200cخواهم.csv", "👨\u200d👩\u200d👧.png", "\u200eIMG-1.jpg", "a\u200bb", "so\u00adft", "\ufeffa", "a\u2028b\u2029",
		"\u0085\u009b",
		"a\u202egnp.exe", "e\u0301.txt", "\u00e9.txt",
	} {
		ref := r.put(name, "1,2")
		if ref["name"] != name {
			t.Errorf("%q is stored as %q", name, ref["name"])
		}
		out := decode[runReply](t, r.exec(map[string]any{"lang": "py", "code": "cat " + name + "\nwrite out/" + name + " x",
			"files": []any{ref}}), 200)
		if out.Stdout != "1,2" || len(out.Files) != 2 || out.Files[0].Name != name && out.Files[1].Name != name {
			t.Errorf("%q: %+v", name, out)
		}
		for _, f := range out.Files {
			got := r.send("GET", fmt.Sprintf("/download/%s/%s", f.StorageID, f.ID), "")
			_, params, err := mime.ParseMediaType(got.Header().Get("Content-Disposition"))
			if original, _ := url.PathUnescape(got.Header().Get("X-Original-Filename")); err != nil ||
				params["filename"] != name || original != f.Name {
				t.Errorf("%q is downloaded as %v, %v", name, got.Header(), err)
			}
		}
	}
}

func FuzzPartName(f *testing.F) {
	f.Add(`form-data; name="file"; filename="skills/pptx/SKILL.md"`)
	f.Add(`form-data; name="file"; filename="a%22b\"c"; filename*=UTF-8''%c3%bc`)
	f.Add(`form-data; name=file; filename=x;y`)
	f.Fuzz(func(t *testing.T, header string) {
		_, file, _ := partName(header)
		name := plainName(file)
		if clean, err := engine.CleanPath(name); err != nil || clean == "" {
			t.Errorf("%q becomes %q: %v", file, name, err)
		}
	})
}
