package wire_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/wire"
)

const hostile = "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" +
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nEtag: \"1\"\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n" +
	"X-Accel-Redirect: /etc/passwd\r\nX-Sendfile: /etc/passwd\r\nAccept-CH: Sec-CH-UA\r\nSet-Login: logged-in\r\n" +
	"Refresh: 0;url=//evil.test\r\nSpeculation-Rules: \"/r\"\r\nUse-As-Dictionary: match=\"/*\"\r\n" +
	"X-Frame-Options: DENY\r\nSet-Cookie: a=b\r\nClear-Site-Data: *\r\nService-Worker-Allowed: /\r\n" +
	"Access-Control-Allow-Origin: *\r\n\r\n" +
	"2\r\nhi\r\n0\r\nX-Late: 1\r\nX-Unannounced: 1\r\n\r\n"

// What a server in a sandbox says passes by an allow list, and so does what a caller says to it.
func TestPortHeaders(t *testing.T) {
	for _, c := range []struct {
		name           string
		origin, custom bool
		in, out        []string
	}{
		{"page", false, false,
			[]string{"Accept", "Accept-Encoding", "Connection", "Content-Length", "User-Agent", "X-Csrftoken"},
			[]string{"Content-Type", "Date", "Etag"}},
		{"own origin", true, true, []string{"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length",
			"Cookie", "User-Agent", "X-Csrftoken", "X-Real-Ip"},
			[]string{"Access-Control-Allow-Origin", "Content-Type", "Date", "Etag", "Set-Cookie", "X-Frame-Options"}},
	} {
		heard := make(chan []string, 1)
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				q, err := http.ReadRequest(bufio.NewReader(theirs))
				if err != nil {
					heard <- []string{err.Error()}
					return
				}
				_, _ = io.Copy(io.Discard, q.Body)
				if strings.Contains(q.Header.Get("Cookie"), "ours") {
					t.Errorf("%s: the cookie of the page goes in", c.name)
				}
				heard <- names(q.Header)
				_, _ = io.WriteString(theirs, hostile)
			}()
			to := &wire.Port{Conn: ours, Number: 80, Log: slog.New(slog.DiscardHandler), Origin: c.origin, Custom: c.custom,
				Request: func(*httputil.ProxyRequest) {}, Response: func(*http.Response) {},
				Failed: func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }}
			to.ServeHTTP(w, r)
		}))
		early := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }})
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Accept", "Authorization", "Cookie", "X-Airlock-Token", "X-Csrftoken", "X-Real-Ip"} {
			q.Header.Set(name, "v")
		}
		q.Header.Set("Cookie", "theirs=1; "+wire.HostCookie+"=ours")
		resp, err := service.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		service.Close()
		if err != nil || string(body) != "hi" || early != 0 || len(resp.Trailer) != 0 {
			t.Errorf("%s: %q %v, %d informational answers, trailers %v", c.name, body, err, early, resp.Trailer)
		}
		if diff := cmp.Diff(c.out, names(resp.Header)); diff != "" {
			t.Errorf("%s, the answer: %s", c.name, diff)
		}
		if diff := cmp.Diff(c.in, <-heard); diff != "" {
			t.Errorf("%s, the request: %s", c.name, diff)
		}
	}
}

// An answer passes that begins before the request has ended.
func TestPortAnswersEarly(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		q, err := http.ReadRequest(bufio.NewReader(theirs))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		_, _ = io.CopyN(theirs, q.Body, 5)
		_, _ = io.Copy(theirs, q.Body)
	}()
	service := httptest.NewServer(&wire.Port{Conn: ours, Number: 80, Log: slog.New(slog.DiscardHandler),
		Request: func(*httputil.ProxyRequest) {}, Response: func(*http.Response) {},
		Failed: func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }})
	defer service.Close()
	body, rest := io.Pipe()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	q.ContentLength = 10
	go func() { _, _ = io.WriteString(rest, "first") }()
	resp, err := service.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	part := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != "first" {
		t.Fatalf("%q %v", part, err)
	}
	go func() {
		_, _ = io.WriteString(rest, " then")
		rest.Close()
	}()
	if end, err := io.ReadAll(resp.Body); err != nil || string(end) != " then" {
		t.Errorf("%q %v", end, err)
	}
}

func names(h http.Header) (all []string) {
	for name := range h {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
