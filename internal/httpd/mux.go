// Package httpd is the HTTP server in front of the dialects: it accepts connections,
// authenticates callers, refuses what must not come in, and passes the rest to the dialect
// of the caller's protocol.
//
// It knows no protocol but HTTP. The dialects are Mounts, each a plain http.Handler under a
// prefix. The method handler in this file lists all middleware before them. From the outside
// in, a request passes
//
//	gate            notes that a connection's request is served  gate.go
//	request id      sets X-Request-Id on every answer        requestid.go
//	metrics         counts by route, never by address        metrics.go
//	audit           logs caller, route and status            audit.go
//	sending         sends an answer before it is counted     response.go
//	recovery        turns a panic into an opaque 500         recover.go
//	progress        cuts idle bodies and idle readers        progress.go
//	peer            trusts requests that a node has checked  forward.go
//	host            answers 421 to unknown host names        host.go
//	path            refuses unclean paths, keys in queries   path.go
//	origin          refuses changes from foreign pages       origin.go
//	caller          authenticates, or answers 401            auth.go
//	rate            answers 429 to too many requests         rate.go
//	holder          forwards to the node that holds it       forward.go
//	body            bounds the body                          body.go
//
// and reaches the mount with its prefix removed.
package httpd

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Engine is the part of the engine that the server needs.
type Engine interface {
	// Authenticate returns the caller of a token, or ErrUnauthorized.
	Authenticate(ctx context.Context, token string) (engine.Caller, error)
	// Ready returns nil when runs are accepted.
	Ready(ctx context.Context) error
	// Isolation returns the layers between a program and this host.
	Isolation(ctx context.Context) (engine.Isolation, error)
	// Pools returns the pools of warm sandboxes.
	Pools(ctx context.Context) ([]engine.Pool, error)
	// Count counts what was sent to a caller.
	Count(caller engine.Caller, used engine.Consumption)
	// NeedsKey reports whether callers on loopback need a key, too.
	NeedsKey(ctx context.Context) (bool, error)
	// Stats returns the current counters.
	Stats() engine.Stats
}

// Mount is one dialect with its address.
type Mount struct {
	Prefix  string // "/api/v1", without a slash at the end; "/": the root, which takes /health and /ready with it
	Handler http.Handler
	// End ends answers that stream until the client disconnects, when the server shuts down;
	// nil: there are none.
	End func()

	// Public admits all callers: the handler answers health checks, or authenticates
	// itself. A known caller is still in the context.
	Public bool
	// AnyHost admits requests to any host name: callers prove a secret that no page in a
	// browser has.
	AnyHost bool
	// Trusted admits callers from Options.TrustNetworks without a key.
	Trusted bool
	// Access reports which callers may make a request, its prefix removed,
	// without a key: those from Options.TrustNetworks, or all. It is for a
	// dialect whose routes differ in that; if it is nil, Trusted and Public decide.
	Access func(r *http.Request) (network, everyone bool)
	// Keyed says that the dialect has keys of its own, besides the engine's:
	// callers on loopback need a key too, unless loopback is a trusted network.
	Keyed bool
	// Lenient ignores an unknown key where no key is needed, for clients that
	// cannot send requests without one. Authenticate returns ErrForbidden for
	// keys that must be refused nevertheless.
	Lenient bool
	// QueryKey is the name of the parameter of the query in which a client may show
	// its key, for clients that cannot send headers; empty: keys in a query are refused.
	QueryKey string
	// Open lists paths below Prefix, such as "/health", that are Public in a
	// mount that otherwise is not.
	Open []string

	// AnyOrigin are patterns of net/http, in the paths of the handler, whose
	// requests a page of another site may make: the handler looks at the origin.
	AnyOrigin []string

	// AtRoot are patterns of net/http, in the paths of the handler, that the mount
	// answers without its prefix too, unless a mount has the root: clients are
	// often given the address of the service and nothing more. Where several
	// mounts have one pattern, their claims decide; nil claims every request.
	AtRoot map[string]Claim

	// Hosts reports whether a request that calls this service by a host name, without
	// a port and in lower case, is for the mount, which then has no prefix; nil: none
	// is. Such a name need not be among Options.AllowHosts.
	Hosts func(host string) bool

	// Compressed reports whether a request's body may be compressed, because the handler
	// bounds its decompressed size; nil: none may.
	Compressed func(r *http.Request) bool

	// MaxBody bounds a request's body in bytes; 0: Options.MaxUpload and room
	// for the multipart framing around it.
	MaxBody int64
	// Authenticate replaces the engine's, for a dialect with tokens of its
	// own; nil: the engine's.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)
	// Identity accepts tokens of an identity provider beside keys, and tells clients
	// where to get one; nil: there are only keys.
	Identity *Identity
	// SignedIn returns the caller that the mount has signed in by itself, such as with a
	// cookie; nil: it signs in none. A key in the request takes precedence.
	SignedIn func(r *http.Request) (engine.Caller, bool)
	// Holder returns the node that a request is for, or zero if the request does not tell;
	// nil: it never does. If the engine names a node later, the request is forwarded too,
	// provided that the handler answers with an error status.
	Holder func(r *http.Request) engine.Epoch
	// Refuse writes an error in the dialect's own format; nil: in that of the native
	// API. It must keep the status, and headers such as Retry-After.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, code, message string)
}

