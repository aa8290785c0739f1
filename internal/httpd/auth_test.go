package httpd

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func basicAuth(s string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(s))
}

func TestKeys(t *testing.T) {
	e := &fakeEngine{hasKeys: true}
	_, address := start(t, Options{Engine: e})
	defer func() {
		for _, token := range e.asked {
			if !plainToken(token) {
				t.Errorf("the engine was asked for %.20q", token)
			}
		}
	}()
	for _, c := range []struct {
		name, header string
		owner        string // empty: 401
	}{
		{"none", "", ""},
		{"empty", "Authorization: ", ""},
		{"bearer", "Authorization: Bearer " + aliceKey, "alice"},
		{"bearer in lower case", "authorization: bearer " + aliceKey, "alice"},
		{"header", "X-API-Key: " + aliceKey, "alice"},
		{"empty and a header", "Authorization: \nX-API-Key: " + aliceKey, "alice"},
		{"user", basicAuth(aliceKey + ":"), "alice"},
		{"password", basicAuth("any:" + aliceKey), "alice"},
		{"no colon", basicAuth(aliceKey), "alice"},
		{"a foreign token and a key", "Authorization: Bearer eyJ.foreign.token\nX-API-Key: " + aliceKey, "alice"},
		{"token", "Authorization: token " + aliceKey, "alice"},
		{"token without a key", "Authorization: token ", ""},
		{"spaces around", "Authorization:   Bearer " + aliceKey + "  ", "alice"},
		{"wrong", "Authorization: Bearer " + aliceKey + "x", ""},
		{"no token", "Authorization: Bearer", ""},
		{"other scheme", "Authorization: Digest " + aliceKey, ""},
		{"no scheme", "Authorization: " + aliceKey, ""},
		{"two headers", "Authorization: Bearer " + aliceKey + "\nAuthorization: Bearer " + aliceKey, ""},
		{"two keys", "X-API-Key: " + aliceKey + "\nX-API-Key: " + adminKey, ""},
		{"not base64", "Authorization: Basic !", ""},
		{"basic of nothing", basicAuth(":"), ""},
		{"not ASCII", "X-API-Key: ключ", ""},
		{"two tokens in one", "Authorization: Bearer " + aliceKey + " " + adminKey, ""},
		{"long", "X-API-Key: " + strings.Repeat("x", 9<<10), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := request(t, "GET", address+"/api/v1/x", c.header, "")
			if c.owner != "" {
				if resp.StatusCode != 200 || !strings.Contains(body, "owner="+c.owner+" ") {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				return
			}
			if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" || strings.Contains(body, aliceKey) {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
			}
		})
	}
	if answer := speak(t, address, "GET /api/v1/x HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+strings.Repeat("x", 1<<20)+
		"\r\n\r\n", time.Second); strings.Contains(answer, "200 OK") || strings.Contains(answer, "still open") {
		t.Errorf("a key of 1 MB: %.100q", answer)
	}
}

// A mount may accept keys in the query; other mounts do not.
func TestQueryKey(t *testing.T) {
	mounts := []Mount{{Prefix: "/api/v1", Handler: dialect()}, {Prefix: "/jupyter", Handler: dialect(), QueryKey: "token"}}
	_, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, Mounts: mounts})
	looksOurs := "ak_" + strings.Repeat("a", 12) + "_" + strings.Repeat("b", 43)
	for _, c := range []struct {
		path, header string
		status       int
	}{
		{"/jupyter/x?token=" + aliceKey, "", 200},
		{"/jupyter/x?token=" + aliceKey, "Authorization: Bearer " + aliceKey, 200},
		{"/jupyter/x?token=", "Authorization: token " + aliceKey, 200},
		{"/jupyter/x?token=", "", 401},
		{"/jupyter/x?token=" + aliceKey + "x", "", 401},
		{"/jupyter/x?token=a%20b", "", 401},
		{"/jupyter/x?token=a&token=b&token=c&token=d&token=" + aliceKey, "", 401},
		{"/jupyter/x?api_key=" + aliceKey, "", 401},
		{"/jupyter/x?other=" + looksOurs, "Authorization: Bearer " + aliceKey, 401},
		{"/api/v1/x?token=" + looksOurs, "Authorization: Bearer " + aliceKey, 401},
		{"/api/v1/x?token=x", "Authorization: Bearer " + aliceKey, 200},
	} {
		if resp, body := request(t, "GET", address+c.path, c.header, ""); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", strings.ReplaceAll(c.path, aliceKey, "KEY"), resp.StatusCode, body)
		}
	}
}

