package web

import (
	"bytes"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// keyFor makes a key.
func (v *visitor) keyFor(owner engine.Owner) (engine.Key, string) {
	v.t.Helper()
	key, token, err := v.engine.CreateKey(v.t.Context(), engine.Caller{Admin: true}, engine.NewKey{Owner: owner})
	if err != nil {
		v.t.Fatal(err)
	}
	return key, token
}

func (v *visitor) signIn(key, next string) answer {
	v.t.Helper()
	return v.post("/sign-in", url.Values{"token": {v.token()}, "key": {key}, "next": {next}})
}

func TestSignIn(t *testing.T) {
	v := visitSite(t, false, prints("x"))
	key, token := v.keyFor("ada")

	got := v.get("/runs?q=x")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/sign-in?next=%2Fruns%3Fq%3Dx" {
		t.Errorf("a stranger gets %d to %s", got.status, got.header.Get("Location"))
	}
	if got := v.signIn("ak_nonsense", "/"); got.status != http.StatusUnauthorized ||
		!strings.Contains(got.body, "not known here") {
		t.Errorf("a wrong key is answered %d", got.status)
	}
	before := v.cookie()
	got = v.signIn(token, "/runs?q=x")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/runs?q=x" {
		t.Errorf("the right key leads with %d to %s", got.status, got.header.Get("Location"))
	}
	set := got.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/ui/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %s: %s", want, set)
		}
	}
	if strings.Contains(set, token) || v.cookie() == before {
		t.Error("the cookie must be new, and not the key")
	}
	if got := v.get("/"); got.status != 200 || !strings.Contains(got.body, ">ada<") {
		t.Errorf("signed in, the page is %d", got.status)
	}

	// A cookie from before the sign-in, which an attacker may have planted, is not signed in.
	r := v.request("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: cookieName, Value: before})
	if got := v.another().send(r); got.status != http.StatusSeeOther {
		t.Errorf("the cookie from before opens the page: %d", got.status)
	}

	stolen := v.cookie()
	if got := v.post("/sign-out", url.Values{"token": {v.token()}}); got.status != http.StatusSeeOther {
		t.Errorf("signing out is answered %d", got.status)
	}
	r = v.request("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: cookieName, Value: stolen})
	if got := v.another().send(r); got.status != http.StatusSeeOther {
		t.Errorf("after signing out the cookie still opens the page: %d", got.status)
	}

	v.signIn(token, "/")
	if err := v.engine.RevokeKey(t.Context(), engine.Caller{Admin: true}, key.ID); err != nil {
		t.Fatal(err)
	}
	if got := v.get("/"); got.status != http.StatusSeeOther {
		t.Errorf("a revoked key still opens the page: %d", got.status)
	}
}

func (v *visitor) cookie() string {
	v.t.Helper()
	at, err := url.Parse(v.url + "/")
	if err != nil {
		v.t.Fatal(err)
	}
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == cookieName {
			return c.Value
		}
	}
	return ""
}

