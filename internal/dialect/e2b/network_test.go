package e2b

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The rules of a network are secrets of the session: no answer has their values.
func TestNetworkRules(t *testing.T) {
	h, f := newHandler(t, "")
	made := create(t, h, `{"templateID":"base","network":{"rules":{"b.test":[{"transform":{"headers":{"X-Key":"value-of-b"}}}],
		"a.test":[{},{"transform":{"headers":{"Authorization":"Bearer of-a","Accept":"text/html"}}}]}}}`)
	for i, want := range []string{"a.test Accept: {} text/html", "a.test Authorization: {} Bearer of-a",
		"b.test X-Key: {} value-of-b"} {
		if len(f.created.Secrets) != 3 {
			t.Fatalf("%d secrets", len(f.created.Secrets))
		}
		s := f.created.Secrets[i]
		if got := strings.Join(s.Hosts, ",") + " " + s.Header + " " + s.Value.Reveal(); got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
	if w := ask(h, "GET", "/sandboxes/"+made.SandboxID, ""); strings.Contains(w.Body.String(), "of-a") {
		t.Errorf("%s", w.Body)
	}
	for _, network := range []string{`{"rules":{"a.test":[{"transform":{"headers":{"A":"Bearer ${e2b.secrets.key}"}}}]}}`,
		`{"egressProxy":{"address":"x:1"}}`, `{"dnsServers":["1.1.1.1"]}`, `{"httpsPorts":[0]}`, `{"httpsPorts":[65536]}`,
		`{"httpsPorts":[49983]}`, `{"rules":7}`} {
		if w := ask(h, "POST", "/v2/sandboxes", `{"templateID":"base","network":`+network+`}`); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", network, w.Code)
		}
	}
}

// A server that speaks TLS is reached at a port that was named so, and at no other.
func TestHTTPSPorts(t *testing.T) {
	h, _ := newHandler(t, "")
	inside := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "by TLS")
	}))
	defer inside.Close()
	h.Live = &portLive{address: inside.Listener.Addr().String()}
	made := create(t, h, `{"templateID":"base","network":{"httpsPorts":[8443]}}`)
	for port, want := range map[string]int{"8443": http.StatusOK, "8000": http.StatusBadRequest} {
		w := ask(h, "GET", "/", "", "E2b-Sandbox-Id", made.SandboxID, "E2b-Sandbox-Port", port)
		if w.Code != want || (w.Body.String() == "by TLS") != (want == http.StatusOK) {
			t.Errorf("%s: %d %s", port, w.Code, w.Body)
		}
	}
	var info detailBody
	w := ask(h, "GET", "/sandboxes/"+made.SandboxID, "")
	if err := json.Unmarshal(w.Body.Bytes(), &info); err != nil || len(info.Network.HTTPSPorts) != 1 ||
		!info.Network.AllowPublicTraffic {
		t.Errorf("%s", w.Body)
	}
}
