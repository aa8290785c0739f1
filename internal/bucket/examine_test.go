package bucket

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// between returns the address of a bucket behind a proxy that refuses a method, and that
// has another time.
func between(t *testing.T, p *place, refused string, ahead time.Duration) Address {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: p.server.Address})
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == refused && (refused != "GET" || strings.Contains(r.URL.Path, "probe")) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a, err := ParseAddress("s3://" + p.bucket + "/a/b?region=us-east-1&endpoint=" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestExamine(t *testing.T) {
	p := newPlace(t)
	for name, test := range map[string]struct {
		address Address
		state   engine.LayerState
		says    string
		clock   engine.LayerState
	}{
		"as it should be": {between(t, p, "", 0), engine.LayerEnforced, "put, read, listed", engine.LayerEnforced},
		"no put":          {between(t, p, "PUT", 0), engine.LayerMissing, "s3:PutObject", ""},
		"no get":          {between(t, p, "GET", 0), engine.LayerMissing, "s3:GetObject", engine.LayerEnforced},
		"no delete":       {between(t, p, "DELETE", 0), engine.LayerMissing, "s3:DeleteObject", engine.LayerEnforced},
		"a wrong clock":   {between(t, p, "", time.Hour), engine.LayerEnforced, "put", engine.LayerWeaker},
		"no bucket": {Address{Bucket: "nothing", Endpoint: p.server.Address, Region: "us-east-1", Path: true},
			engine.LayerMissing, "s3:PutObject", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := Examine(t.Context(), test.address)
			if found[0].State != test.state || !strings.Contains(found[0].Detail, test.says) {
				t.Errorf("%+v", found)
			}
			if last := found[len(found)-1]; test.clock != "" && (last.Name != "bucket clock" || last.State != test.clock) {
				t.Errorf("%+v", found)
			}
			if name == "no bucket" && !strings.Contains(found[0].Cure, "no such bucket") {
				t.Errorf("%+v", found)
			}
		})
	}
	if left := p.objects(); len(left) > 1 { // of the client that may not delete
		t.Errorf("it left %v", left)
	}
}
