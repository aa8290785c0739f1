package httpd

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Peers are the other nodes that share this node's database. Only the node that holds
// something, such as a run in progress, can answer for it: a request that fails here for
// that reason (engine.Redirect) is forwarded to that node, once.
type Peers struct {
	Cluster engine.Cluster
	// Secret is known to the nodes alone, and never sent. It signs the caller of a
	// forwarded request, which need not have shown a key.
	Secret []byte
	// Now is a clock that the nodes share.
	Now func() time.Time
	// Transport sends requests to nodes; nil: New makes one.
	Transport http.RoundTripper
	// Link sends requests over links to nodes whose address has a path, that of their links.
	Link http.RoundTripper
	// Nodes returns all nodes of the cluster, for Gather; nil: it asks none.
	Nodes func() []engine.Node
}

const (
	// forwardHeader carries the signed forward of a request from a peer.
	forwardHeader = "Airlock-Forwarded"
	// forwardTime is how long a signature is valid.
	forwardTime = time.Minute
	// maxReplay bounds the part of a body that is kept in case the request is forwarded.
	maxReplay = 4 << 20
)

// forward is the signed description of a forwarded request.
type forward struct {
	To     engine.Epoch   `json:"to"`
	At     time.Time      `json:"at"`
	Method string         `json:"method"`
	Host   string         `json:"host"`
	URI    string         `json:"uri"`
	TLS    bool           `json:"tls,omitempty"`    // the visitor speaks TLS with the node that forwards
	Caller *engine.Caller `json:"caller,omitempty"` // nil: not known
	From   string         `json:"from,omitempty"`   // kind of the visitor's address
}

func (p *Peers) sign(text string) []byte {
	mac := hmac.New(sha256.New, p.Secret)
	mac.Write([]byte("forward " + text))
	return mac.Sum(nil)
}

// headerFor returns the forwardHeader of a request that is forwarded to a node.
func (p *Peers) headerFor(to engine.Epoch, r *http.Request, u *url.URL) (string, error) {
	f := &forward{To: to, At: p.Now(), Method: r.Method, Host: r.Host, URI: u.RequestURI(),
		TLS: r.TLS != nil, From: engine.From(r.Context())}
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

// transport returns the transport for an address.
func (p *Peers) transport(to *url.URL) http.RoundTripper {
	if to.Path != "" && p.Link != nil {
		return p.Link
	}
	return p.Transport
}

// verify returns the forward in a header. It returns errForged unless a peer has signed it for
// this request, and errLate unless it is for this epoch of this node, within forwardTime.
func (p *Peers) verify(r *http.Request, header string) (*forward, error) {
	text, mac, _ := strings.Cut(header, ".")
	given, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(given, p.sign(text)) {
		return nil, errForged
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	f := &forward{}
	switch {
	case err != nil, json.Unmarshal(raw, f) != nil, f.Method != r.Method, f.Host != r.Host, f.URI != r.URL.RequestURI():
		return nil, errForged
	case f.To != p.Cluster.Self() || p.Now().Sub(f.At).Abs() >= forwardTime:
		return nil, errLate
	}
	return f, nil
}

var (
	errForged = errors.New("no node of this cluster has passed that on")
	errLate   = errors.New("the node for which this was has ended, or took too long")
)

// lateHeader is in the answer to a forwarded request that came too late: nothing was done for it.
const lateHeader = "Airlock-Late"

type forwardKey struct{}

// forwardOf returns the forward of a request, or nil if no peer has forwarded it.
func forwardOf(ctx context.Context) *forward {
	f, _ := ctx.Value(forwardKey{}).(*forward)
	return f
}

// fromPeer accepts forwarded requests without further checks, which the peer has made.
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
		f, err := s.opts.Peers.verify(r, header)
		if errors.Is(err, errLate) { // it has begun anew since
			w.Header().Set(lateHeader, "1")
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusServiceUnavailable, "unavailable", errLate.Error()+": try again")
			return
		}
		if err != nil {
			refuse(w, r, http.StatusForbidden, "forbidden", err.Error())
			return
		}
		r.Header.Del(forwardHeader)
		r = r.WithContext(engine.WithFrom(context.WithValue(r.Context(), forwardKey{}, f), f.From))
		if r.TLS = nil; f.TLS { // the link's is not the visitor's
			r.TLS = &tls.ConnectionState{}
		}
		next.ServeHTTP(w, r)
	})
}