// TestQueryKeyIsNotShown checks that a key in an address is neither in the log, at any level, nor in an answer.
func TestQueryKeyIsNotShown(t *testing.T) {
	var log lockedBuffer
	s, address := start(t, Options{
		Engine: &fakeEngine{hasKeys: true}, Rate: 2,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Mounts: []Mount{{Prefix: "/api/v1", Handler: dialect()},
			{Prefix: "/jupyter", Handler: dialect(), QueryKey: "token", MaxBody: 4}},
	})
	statuses := map[int]bool{}
	looksOurs := "ak_SECRETSECRET_" + strings.Repeat("b", 43)
	paths := []string{"/jupyter/x", "/jupyter/panic", "/jupyter/../x", "/jupyter/none/x", "/api/v1/x", "/nowhere"}
	for _, key := range []string{aliceKey, aliceKey + "SECRET", "SECRET%20x", looksOurs} {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST"} {
				resp, body := request(t, method, address+path+"?token="+key, "", map[string]string{"POST": "long body"}[method])
				statuses[resp.StatusCode] = true
				for _, secret := range []string{aliceKey, "SECRET"} {
					if strings.Contains(body, secret) {
						t.Errorf("%s %s shows the key: %s", method, path, body)
					}
				}
			}
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, status := range []int{200, 401, 404, 429, 500} {
		if !statuses[status] {
			t.Errorf("no answer was %d: %v", status, statuses)
		}
	}
	for _, secret := range []string{aliceKey, "SECRET"} {
		if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "level=DEBUG msg=request") {
			t.Errorf("the log shows the key: %s", text)
		}
	}
}

