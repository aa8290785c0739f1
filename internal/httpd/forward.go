package httpd

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Peers are the other nodes that share this one's database. What one of them has, such
// as a run that goes on, only it can answer for: a request that fails here because of
// that (engine.Redirect) is passed on to that node, once.
type Peers struct {
	Cluster engine.Cluster
	// Secret is what all nodes have, and nobody else. It never leaves them: it signs who
	// the caller is, for a key need not have been shown.
	Secret []byte
	// Now is a clock that all nodes have.
	Now func() time.Time
	// Transport takes requests to nodes; nil: one is made.
	Transport http.RoundTripper
	// Link takes them, encrypted, to nodes whose address has a path: there they take links.
	Link http.RoundTripper
	// Nodes are all of the cluster, for Gather; nil: it asks nobody.
	Nodes func() []engine.Node
}

const (
	// forwardHeader says, signed, that a request was passed on by a peer, and for whom.
	forwardHeader = "Airlock-Forwarded"
	// forwardTime is for how long a signature is good.
	forwardTime = time.Minute
	// maxReplay is how much of a body is kept for the case that the request has to be
	// passed on.
	maxReplay = 4 << 20
)

// forward is what a peer signs.
type forward struct {
	To     engine.Epoch   `json:"to"`
	At     time.Time      `json:"at"`
	Method string         `json:"method"`
	Host   string         `json:"host"`
	URI    string         `json:"uri"`
	Caller *engine.Caller `json:"caller,omitempty"` // nil: not known
}

func (p *Peers) sign(text string) []byte {
	mac := hmac.New(sha256.New, p.Secret)
	mac.Write([]byte("forward " + text))
	return mac.Sum(nil)
}

// headerFor signs for a node that a request for a URL comes from here.
func (p *Peers) headerFor(to engine.Epoch, r *http.Request, u *url.URL) (string, error) {
	f := &forward{To: to, At: p.Now(), Method: r.Method, Host: r.Host, URI: u.RequestURI()}
	if caller, known := CallerFrom(r.Context()); known {
		f.Caller = &caller
	}
	return p.header(f)
}

func (p *Peers) header(f *forward) (string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text + "." + base64.RawURLEncoding.EncodeToString(p.sign(text)), nil
}

// way is how requests come to an address.
func (p *Peers) way(to *url.URL) http.RoundTripper {
	if to.Path != "" && p.Link != nil {
		return p.Link
	}
	return p.Transport
}

// verify returns what a peer has signed for this request, for this life of this node, just
// now.
func (p *Peers) verify(r *http.Request, header string) (*forward, bool) {
	text, mac, _ := strings.Cut(header, ".")
	given, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(given, p.sign(text)) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	f := &forward{}
	if err != nil || json.Unmarshal(raw, f) != nil {
		return nil, false
	}
	return f, f.To == p.Cluster.Self() && f.Method == r.Method && f.Host == r.Host && f.URI == r.URL.RequestURI() &&
		p.Now().Sub(f.At).Abs() < forwardTime
}

type forwardKey struct{}

// forwardOf returns what a peer said of a request that it passed on, else nil.
func forwardOf(ctx context.Context) *forward {
	f, _ := ctx.Value(forwardKey{}).(*forward)
	return f
}

// fromPeer takes requests that a peer has passed on for what they are: it has checked
// them.
func (s *Server) fromPeer(next http.Handler) http.Handler {
	if s.opts.Peers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get(forwardHeader)
		if header == "" {
			next.ServeHTTP(w, r)
			return
		}
		f, ok := s.opts.Peers.verify(r, header)
		if !ok {
			refuse(w, r, http.StatusForbidden, "forbidden", "no node of this cluster has passed that on")
			return
		}
		r.Header.Del(forwardHeader)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardKey{}, f)))
	})
}

// passOn passes requests on to the node that has what they are about.
func (s *Server) passOn(m Mount, next http.Handler) http.Handler {
	peers := s.opts.Peers
	if peers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forwardOf(r.Context()) != nil {
			next.ServeHTTP(w, r) // it is not passed on twice
			return
		}
		if m.Holder != nil {
			holder := m.Holder(below(m.Prefix, r))
			if _, alive := peers.Cluster.Node(holder); alive && holder != peers.Cluster.Self() {
				s.send(m, w, r, holder, next)
				return
			}
		}
		ctx, redirect := engine.WithRedirect(r.Context())
		body := &replay{ReadCloser: r.Body}
		held := &heldResponse{ResponseWriter: w, redirect: redirect, body: body, before: w.Header().Clone()}
		inner := withBody(r.WithContext(ctx), body)
		if r.Body == nil || r.Body == http.NoBody {
			inner.Body = r.Body
		}
		next.ServeHTTP(held, inner)
		if held.dropped {
			held.restore()
			s.send(m, w, withBody(r, body.again()), redirect.To(), next)
		}
	})
}

