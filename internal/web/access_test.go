package web

import (
	"bytes"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

func TestSignIn(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("x"))
	key, token := v.KeyFor("ada")

	got := v.Get("/runs?q=x")
	if got.Status != http.StatusSeeOther || got.Header.Get("Location") != "/ui/sign-in?next=%2Fruns%3Fq%3Dx" {
		t.Errorf("a stranger gets %d to %s", got.Status, got.Header.Get("Location"))
	}
	if got := v.SignIn("ak_nonsense", "/"); got.Status != http.StatusUnauthorized ||
		!strings.Contains(got.Body, "not known here") {
		t.Errorf("a wrong key is answered %d", got.Status)
	}
	before := v.Cookie()
	got = v.SignIn(token, "/runs?q=x")
	if got.Status != http.StatusSeeOther || got.Header.Get("Location") != "/ui/runs?q=x" {
		t.Errorf("the right key leads with %d to %s", got.Status, got.Header.Get("Location"))
	}
	set := got.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/ui/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %s: %s", want, set)
		}
	}
	if strings.Contains(set, token) || v.Cookie() == before {
		t.Error("the cookie must be new, and not the key")
	}
	if got := v.Get("/"); got.Status != 200 || !strings.Contains(got.Body, ">ada<") {
		t.Errorf("signed in, the page is %d", got.Status)
	}

	// A cookie from before the sign-in, which an attacker may have planted, is not signed in.
	r := v.Request("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: page.CookieName, Value: before})
	if got := v.another().Send(r); got.Status != http.StatusSeeOther {
		t.Errorf("the cookie from before opens the page: %d", got.Status)
	}

	stolen := v.Cookie()
	if got := v.Post("/sign-out", url.Values{"token": {v.Token()}}); got.Status != http.StatusSeeOther {
		t.Errorf("signing out is answered %d", got.Status)
	}
	r = v.Request("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: page.CookieName, Value: stolen})
	if got := v.another().Send(r); got.Status != http.StatusSeeOther {
		t.Errorf("after signing out the cookie still opens the page: %d", got.Status)
	}

	v.SignIn(token, "/")
	if err := v.Engine.RevokeKey(t.Context(), engine.Caller{Admin: true}, key.ID); err != nil {
		t.Fatal(err)
	}
	if got := v.Get("/"); got.Status != http.StatusSeeOther {
		t.Errorf("a revoked key still opens the page: %d", got.Status)
	}
}

// TestToken tries every address that changes something without the token of
// the visitor's own pages.
func TestToken(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"))
	run := v.runs()
	file, err := v.Engine.PutFile(t.Context(), engine.Caller{Owner: engine.Local}, engine.Upload{Name: "a"},
		strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	mine, other := v.Token(), v.another().Token()
	if mine == other {
		t.Fatal("two visitors have the same token")
	}
	for _, path := range []string{run + "/stop", "/files/" + file.ID.String() + "/delete",
		"/sessions/" + file.ID.String() + "/delete", "/sign-out"} {
		for _, token := range []string{"", "x", other} {
			if got := v.Post(path, url.Values{"token": {token}}); got.Status != http.StatusForbidden {
				t.Errorf("%s with the token %q is answered %d", path, token, got.Status)
			}
		}
	}
	if _, err := v.Engine.GetFile(t.Context(), engine.Caller{Owner: engine.Local}, file.ID); err != nil {
		t.Errorf("without a token the file was deleted: %v", err)
	}
	for _, token := range []string{"", "x", other} {
		if got := v.form(token, [2]string{"language", "python"},
			[2]string{"code", "print(1)"}); got.Status != http.StatusForbidden {
			t.Errorf("a program with the token %q is answered %d", token, got.Status)
		}
		r := v.Request("POST", "/files?name=b", strings.NewReader("b"))
		r.Header.Set("X-Airlock-Token", token)
		if got := v.Send(r); got.Status != http.StatusForbidden {
			t.Errorf("an upload with the token %q is answered %d", token, got.Status)
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
	r := v.Request("POST", "/runs", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	if got := v.Send(r); got.Status != http.StatusForbidden || strings.Contains(v.Get("/files").Body, "planted.txt") {
		t.Errorf("a file without a token is answered %d, or stored", got.Status)
	}
	if got := v.Post("/files/"+file.ID.String()+"/delete", url.Values{
		"token": {mine}}); got.Status != http.StatusSeeOther {
		t.Errorf("with the right token it is answered %d", got.Status)
	}
}

// TestOthers requests data of another owner.
func TestOthers(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("secret"))
	_, ada := v.KeyFor("ada")
	_, bob := v.KeyFor("bob")
	v.SignIn(ada, "/")
	got := v.form(v.Token(), [2]string{"language", "python"}, [2]string{"code", "print('secret')"})
	run := strings.TrimPrefix(got.Header.Get("Location"), "/ui")
	file, err := v.Engine.PutFile(t.Context(), engine.Caller{Owner: "ada"}, engine.Upload{Name: "a"},
		strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	b := v.another()
	b.SignIn(bob, "/")
	for _, path := range []string{run, run + "/events", run + "/files.zip", "/files/" + file.ID.String(),
		"/files/" + file.ID.String() + "/content", "/files/" + file.ID.String() + "/preview"} {
		if got := b.Get(path); got.Status != http.StatusNotFound || strings.Contains(got.Body, "secret") {
			t.Errorf("another owner's %s is answered %d", path, got.Status)
		}
	}
	if got := b.Get("/runs?q=secret").Body; strings.Contains(got, run) {
		t.Error("the search finds another owner's run")
	}
}

// A form in parts without a token changes nothing, at any address: not even whether there is
// something to change is told.
func TestPartsWithoutToken(t *testing.T) {
	v := visitSite(t, false, pagetest.Prints("x"))
	_, key := v.KeyFor("ada")
	v.SignIn(key, "/")
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
			r := v.Request("POST", path, &body)
			r.Header.Set("Content-Type", form.FormDataContentType())
			if got := v.Send(r); got.Status != http.StatusForbidden {
				t.Errorf("%s with %s is answered %d", path, name, got.Status)
			}
		}
	}
	if got := v.Get("/"); got.Status != 200 {
		t.Errorf("then the visitor is signed out: %d", got.Status)
	}
}
