package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// secretName is a host of the tests, in the hosts file of a service's own file system.
const secretName = "api.airlock.test"

// certificate makes a certificate for a name, which is its own authority.
func certificate(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames:  []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

const inspected = `cat >ask.js <<'END'
const http = require("http"), tls = require("tls");
const proxy = new URL(process.env.https_proxy);
http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: "api.airlock.test:443"})
  .on("connect", (_, socket) => {
    const c = tls.connect({socket, servername: "api.airlock.test"},
      () => c.write("GET /v1/node HTTP/1.1\r\nHost: api.airlock.test\r\nConnection: close\r\n\r\n"));
    c.on("error", e => console.log("node", e.code));
    let text = "";
    c.on("data", d => { text += d; });
    c.on("end", () => process.stdout.write("node " + text.split("\r\n\r\n")[1]));
  }).end();
END
curl -sS https://api.airlock.test/v1/curl
curl -sS -o refused.txt -w 'refused %{http_code}\n' https://api.airlock.test/v2/curl
curl -sS --socks5-hostname 127.0.0.1:3128 https://api.airlock.test/v1/socks
curl -sS -H 'X-Secret: mine' https://api.airlock.test/v1/own
python3 -c 'import requests; print(requests.get("https://api.airlock.test/v1/requests").text, end="")'
node ask.js
env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS https://api.airlock.test/v1/untrusted 2>&1 |
  grep -o "certificate problem"
env | grep -c hunter2
`

// What is inside of TLS is inspected for a rule with a path: curl, Python's requests and Node trust
// the authority of their run, a header is added that they never see, and other paths are refused.
func TestNetworkInspect(t *testing.T) {
	needPackages(t)
	p := indextest.Elsewhere(t, skip)
	who := root(t)
	s := inspecting(t, who, p, dataWithPackages(t, who), func(w http.ResponseWriter, r *http.Request) {
		// The length of the secret says that it came.
		fmt.Fprintf(w, "%s %s %d\n", r.Host, r.URL.Path, len(r.Header.Get("X-Secret")))
	}, []string{"AIRLOCK_NETWORK_INJECT=" + secretName + " X-Secret: hunter2"}, "https://"+secretName+"/v1/*")

	body := map[string]any{"language": "bash", "code": inspected, "timeout_ms": 120_000,
		"network": map[string]any{"allow": []string{"https://" + secretName + "/v1/*"}}}
	r := s.execute(body)
	want := strings.ReplaceAll(`HOST /v1/curl 7
refused 403
HOST /v1/socks 7
HOST /v1/own 7
HOST /v1/requests 7
node HOST /v1/node 7
certificate problem
0
`, "HOST", secretName)
	if r.Stdout != want {
		t.Errorf("%s\n%s\nwant %s", r.Stdout, r.Stderr, want)
	}
	list := s.netLog()
	if count(list, "allowed", secretName) == 0 || count(list, "refused", secretName) != 1 {
		t.Errorf("%+v", list)
	}
	// Without inspection such a rule is refused, and not widened.
	plain := serveWith(t, who, dataFolder(t, who), nil, "--network-allow", secretName)
	got := plain.do("POST", "/api/v1/runs",
		`{"language":"bash","code":"true","network":{"allow":["https://`+secretName+`/v1/*"]}}`)
	if got.status != http.StatusForbidden || !strings.Contains(string(got.body), "network_inspect") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// inspecting starts a service that inspects TLS, and a server with the secret name.
func inspecting(
	t *testing.T, who person, p *indextest.Place, data string, handler http.HandlerFunc, env []string, allow string,
) *service {
	t.Helper()
	serving := who.command(t, env, "serve",
		"--data", data,
		"--listen", "127.0.0.1:0", "--network-allow", allow, "--network-inspect",
		"--network-private", p.Subnet)
	serveSecretName(t, p, handler)(serving)
	return launch(t, who, data, serving)
}

// serveSecretName starts a server at secretName. What it returns lets a service find and trust that one.
func serveSecretName(t *testing.T, p *indextest.Place, handler http.HandlerFunc) (find func(serving *exec.Cmd)) {
	t.Helper()
	own, bundle := certificate(t, secretName)
	server := &http.Server{ReadHeaderTimeout: waitTime, Handler: handler}
	l := tls.NewListener(p.Listen(t, "443"), &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })

	// The service has a hosts file and authorities of its own, in a mount namespace.
	files := folder(t, nil)
	for name, text := range map[string]string{"hosts": "127.0.0.1 localhost\n" + p.Address + " " + secretName + "\n",
		"bundle": string(bundle)} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(serving *exec.Cmd) {
		serving.Args = append([]string{"unshare", "--mount", "/bin/sh", "-c", `mount --bind "$0/hosts" /etc/hosts &&
		mount --bind "$0/bundle" /etc/ssl/certs/ca-certificates.crt && exec "$@"`, files, binary}, serving.Args[1:]...)
		serving.Path = "/usr/bin/unshare"
	}
}