func TestSignInLeadsNowhereElse(t *testing.T) {
	for next, want := range map[string]string{
		"/runs?q=a": "/runs?q=a", "": "/", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/",
		"runs": "/", "/../../evil": "/evil", "javascript:alert(1)": "/",
	} {
		if got := ownPath(next); got != want {
			t.Errorf("next=%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestSignInEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSignInStore(time.Now, func() engine.Epoch { return 0 })
		cookie := v.enter("ada", "the key")
		time.Sleep(signInTime - time.Minute)
		if _, ok := v.key(cookie); !ok {
			t.Error("it ended too soon")
		}
		time.Sleep(signInTime - time.Minute) // since that use
		if _, ok := v.key(cookie); !ok {
			t.Error("a use did not count")
		}
		time.Sleep(signInTime + time.Minute)
		if _, ok := v.key(cookie); ok {
			t.Error("it does not end")
		}
	})
}

// Ten thousand sign-ins with one key end none of another's.
func TestManySignIns(t *testing.T) {
	v := newSignInStore(time.Now, func() engine.Epoch { return 0 })
	cookie := v.enter("bob", "the key of bob")
	for range 10_000 {
		v.enter("ada", "the key of ada")
	}
	if n := v.signIns.Len(); n != maxSignIns+1 {
		t.Errorf("%d visitors are remembered, want %d of ada and 1 of bob", n, maxSignIns)
	}
	if _, ok := v.key(cookie); !ok {
		t.Error("the visitor with another key was signed out")
	}
}

// TestToken tries every address that changes something without the token of
// the visitor's own pages.
func TestToken(t *testing.T) {
	v := visitSite(t, true, prints("x"))
	run := v.runs()
	file, err := v.engine.PutFile(t.Context(), engine.Caller{Owner: engine.Local}, engine.Upload{Name: "a"},
		strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	mine, other := v.token(), v.another().token()
	if mine == other {
		t.Fatal("two visitors have the same token")
	}
	for _, path := range []string{run + "/stop", "/files/" + file.ID.String() + "/delete",
		"/sessions/" + file.ID.String() + "/delete", "/sign-out"} {
		for _, token := range []string{"", "x", other} {
			if got := v.post(path, url.Values{"token": {token}}); got.status != http.StatusForbidden {
				t.Errorf("%s with the token %q is answered %d", path, token, got.status)
			}
		}
	}
	if _, err := v.engine.GetFile(t.Context(), engine.Caller{Owner: engine.Local}, file.ID); err != nil {
		t.Errorf("without a token the file was deleted: %v", err)
	}
	for _, token := range []string{"", "x", other} {
		if got := v.form(token, [2]string{"language", "python"},
			[2]string{"code", "print(1)"}); got.status != http.StatusForbidden {
			t.Errorf("a program with the token %q is answered %d", token, got.status)
		}
		r := v.request("POST", "/files?name=b", strings.NewReader("b"))
		r.Header.Set("X-Airlock-Token", token)
		if got := v.send(r); got.status != http.StatusForbidden {
			t.Errorf("an upload with the token %q is answered %d", token, got.status)
		}
	}
	// A file of a form without the token is not stored either.
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("upload", "planted.txt")
	if err == nil {
		_, err = part.Write([]byte("x"))
	}
	if err = errors.Join(err, form.Close()); err != nil {
		t.Fatal(err)
	}
	r := v.request("POST", "/runs", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	if got := v.send(r); got.status != http.StatusForbidden || strings.Contains(v.get("/files").body, "planted.txt") {
		t.Errorf("a file without a token is answered %d, or stored", got.status)
	}
	if got := v.post("/files/"+file.ID.String()+"/delete", url.Values{
		"token": {mine}}); got.status != http.StatusSeeOther {
		t.Errorf("with the right token it is answered %d", got.status)
	}
}

// TestOthers requests data of another owner.
func TestOthers(t *testing.T) {
	v := visitSite(t, false, prints("secret"))
	_, ada := v.keyFor("ada")
	_, bob := v.keyFor("bob")
	v.signIn(ada, "/")
	got := v.form(v.token(), [2]string{"language", "python"}, [2]string{"code", "print('secret')"})
	run := strings.TrimPrefix(got.header.Get("Location"), "/ui")
	file, err := v.engine.PutFile(t.Context(), engine.Caller{Owner: "ada"}, engine.Upload{Name: "a"},
		strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	b := v.another()
	b.signIn(bob, "/")
	for _, path := range []string{run, run + "/events", run + "/files.zip", "/files/" + file.ID.String(),
		"/files/" + file.ID.String() + "/content", "/files/" + file.ID.String() + "/preview"} {
		if got := b.get(path); got.status != http.StatusNotFound || strings.Contains(got.body, "secret") {
			t.Errorf("another owner's %s is answered %d", path, got.status)
		}
	}
	if got := b.get("/runs?q=secret").body; strings.Contains(got, run) {
		t.Error("the search finds another owner's run")
	}
}

// A form in parts without a token changes nothing, at any address: not even whether there is
// something to change is told.
func TestPartsWithoutToken(t *testing.T) {
	v := visitSite(t, false, prints("x"))
	_, key := v.keyFor("ada")
	v.signIn(key, "/")
	id := engine.NewID().String()
	for _, path := range []string{
		"/sign-out", "/runs", "/runs/" + id + "/stop", "/runs/" + id + "/again", "/files", "/files/look",
		"/files/" + id + "/delete", "/sessions/" + id + "/delete",
	} {
		for name, token := range map[string]string{"no token": "", "another token": "x"} {
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			var err error
			if token != "" {
				err = form.WriteField("token", token)
			}
			if err = errors.Join(err, form.WriteField("id", id), form.Close()); err != nil {
				t.Fatal(err)
			}
			r := v.request("POST", path, &body)
			r.Header.Set("Content-Type", form.FormDataContentType())
			if got := v.send(r); got.status != http.StatusForbidden {
				t.Errorf("%s with %s is answered %d", path, name, got.status)
			}
		}
	}
	if got := v.get("/"); got.status != 200 {
		t.Errorf("then the visitor is signed out: %d", got.status)
	}
}