// TestNoKeyNeeded checks which callers need no key, and their owners.
func TestNoKeyNeeded(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	elsewhere := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		name         string
		keys         bool
		trust        []netip.Prefix
		path, header string
		status       int
	}{
		{"loopback, no keys", false, nil, "/api/v1/x", "", 200},
		{"loopback, no keys, empty header", false, nil, "/api/v1/x", "Authorization: ", 200},
		{"loopback, no keys, wrong key", false, nil, "/api/v1/x", "X-API-Key: x", 401},
		{"loopback, no keys, behind a proxy", false, nil, "/api/v1/x", "X-Forwarded-For: 203.0.113.7", 401},
		{"loopback, no keys, behind another", false, nil, "/api/v1/x", "Forwarded: for=203.0.113.7", 401},
		{"loopback, keys", true, nil, "/api/v1/x", "", 401},
		{"trusted, dialect", true, loopback, "/onyx/x", "", 200},
		{"trusted, not a dialect", true, loopback, "/api/v1/x", "", 401},
		{"trusted, metrics", true, loopback, "/metrics", "", 401},
		{"trusted, wrong key", true, loopback, "/onyx/x", "X-API-Key: x", 401},
		{"not trusted", true, elsewhere, "/onyx/x", "", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, address := start(t, Options{Engine: &fakeEngine{hasKeys: c.keys}, TrustNetworks: c.trust})
			resp, body := request(t, "GET", address+c.path, c.header, "")
			if resp.StatusCode != c.status || c.status == 200 && !strings.Contains(body, "owner=local key= admin=false") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
}

// TestLoopbackPeerOfOpenListener checks that an exposed listener admits no caller without a
// key, not even from this machine: behind a port forward all callers come from loopback.
func TestLoopbackPeerOfOpenListener(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	start(t, Options{Listen: []net.Listener{l}, Engine: &fakeEngine{},
		TrustNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	address := "http://" + netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
	if resp, body := request(t, "GET", address+"/api/v1/x", "", ""); resp.StatusCode != 401 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "airlock.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	start(t, Options{Listen: []net.Listener{l}, Engine: &fakeEngine{hasKeys: true}})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	if _, body := requestOver(t, transport, "GET", "http://any.host.at.all/api/v1/x", "", ""); !strings.Contains(
		body, "owner=local key= admin=true") {
		t.Errorf("without a key: %s", body)
	}
	if _, body := requestOver(t, transport, "GET", "http://localhost/api/v1/x", "X-API-Key: "+aliceKey,
		""); !strings.Contains(body, "owner=alice") {
		t.Errorf("with a key: %s", body)
	}
	if resp, _ := requestOver(t, transport, "GET", "http://localhost/api/v1/x", "X-API-Key: x",
		""); resp.StatusCode != 401 {
		t.Errorf("with a wrong key: %d", resp.StatusCode)
	}
}

// TestOtherUser checks the rule for unix peers of another user.
func TestOtherUser(t *testing.T) {
	s := &Server{opts: Options{Engine: &fakeEngine{}}}
	for uid, admin := range map[int]bool{0: true, 65534: false, -1: false} {
		ctx := context.WithValue(t.Context(), originKey{}, connOrigin{unix: true, peerUID: uid})
		req, err := http.NewRequestWithContext(ctx, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if caller, err := s.caller(Mount{Trusted: true}, req); caller.Admin != admin || (err == nil) != admin {
			t.Errorf("uid %d: %v, %v", uid, caller, err)
		}
	}
}

func TestPublicMounts(t *testing.T) {
	_, address := start(t, Options{Mounts: []Mount{
		{Prefix: "/ui", Handler: dialect(), Public: true}, {Prefix: "/onyx", Handler: dialect(), Open: []string{"/health"}},
		{
			Prefix: "/own", Handler: dialect(),
			Authenticate: func(_ context.Context, token string) (engine.Caller, error) {
				if token == "jwt" {
					return engine.Caller{Owner: "tenant", Key: "jwt"}, nil
				}
				return engine.Caller{}, engine.ErrUnauthorized
			},
			Refuse: func(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
				http.Error(w, `{"detail":"`+message+`"}`, status)
			},
		},
	}})
	for _, c := range []struct {
		path, header string
		status       int
		contains     string
	}{
		{"/ui/", "", 200, "owner= "}, {"/ui/", "X-API-Key: " + aliceKey, 200, "owner=alice"},
		{"/ui/", "X-API-Key: wrong", 200, "owner= "},
		{"/onyx/health", "", 200, "owner= "}, {"/onyx/healthy", "", 401, "key"}, {"/onyx/health/", "", 401, "key"},
		{"/own/", "Authorization: Bearer jwt", 200, "owner=tenant"},
		{"/own/", "X-API-Key: " + aliceKey, 401, `{"detail":"that key is not valid"}`},
		{"/health", "", 200, "ok"},
	} {
		if resp, body := request(t, "GET", address+c.path, c.header, ""); resp.StatusCode != c.status ||
			!strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %d %s", c.path, c.header, resp.StatusCode, body)
		}
	}
}

// TestAccess checks a mount whose routes differ in the callers that need no key.
func TestAccess(t *testing.T) {
	_, address := start(t, Options{
		Engine: &fakeEngine{hasKeys: true}, TrustNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Mounts: []Mount{{Prefix: "/api/v1", Handler: dialect(), Access: func(r *http.Request) (network, everyone bool) {
			return r.URL.Path == "/network" || r.URL.Path == "/all", r.URL.Path == "/all"
		}}},
	})
	for path, want := range map[string]struct {
		status   int
		contains string
	}{
		"/network": {200, "owner=local"}, "/all": {200, "owner="}, "/other": {401, "key"}, "/network/": {401, "key"},
		"/": {401, "key"},
	} {
		if resp, body := request(t, "GET", address+"/api/v1"+path, "", ""); resp.StatusCode != want.status ||
			!strings.Contains(body, want.contains) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	if resp, body := request(t, "GET", address+"/api/v1/all", "X-Forwarded-For: 203.0.113.7", ""); resp.StatusCode != 200 {
		t.Errorf("open to all: %d %s", resp.StatusCode, body)
	}
}

// TestBadBesideGood checks that a token that its dialect refuses is refused even beside a
// good key, in any order.
func TestBadBesideGood(t *testing.T) {
	_, address := start(t, Options{Mounts: []Mount{{
		Prefix: "/own", Handler: dialect(), Lenient: true,
		Authenticate: func(_ context.Context, token string) (engine.Caller, error) {
			switch token {
			case "good":
				return engine.Caller{Owner: "alice"}, nil
			case "bad.token.x":
				return engine.Caller{}, engine.ErrForbidden
			}
			return engine.Caller{}, engine.ErrUnauthorized
		},
	}}})
	for _, c := range []struct {
		bearer, key string
		status      int
	}{
		{"good", "", 200}, {"good", "junk", 200}, {"junk", "good", 200}, {"good", "good", 200},
		{"bad.token.x", "good", 401}, {"good", "bad.token.x", 401}, {"bad.token.x", "", 401},
		{"bad.token.x", "bad.token.x", 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", address+"/own/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.bearer)
		if c.key != "" {
			req.Header.Set("X-API-Key", c.key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%q beside %q: %d, want %d", c.bearer, c.key, resp.StatusCode, c.status)
		}
	}
}

// TestRefusedToken checks that the log says why a token was refused, and the answer does not.
func TestRefusedToken(t *testing.T) {
	var log lockedBuffer
	_, address := start(t, Options{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Mounts: []Mount{{
			Prefix: "/own", Handler: dialect(), Lenient: true,
			Authenticate: func(context.Context, string) (engine.Caller, error) {
				return engine.Caller{}, &engine.Error{Op: "authenticate", Kind: engine.ErrForbidden,
					Err: errors.New("its kid is not known")}
			},
		}},
	})
	for range 20 { // each is refused, few are written down
		resp, body := request(t, "GET", address+"/own/x", "Authorization: Bearer a.b.c", "")
		if resp.StatusCode != 401 || strings.Contains(body, "kid") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	text := log.String()
	if n := strings.Count(text, "its kid is not known"); n == 0 || n > 10 || !strings.Contains(text, "level=WARN") {
		t.Errorf("%d times: %s", n, text)
	}
	if strings.Contains(text, "a.b.c") {
		t.Errorf("a token is in the log: %s", text)
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSignedIn tests a mount that identifies its callers by a cookie.
func TestSignedIn(t *testing.T) {
	_, address := start(t, Options{Home: "/ui/", Mounts: []Mount{
		{Prefix: "/ui", Handler: dialect(), Public: true, SignedIn: func(r *http.Request) (engine.Caller, bool) {
			c, err := r.Cookie("airlock")
			return engine.Caller{Owner: "bob", Key: "bobs"}, err == nil && c.Value == "bob"
		}},
		{Prefix: "/api/v1", Handler: dialect()},
	}})
	for _, c := range []struct {
		path, header string
		status       int
		contains     string
	}{
		{"/ui/", "Cookie: airlock=bob", 200, "owner=bob key=bobs"}, {"/ui/", "Cookie: airlock=x", 200, "owner= "},
		{"/ui/", "", 200, "owner= "},
		{"/ui/", "Cookie: airlock=bob\nX-API-Key: " + aliceKey, 200, "owner=alice"},
		{"/api/v1/", "Cookie: airlock=bob", 401, "key"}, // a cookie is valid at its own mount only
		{"/", "", 303, ""}, {"/other", "", 404, ""},
	} {
		if resp, body := request(t, "GET", address+c.path, c.header, ""); resp.StatusCode != c.status ||
			!strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %d %s", c.path, c.header, resp.StatusCode, body)
		}
	}
}

// TestLenientMounts tests clients that always send a key, and tokens that must not count as
// no key.
func TestLenientMounts(t *testing.T) {
	check := func(_ context.Context, token string) (engine.Caller, error) {
		switch token {
		case "jwt":
			return engine.Caller{Owner: "tenant", Key: "jwt"}, nil
		case "expired":
			return engine.Caller{}, engine.ErrForbidden
		}
		return engine.Caller{}, engine.ErrUnauthorized
	}
	for _, keyed := range []bool{false, true} {
		for _, trust := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}} {
			_, address := start(t, Options{Engine: &fakeEngine{}, TrustNetworks: trust, Mounts: []Mount{
				{Prefix: "/chat", Handler: dialect(), Authenticate: check, Keyed: keyed, Lenient: true, Trusted: true},
			}})
			open := "owner=local"
			if keyed && trust == nil {
				open = ""
			}
			for header, want := range map[string]string{
				"": open, "X-API-Key: whatever": open, "Authorization: Bearer jwt": "owner=tenant",
				"Authorization: Bearer jwt\nX-API-Key: x": "owner=tenant",
				"Authorization: Bearer expired":           "", "Authorization: Bearer expired\nX-API-Key: x": "",
				"Authorization: Bearer expired\nX-API-Key: jwt": "",
			} {
				resp, body := request(t, "GET", address+"/chat/x", header, "")
				if sent := header != ""; want == "" && strings.Contains(body, "that key is not valid") != sent {
					t.Errorf("keyed %t, %q: %s", keyed, header, body)
				}
				if want == "" && resp.StatusCode != 401 || want != "" && !strings.Contains(body, want+" ") {
					t.Errorf("keyed %t, trusted %t, %q: %d %s", keyed, trust != nil, header, resp.StatusCode, body)
				}
			}
		}
	}
}

// TestKeysCannotBeChecked checks that a failing index admits no caller.
func TestKeysCannotBeChecked(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{broken: errors.New("disk I/O error")}})
	resp, body := request(t, "GET", address+"/api/v1/x", "X-API-Key: "+aliceKey, "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || strings.Contains(body, "disk") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestRefusedBeforeBody checks that a caller without a key is refused before its announced
// body.
func TestRefusedBeforeBody(t *testing.T) {
	_, address := start(t, Options{})
	answer := speak(
		t, address, "POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n",
		time.Minute)
	if !strings.HasPrefix(answer, "HTTP/1.1 401 ") || strings.Contains(answer, "still open") {
		t.Errorf("%q", answer)
	}
	answer = speak(t, address,
		"POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\nExpect: 100-continue\r\nX-API-Key: "+aliceKey+
			"\r\n\r\n", 100*time.Millisecond)
	if !strings.HasPrefix(answer, "HTTP/1.1 100 ") {
		t.Errorf("with a key: %q", answer)
	}
}

func TestHosts(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}, AllowHosts: []string{"Code.Example:8000"}})
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:1234": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]:8000": 200, "localhost.": 200,
		"code.example": 200, "code.example:9": 200,
		"attacker.test": 421, "attacker.test:8000": 421, "localhost.attacker.test": 421, "127.0.0.1.attacker.test": 421,
		"10.0.0.1": 421, "[::ffff:10.0.0.1]": 421, "code.example.attacker.test": 421, "0.0.0.0": 421, "": 421,
		"2130706433": 421,
	} {
		answer := speak(t, address, "GET /health HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n", time.Second)
		want := "HTTP/1.1 200 "
		if status != 200 {
			want = "HTTP/1.1 421 "
		}
		if !strings.HasPrefix(answer, want) {
			t.Errorf("%q: %.60q", host, answer)
		}
	}
}