// passOn forwards requests to the node that holds what they are about.
func (s *Server) passOn(m Mount, next http.Handler) http.Handler {
	peers := s.opts.Peers
	if peers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forwardOf(r.Context()) != nil {
			next.ServeHTTP(w, r) // it is not forwarded twice
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

// send forwards a request to a peer. If the peer is declared dead meanwhile, and a repetition
// does no harm, this node answers.
func (s *Server) send(m Mount, w http.ResponseWriter, r *http.Request, holder engine.Epoch, next http.Handler) {
	peers := s.opts.Peers
	node, ok := peers.Cluster.Node(holder)
	life := peers.Cluster.Life(holder)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	body := &replay{ReadCloser: r.Body}
	silent := func(w http.ResponseWriter, _ *http.Request, err error) {
		failed, ok := errors.AsType[*net.OpError](err)
		undone := ok && failed.Op == "dial" || errors.Is(err, errLate) && body.whole.Load()
		unsent := undone && endsSoon(r.Context(), life)
		harmless := errors.Is(context.Cause(ctx), errGivenUp) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if unsent || harmless {
			next.ServeHTTP(w, withBody(r, body.again()))
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
		w.Header().Del("Connection") // the peer sets it
	}
	var cut *cutStream
	resumes := r.Method == http.MethodGet && r.Header.Get("Upgrade") == ""
	proxy := httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host = to.Scheme, to.Host
			out.Out.Host = r.Host
			out.Out.Header.Set(forwardHeader, header)
			out.Out.Header.Set(requestIDHeader, w.Header().Get(requestIDHeader))
			if proto := r.Header.Values("X-Forwarded-Proto"); len(proto) > 0 { // Rewrite takes it out
				out.Out.Header["X-Forwarded-Proto"] = proto
			}
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.Header.Get(lateHeader) != "" {
				return errLate
			}
			if resumes && strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
				cut = &cutStream{ReadCloser: answer.Body}
				answer.Body = cut
			}
			for name := range w.Header() { // the peer's value counts
				if answer.Header.Get(name) != "" {
					w.Header().Del(name)
				}
			}
			return nil
		},
		Transport:     peers.transport(to),
		FlushInterval: -1,
		ErrorHandler:  silent,
	}
	// A frozen node accepts connections, and never answers.
	defer context.AfterFunc(life, func() { cancel(errGivenUp) })()
	// The peer may answer while the transport still reads the end of the body. Without this
	// the server closes the body at the first write, and the transport then cuts the answer off.
	_ = http.NewResponseController(w).EnableFullDuplex()
	out := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out = withBody(out, body)
	} else {
		body.whole.Store(true)
	}
	proxy.ServeHTTP(w, out)
	if cut != nil && cut.broken && r.Context().Err() == nil && endsSoon(r.Context(), life) {
		r.Header.Set("Last-Event-ID", cut.last)
		next.ServeHTTP(&resumed{ResponseWriter: w}, r)
	}
}

var errGivenUp = errors.New("the node was given up")

// endsSoon waits until a node is declared dead. It reports false if ctx, or a few times engine.DeadAfter, ends before.
func endsSoon(ctx, life context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*engine.DeadAfter)
	defer cancel()
	select {
	case <-life.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// newTransport returns a transport for peers in the same network.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableCompression, t.MaxIdleConnsPerHost = nil, true, 64
	return t
}

// replay keeps the part of a body that was read.
type replay struct {
	io.ReadCloser
	seen    []byte
	dropped bool        // seen was over maxReplay, or is not needed any more
	whole   atomic.Bool // seen is all of the body
}

func (b *replay) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.dropped {
		b.seen = append(b.seen, p[:n]...)
		if len(b.seen) > maxReplay {
			b.forget()
		}
	}
	if err == io.EOF && !b.dropped {
		b.whole.Store(true)
	}
	return n, err
}

// Close leaves the rest of the body, which a forwarded request needs.
func (b *replay) Close() error { return nil }

func (b *replay) forget() { b.seen, b.dropped = nil, true }

// again returns the body from its beginning.
func (b *replay) again() io.ReadCloser {
	if b.ReadCloser == nil || b.ReadCloser == http.NoBody {
		return b.ReadCloser
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.seen), b.ReadCloser))
}

// heldResponse withholds an error answer if another node can answer.
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
	if !w.begun && status >= 400 && w.redirect.To() != 0 && !w.body.dropped {
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

// ReadFrom lets http.ServeContent use sendfile.
func (w *heldResponse) ReadFrom(src io.Reader) (int64, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return io.Copy(w.ResponseWriter, src)
}

// restore undoes the header fields of the withheld answer.
func (w *heldResponse) restore() {
	clear(w.Header())
	maps.Copy(w.Header(), w.before)
}