// Claim reports whether a request comes from a client of a mount.
type Claim = func(r *http.Request) bool

// Options set up a Server. Only Listen and Engine are required.
type Options struct {
	Listen        []net.Listener // TCP and unix; the server closes them
	Engine        Engine
	Mounts        []Mount
	Home          string         // "/" redirects there, unless a mount has it; empty: it does not
	TrustNetworks []netip.Prefix // callers from there need no key on Trusted mounts
	Proxy         *Proxy         // signs people in on mounts with SignedIn; nil: none does
	AllowHosts    []string       // names by which the service may be called, besides loopback and its own address
	MaxUpload     int64          // bytes; 0: 200 MiB
	MaxConns      int            // connections at once; 0: 4096. One owner, or one address without a key, has a quarter
	Rate          float64        // requests a second for one caller, twice as many in a burst; 0: 200
	Metrics       *Metrics       // nil: one is made
	MetricsToken  string         // allows to read the metrics, and nothing else; empty: there is none
	Log           *slog.Logger   // nil: nothing is logged
	Version       string
	Trace         func(http.Handler) http.Handler // makes a span of each request; nil: there are none
	Peers         *Peers                          // nil: there are none
	Timeouts      Timeouts                        // zero fields: 5 s, 10 s, 30 s, 120 s
}

// Timeouts bound how long the server waits for a client. A slow client that makes
// progress is never cut.
type Timeouts struct {
	Header    time.Duration // until the request's header is complete
	BodyIdle  time.Duration // between two reads of a body
	WriteIdle time.Duration // between two writes of an answer
	KeepAlive time.Duration // between two requests
}

const (
	maxHeader     = 64 << 10
	multipartRoom = 1 << 20 // framing and small fields around one uploaded file
)

func (o *Options) fill() {
	o.MaxUpload = cmp.Or(o.MaxUpload, 200<<20)
	o.MaxConns = cmp.Or(o.MaxConns, 4096)
	o.Rate = cmp.Or(o.Rate, 200)
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, 5*time.Second)
	o.Timeouts.BodyIdle = cmp.Or(o.Timeouts.BodyIdle, 10*time.Second)
	o.Timeouts.WriteIdle = cmp.Or(o.Timeouts.WriteIdle, 30*time.Second)
	o.Timeouts.KeepAlive = cmp.Or(o.Timeouts.KeepAlive, 120*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Peers != nil && o.Peers.Transport == nil {
		o.Peers.Transport = newTransport()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(o.Engine)
	}
}

// handler returns the handler of all that is served.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	limit := newRateLimit(s.opts.Rate, s.opts.MaxConns/4)
	rootTaken := false
	door := func(m Mount) http.Handler {
		m.MaxBody = cmp.Or(m.MaxBody, s.opts.MaxUpload+multipartRoom)
		h := s.passOn(m, limitBody(m, strip(m.Prefix, m.Handler)))
		h = limit.rate(m, h)
		return s.authenticate(m, h)
	}
	for _, m := range s.opts.Mounts {
		h := door(m)
		if m.Prefix == "/" {
			mux.Handle("/", h)
			rootTaken = true
			continue
		}
		mux.Handle(m.Prefix, h)
		mux.Handle(m.Prefix+"/", h)
	}

	mux.HandleFunc("GET /api/v1/health", s.health)
	mux.HandleFunc("GET /api/v1/ready", s.ready)
	// Where a dialect has the root, a Prometheus in a trusted network needs no key.
	mux.Handle("GET /metrics", s.scraper(s.metrics(), s.authenticate(Mount{Trusted: rootTaken}, s.metrics())))
	if !rootTaken {
		s.openRoot(mux, door)
	}

	h := refuseForeignOrigin(s.opts.Mounts, s.byHost(door, mux))
	h = s.cleanPath(h)
	h = s.checkHost(h)
	h = s.fromPeer(h)
	h = progress(s.opts.Timeouts, h)
	h = s.recovery(h)
	h = sendFirst(h)
	h = s.audit(h)
	h = s.opts.Metrics.count(h)
	h = requestID(h)
	if s.opts.Trace != nil {
		h = s.opts.Trace(h)
	}
	return s.gate.serve(s.noteUse(h))
}

// strip removes a mount's prefix, and records which route of the mount answered.
func strip(prefix string, h http.Handler) http.Handler {
	prefix = strings.TrimSuffix(prefix, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := below(prefix, r)
		defer func() { setRoute(w, prefix, inner.Pattern) }()
		h.ServeHTTP(w, inner)
	})
}

// below returns a request as the mount sees it: without the mount's prefix.
func below(prefix string, r *http.Request) *http.Request {
	prefix = strings.TrimSuffix(prefix, "/")
	inner, address := *r, *r.URL
	address.Path = cmp.Or(strings.TrimPrefix(r.URL.Path, prefix), "/")
	address.RawPath = strings.TrimPrefix(r.URL.RawPath, prefix)
	inner.URL, inner.Pattern = &address, ""
	return &inner
}