// send has a peer answer a request. If that is gone, it is tried here again once it was
// given up.
func (s *Server) send(m Mount, w http.ResponseWriter, r *http.Request, holder engine.Epoch, next http.Handler) {
	peers := s.opts.Peers
	node, ok := peers.Cluster.Node(holder)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	silent := func(w http.ResponseWriter, _ *http.Request, err error) {
		failed, ok := errors.AsType[*net.OpError](err)
		unsent := ok && failed.Op == "dial" && s.awaitDeathBriefly(r.Context(), holder)
		harmless := errors.Is(context.Cause(ctx), errGivenUp) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if unsent || harmless {
			next.ServeHTTP(w, r)
			return
		}
		s.opts.Log.WarnContext(r.Context(), "a node does not answer a request that was passed on", "node", node.Name,
			"address", node.Address, "err", err)
		w.Header().Set("Retry-After", "3")
		m.refuse(w, r, http.StatusServiceUnavailable, "unavailable",
			"the node that has it does not answer; if it is gone, what can be saved is taken over within seconds: try again")
	}
	to, err := url.Parse(node.Address)
	if !ok || err != nil {
		silent(w, r, err)
		return
	}
	header, err := peers.headerFor(holder, r, r.URL)
	if err != nil {
		silent(w, r, err)
		return
	}
	if r.Header.Get("Upgrade") != "" {
		w.Header().Del("Connection") // the peer says it
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host = to.Scheme, to.Host
			out.Out.Host = r.Host
			out.Out.Header.Set(forwardHeader, header)
			out.Out.Header.Set(requestIDHeader, w.Header().Get(requestIDHeader))
		},
		ModifyResponse: func(answer *http.Response) error {
			for name := range w.Header() { // both set them
				if answer.Header.Get(name) != "" {
					w.Header().Del(name)
				}
			}
			return nil
		},
		Transport:     peers.way(to),
		FlushInterval: -1,
		ErrorHandler:  silent,
	}
	go func() { // a node that is frozen takes connections, and never answers
		if s.awaitDeath(ctx, holder) {
			cancel(errGivenUp)
		}
	}()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

var errGivenUp = errors.New("the node was given up")

// awaitDeath waits until a node is given up, and reports whether it is.
func (s *Server) awaitDeath(ctx context.Context, holder engine.Epoch) bool {
	look := time.NewTicker(engine.BeatInterval / 10)
	defer look.Stop()
	for {
		if _, alive := s.opts.Peers.Cluster.Node(holder); !alive {
			return true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitDeathBriefly is awaitDeath for not much longer than that takes.
func (s *Server) awaitDeathBriefly(ctx context.Context, holder engine.Epoch) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*engine.DeadAfter)
	defer cancel()
	return s.awaitDeath(ctx, holder)
}

// newTransport takes requests to peers, which are near.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableCompression, t.MaxIdleConnsPerHost = nil, true, 64
	return t
}

// replay remembers what was read of a body.
type replay struct {
	io.ReadCloser
	seen    []byte
	dropped bool // it was too much, or is not needed any more
}

func (b *replay) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.dropped {
		b.seen = append(b.seen, p[:n]...)
		if len(b.seen) > maxReplay {
			b.forget()
		}
	}
	return n, err
}

// Close leaves the rest of the body: it may be needed.
func (b *replay) Close() error { return nil }

func (b *replay) forget() { b.seen, b.dropped = nil, true }

// again returns the body from its beginning.
func (b *replay) again() io.ReadCloser {
	if b.ReadCloser == nil || b.ReadCloser == http.NoBody {
		return b.ReadCloser
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.seen), b.ReadCloser))
}

// heldResponse keeps an error back that only says that another node has it.
type heldResponse struct {
	http.ResponseWriter
	redirect *engine.Redirect
	body     *replay
	before   http.Header
	begun    bool
	dropped  bool
}

func (w *heldResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *heldResponse) WriteHeader(status int) {
	if w.dropped {
		return
	}
	if !w.begun && status >= 400 && w.redirect.To() != 0 && (!w.body.dropped) {
		w.dropped = true
		return
	}
	if status >= 200 {
		w.begun = true
		w.body.forget()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *heldResponse) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.dropped {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// FlushError implements what http.ResponseController asks for.
func (w *heldResponse) FlushError() error {
	if w.dropped {
		return nil
	}
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is for callers that ask for an http.Flusher.
func (w *heldResponse) Flush() { _ = w.FlushError() }

// ReadFrom keeps the kernel's sendfile within reach.
func (w *heldResponse) ReadFrom(src io.Reader) (int64, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return io.Copy(w.ResponseWriter, src)
}

// restore undoes what the discarded response has set.
func (w *heldResponse) restore() {
	h := w.Header()
	clear(h)
	for name, values := range w.before {
		h[name] = values
	}
}
