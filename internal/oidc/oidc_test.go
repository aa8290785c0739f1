package oidc_test

import (
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/oidc"
	"github.com/airlock-run/airlock/internal/oidc/oidctest"
)

const (
	back   = "http://localhost:1/ui/sign-in/return"
	secret = "a secret of the browser" //nolint:gosec // of a test
)

// world is a client of a provider, with a clock that can be moved.
type world struct {
	*testing.T
	at     *oidctest.Provider
	client *oidc.Provider
	ahead  time.Duration
}

func start(t *testing.T, set func(*oidc.Options)) *world {
	w := &world{T: t, at: oidctest.Start(t, back)}
	o := oidc.Options{Issuer: w.at.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, Return: back,
		Scopes: []string{"openid", "profile", "email", "offline_access"}, GroupsClaim: "groups", Client: http.DefaultClient,
		Now: func() time.Time { return time.Now().Add(w.ahead) }}
	if set != nil {
		set(&o)
	}
	w.client = oidc.New(o)
	return w
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// signIn does what Ada's browser does at the provider, and returns what comes back from there.
func (w *world) signIn() url.Values {
	w.Helper()
	to, err := w.client.SignInURL(w.Context(), "node.", secret)
	if err != nil {
		w.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	var returned url.Values
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), back) {
			returned = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	id := hiddenID.FindStringSubmatch(get(w.T, browser, to))
	if id == nil {
		w.Fatal("the provider shows no form")
	}
	answer, err := browser.PostForm(w.at.URL+"/login/username", url.Values{"id": {id[1]},
		"username": {oidctest.Ada}, "password": {oidctest.Password}})
	if err != nil {
		w.Fatal(err)
	}
	answer.Body.Close()
	if returned == nil {
		w.Fatalf("the provider answers %s", answer.Status)
	}
	return returned
}

func get(t *testing.T, browser *http.Client, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if err := answer.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// finish ends a sign-in.
func (w *world) finish(query url.Values) (*oidc.Person, error) {
	return w.client.Finish(w.Context(), "node.", secret, query)
}

// must returns who has signed in.
func (w *world) must() *oidc.Person {
	w.Helper()
	p, err := w.finish(w.signIn())
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// refused checks the error of a sign-in that must fail, for a reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	e, _ := errors.AsType[*engine.Error](err)
	if e == nil || e.Kind != engine.ErrForbidden || !strings.Contains(e.Hint+" "+err.Error(), reason) {
		t.Errorf("got %v, want a refusal because %q", err, reason)
	}
}

func TestSignIn(t *testing.T) {
	w := start(t, nil)
	p := w.must()
	if p.Caller.Owner != engine.SubjectOwner(w.at.URL, "id2") || p.Caller.Admin || p.Caller.Name != "Test User2" {
		t.Errorf("signed in: %+v", p.Caller)
	}
}

// The answer of the provider counts once, in the browser that asked for it.
func TestReplay(t *testing.T) {
	w := start(t, nil)
	query := w.signIn()
	if _, err := w.client.Finish(t.Context(), "node.", "another browser's secret", query); err == nil {
		t.Error("another browser has signed in")
	}
	if _, err := w.client.Finish(t.Context(), "node.", "", url.Values{"state": {""}}); err == nil {
		t.Error("a browser without a secret has signed in")
	}
	if _, err := w.finish(query); err != nil {
		t.Fatal(err)
	}
	_, err := w.finish(query)
	refused(t, err, "invalid_grant")
	_, err = w.finish(url.Values{"state": query["state"], "error": {"access_denied"}})
	refused(t, err, "access_denied")
}

// A token that is not made for this client, this sign-in and this time signs nobody in.
func TestTokens(t *testing.T) {
	tests := map[string]struct {
		change func(map[string]any)
		reason string
	}{
		"audience": {func(c map[string]any) { c["aud"] = "another" }, "audience"},
		"several parties": {func(c map[string]any) {
			c["aud"] = []string{"another", oidctest.ClientID}
			delete(c, "azp")
		}, "another party"},
		"another party": {func(c map[string]any) { c["azp"] = "another" }, "another party"},
		"issuer":        {func(c map[string]any) { c["iss"] = "https://id.example.com" }, "issue"},
		"nonce":         {func(c map[string]any) { c["nonce"] = "another" }, "nonce"},
		"no nonce":      {func(c map[string]any) { delete(c, "nonce") }, "nonce"},
		"expired":       {func(c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() }, "expired"},
		"future":        {func(c map[string]any) { c["iat"] = time.Now().Add(time.Minute).Unix() }, "future"},
		"subject":       {func(c map[string]any) { delete(c, "sub") }, "no subject"},
		"access token":  {func(c map[string]any) { c["at_hash"] = "AAAA" }, "access token"},
	}
	w := start(t, nil)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			query := w.signIn()
			w.at.SetClaims(test.change)
			defer w.at.SetClaims(nil)
			_, err := w.finish(query)
			refused(t, err, test.reason)
		})
	}
	t.Run("clock skew", func(t *testing.T) { // of a few seconds either way
		for _, change := range []func(map[string]any){
			func(c map[string]any) { c["exp"] = time.Now().Add(-20 * time.Second).Unix() },
			func(c map[string]any) { c["iat"] = time.Now().Add(20 * time.Second).Unix() },
		} {
			query := w.signIn()
			w.at.SetClaims(change)
			_, err := w.finish(query)
			w.at.SetClaims(nil)
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// Who may sign in, and who has admin rights, is for the operator to say.
func TestAdmission(t *testing.T) {
	tests := map[string]struct {
		domains, groups, admins []string
		of                      []string // Ada's groups
		claim                   func(map[string]any)
		reason                  string // "": she may
		admin                   bool
	}{
		"domain":       {domains: []string{"ZITADEL.ch"}},
		"other domain": {domains: []string{"example.com"}, reason: "domain"},
		"not verified": {domains: []string{oidctest.Domain}, reason: "verified", claim: func(c map[string]any) {
			c["email"], c["email_verified"] = "a@zitadel.ch", false
		}},
		"group":         {groups: []string{"staff"}, of: []string{"others", "staff"}},
		"no such group": {groups: []string{"staff"}, of: []string{"others"}, reason: "no group"},
		"no group":      {groups: []string{"staff"}, reason: "no group"},
		"admin":         {admins: []string{"root"}, of: []string{"root"}, admin: true},
		"admin only":    {groups: []string{"staff"}, admins: []string{"root"}, of: []string{"root"}, admin: true},
		"no admin":      {admins: []string{"root"}, of: []string{"roots"}},
		"one group":     {groups: []string{"staff"}, claim: func(c map[string]any) { c["groups"] = "staff" }},
		"strange groups": {groups: []string{"staff"}, reason: "no group", claim: func(c map[string]any) {
			c["groups"] = []any{1, nil}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, func(o *oidc.Options) { o.Domains, o.Groups, o.Admins = test.domains, test.groups, test.admins })
			w.at.SetGroups(test.of...)
			w.at.SetClaims(test.claim)
			p, err := w.finish(w.signIn())
			switch {
			case test.reason != "":
				refused(t, err, test.reason)
			case err != nil:
				t.Error(err)
			case p.Caller.Admin != test.admin:
				t.Errorf("admin: %v", p.Caller.Admin)
			}
		})
	}
	t.Run("in an object", func(t *testing.T) {
		w := start(t, func(o *oidc.Options) { o.Admins, o.GroupsClaim = []string{"root"}, "realm_access.roles" })
		w.at.SetClaims(func(c map[string]any) { c["realm_access"] = map[string]any{"roles": []string{"root"}} })
		if p := w.must(); !p.Caller.Admin {
			t.Error("the group was not found")
		}
	})
}

// A sign-in is renewed while the provider agrees, with the groups of that time.
func TestRenew(t *testing.T) {
	w := start(t, func(o *oidc.Options) { o.Admins = []string{"root"} })
	w.at.SetGroups("root")
	p := w.must()
	if left := time.Until(p.Until); left < 4*time.Minute || left > 6*time.Minute {
		t.Errorf("it is renewed after %v", left)
	}
	w.at.SetGroups("others")
	p, err := w.client.Renew(t.Context(), p)
	if err != nil || p.Caller.Admin {
		t.Fatalf("renewed: %+v, %v", p, err)
	}
	w.at.SetDown(true)
	p, err = w.client.Renew(t.Context(), p)
	if err != nil || time.Until(p.Until) > time.Minute {
		t.Fatalf("while the provider is down: %+v, %v", p, err)
	}
	w.ahead = 2 * time.Hour
	if _, err := w.client.Renew(t.Context(), p); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("while the provider is down for two hours: %v", err)
	}
	w.at.SetDown(false)
	w.ahead = 0
	if p, err = w.client.Renew(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.at.Revoke(t)
	_, err = w.client.Renew(t.Context(), p)
	refused(t, err, "invalid")
}

// Without what renews it a sign-in ends with its token.
func TestExpiry(t *testing.T) {
	w := start(t, func(o *oidc.Options) { o.Scopes = []string{"openid"} })
	p := w.must()
	_, err := w.client.Renew(t.Context(), p)
	refused(t, err, "expired")
}

// A provider that is not there yet is asked again with the next sign-in.
func TestProviderComesLater(t *testing.T) {
	w := start(t, nil)
	w.at.SetDown(true)
	if _, err := w.client.SignInURL(t.Context(), "", secret); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("got %v", err)
	}
	w.at.SetDown(false)
	if _, err := w.client.SignInURL(t.Context(), "", secret); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("it was asked again at once: %v", err)
	}
	w.ahead = 6 * time.Second
	w.must()
}