// A mount whose callers prove a secret accepts any host name.
func TestAnyHost(t *testing.T) {
	open := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	_, address := start(t, Options{Engine: &fakeEngine{}, Mounts: []Mount{
		{Prefix: "/link", Handler: open, Public: true, AnyHost: true}, {Prefix: "/api/v1", Handler: open, Public: true}}})
	for path, want := range map[string]string{
		"/link": "HTTP/1.1 200 ", "/api/v1": "HTTP/1.1 421 ", "/link/x": "HTTP/1.1 421 ",
	} {
		answer := speak(t, address, "GET "+path+" HTTP/1.1\r\nHost: api1\r\nConnection: close\r\n\r\n", time.Second)
		if !strings.HasPrefix(answer, want) {
			t.Errorf("%s: %.60q", path, answer)
		}
	}
}

func TestForeignPages(t *testing.T) {
	_, address := start(t, Options{Engine: &fakeEngine{}})
	for _, c := range []struct {
		method, header string
		status         int
	}{
		{"POST", "", 200},
		{"POST", "Sec-Fetch-Site: same-origin", 200},
		{"POST", "Origin: " + address, 200},
		{"POST", "Sec-Fetch-Site: cross-site", 403},
		{"POST", "Sec-Fetch-Site: same-site", 403},
		{"POST", "Origin: http://evil.test", 403},
		{"POST", "Origin: null", 403},
		{"DELETE", "Origin: http://localhost:1", 403},
		{"GET", "Sec-Fetch-Site: cross-site", 200},
	} {
		resp, body := request(t, c.method, address+"/api/v1/x", c.header, "")
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.header, resp.StatusCode, body)
		}
		if resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
			resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", resp.Header)
		}
	}
}
