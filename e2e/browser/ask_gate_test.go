package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// gate passes requests on to a server, and holds the body of one of them up in
// the middle until it is told to go on: so that what a page shows of something
// that takes long can be looked at.
type gate struct {
	url string

	mu    sync.Mutex
	holds []*hold
}

// hold is for one body: what a path with this end is sent, or answers.
type hold struct {
	method, suffix string
	after          int64
	taken          bool
	more           chan int64 // so many further bytes; closed: all
	once           sync.Once
}

func (h *hold) release() { h.once.Do(func() { close(h.more) }) }

// step lets a little more of the body through.
func (h *hold) step() {
	select {
	case h.more <- 256 << 10:
	default: // what it was given before is under way
	}
}

// answersEarly lets a proxy pass on an answer before its transport has read the end of the request: on a busy machine
// the server would close the body first, and the transport then cut the answer off.
func answersEarly(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.Request.Method == http.MethodGet {
				answer.Body = g.slow(answer.Request, answer.Body)
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Body = g.slow(r, r.Body)
		}
		answersEarly(proxy).ServeHTTP(w, r)
	}))
	g.url = server.URL
	t.Cleanup(func() {
		g.mu.Lock()
		for _, h := range g.holds {
			h.release()
		}
		g.mu.Unlock()
		server.CloseClientConnections()
		server.Close()
	})
	return g
}

// hold holds the next such body up after so many bytes.
func (g *gate) hold(method, suffix string, after int64) *hold {
	h := &hold{method: method, suffix: suffix, after: after, more: make(chan int64, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = append(g.holds, h)
	return h
}

func (g *gate) slow(r *http.Request, body io.ReadCloser) io.ReadCloser {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		if !h.taken && h.method == r.Method && strings.HasSuffix(r.URL.Path, h.suffix) {
			h.taken = true
			return &heldBody{body, h, h.after}
		}
	}
	return body
}

type heldBody struct {
	io.ReadCloser
	hold *hold
	left int64
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		more, held := <-b.hold.more
		if !held {
			return b.ReadCloser.Read(p)
		}
		b.left = more
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
