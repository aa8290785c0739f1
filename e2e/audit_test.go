package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// What operators do is recorded with who and what, and without secrets; nobody else reads it, and nobody changes it.
func TestAudit(t *testing.T) {
	t.Parallel()
	a := startAbuse(t, anyPerson(t))
	key, spelled := a.owner(), e2bKey(t, a.who, a.data, "dora")
	made := a.do("POST", "/api/v1/keys", `{"owner":"carl","admin":true}`, "X-Api-Key", a.admin, "Content-Type",
		"application/json")
	id, token := find(object(t, made), "id"), find(object(t, made), "token")
	if got := a.do("DELETE", "/api/v1/keys/"+id, "", "X-Api-Key", key); got.status != 403 {
		t.Errorf("an owner revokes a key: %d", got.status)
	}
	if got := a.do("DELETE", "/api/v1/keys/"+id, "", "X-Api-Key", a.admin); got.status != 204 {
		t.Errorf("%d", got.status)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	for _, with := range []string{token, spelled} { // the page takes a key in E2B's spelling too
		form, err := browser.Get(a.url + "/ui/sign-in")
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		_ = form.Write(&page)
		form.Body.Close()
		hidden := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page.String())
		if hidden == nil {
			t.Fatal(page.String())
		}
		answer, err := browser.PostForm(a.url+"/ui/sign-in", url.Values{"token": {hidden[1]}, "key": {with}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	listed := a.who.run(t, nil, "audit", "--json", "--data", a.data)
	var log struct {
		Entries []struct{ Owner, Key, From, Action, Object, Outcome string }
	}
	if err := json.Unmarshal([]byte(listed.stdout), &log); listed.code != 0 || err != nil {
		t.Fatalf("%+v %v", listed, err)
	}
	var acts []string
	for _, e := range log.Entries[:5] {
		acts = append(acts, e.Action+" "+e.Outcome+" "+e.From)
	}
	want := []string{"sign-in done loopback", "sign-in refused loopback", "key revoked done loopback",
		"key revoked refused loopback", "key made done loopback"}
	for i := range want {
		if acts[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, acts[i], want[i])
		}
	}
	if e := log.Entries[2]; e.Owner != "operator" || e.Key == "" || e.Object != id {
		t.Errorf("%+v", e)
	}
	for _, secret := range []string{token, key, a.admin, token[16:], key[16:], a.admin[16:]} {
		if strings.Contains(listed.stdout, secret) {
			t.Error("the audit log has a secret")
		}
	}
	for _, c := range []struct {
		method, key string
		want        int
	}{{"GET", key, 403}, {"GET", "", 401}, {"DELETE", a.admin, 405}, {"POST", a.admin, 405}, {"PUT", a.admin, 405},
		{"PATCH", a.admin, 405}} {
		if got := a.do(c.method, "/api/v1/audit", "", "X-Api-Key", c.key); got.status != c.want {
			t.Errorf("%s: %d, want %d", c.method, got.status, c.want)
		}
	}
}
