// Package httpd is the front door: it takes connections, finds out who is
// calling, refuses what must not come in, and hands the rest to the dialect
// that speaks the caller's protocol.
//
// It knows no protocol but HTTP. The dialects are handed in as Mounts, each a
// plain http.Handler under a prefix, and this file shows all of what stands
// before them. From the outside in, a request passes
//
//	request id      every answer carries X-Request-Id        requestid.go
//	metrics         counted by route, never by address       metrics.go
//	audit           who asked for what                       audit.go
//	sending         an answer leaves before it is counted    response.go
//	recovery        a panic becomes an opaque 500            recover.go
//	progress        idle bodies and idle readers are cut     progress.go
//	peer            what another node has checked before      forward.go
//	host            a name that is not ours gets 421         host.go
//	path            only clean paths, no key in the query    path.go
//	origin          no state change from a foreign page      origin.go
//	caller          who is it? else 401, body unread         auth.go
//	rate            429 for who asks too often or too much   rate.go
//	holder          what another node has, it answers         forward.go
//	body            no more bytes than the mount takes       body.go
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

// Engine is what the front door asks of the core.
type Engine interface {
	// Authenticate returns who holds the token, ErrUnauthorized for nobody.
	Authenticate(ctx context.Context, token string) (engine.Caller, error)
	// Ready returns nil when runs are accepted.
	Ready(ctx context.Context) error
	// Isolation says what stands between a program and this host.
	Isolation(ctx context.Context) (engine.Isolation, error)
	// Stats returns the counters of the moment. Its HasKeys closes the door
	// that is open on loopback while there are no keys.
	Stats() engine.Stats
}

// Mount is one dialect and where it lives.
type Mount struct {
	Prefix  string // "/api/v1", without a slash at the end; "/": the root, which takes /health and /ready with it
	Handler http.Handler

	// Public lets everybody in: the handler answers health checks or asks
	// for a key itself. A caller that is known is still in the context.
	Public bool
	// AnyHost lets callers in by any name of this host: they prove a secret that no page of a
	// browser has.
	AnyHost bool
	// Trusted lets callers from Options.TrustNetworks in without a key.
	Trusted bool
	// Access reports which callers may make a request, its prefix removed,
	// without a key: those from Options.TrustNetworks, or all. It is for a
	// dialect whose routes differ in that; nil: Trusted and Public tell.
	Access func(r *http.Request) (network, everyone bool)
	// Keyed says that the dialect has keys of its own, besides the engine's:
	// nobody comes in from loopback without one, unless that is trusted.
	Keyed bool
	// Lenient takes a key that nobody knows for none where none is needed:
	// for clients that cannot do without one. Authenticate refuses what must
	// not pass as ErrForbidden.
	Lenient bool
	// QueryKey is the name of the parameter of the query in which a client may show
	// its key, for clients that cannot do otherwise; empty: keys in a query are refused.
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

	// Compressed reports whether a request's body may be compressed, for the handler
	// bounds what becomes of it; nil: none may.
	Compressed func(r *http.Request) bool

	// MaxBody bounds a request's body in bytes; 0: Options.MaxUpload and room
	// for the multipart framing around it.
	MaxBody int64
	// Authenticate replaces the engine's, for a dialect with tokens of its
	// own; nil: the engine's.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)
	// Identity takes tokens of an identity provider beside keys, and its clients are
	// told where to get one; nil: there are only keys.
	Identity *Identity
	// SignedIn returns who signed in to the mount in a way of its own, such as a
	// cookie; nil: there is none. A key that is shown goes before it.
	SignedIn func(r *http.Request) (engine.Caller, bool)
	// Holder returns the node that a request is for, as far as that shows in it; zero: it
	// does not. Nil: it never does. What the engine finds out later is passed on, too, if
	// the handler then answers with an error status.
	Holder func(r *http.Request) engine.Epoch
	// Refuse writes a refusal in the dialect's own words; nil: as the native
	// API does. Status and headers such as Retry-After are to be kept.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, code, message string)
}

// Claim reports whether a request is one of a mount's clients'.
type Claim = func(r *http.Request) bool

// Options are what New needs. Only Listen and Engine are required.
type Options struct {
	Listen        []net.Listener // TCP and unix; the server closes them
	Engine        Engine
	Mounts        []Mount
	Home          string         // where a visitor of "/" is sent, unless a mount has it; empty: nowhere
	TrustNetworks []netip.Prefix // callers from there need no key on Trusted mounts
	AllowHosts    []string       // names by which the service may be called, besides loopback and its own address
	MaxUpload     int64          // bytes; 0: 200 MiB
	MaxConns      int            // connections at once; 0: 4096. One caller that shows a key has a quarter of them
	Rate          float64        // requests a second for one caller, twice as many in a burst; 0: 200
	Metrics       *Metrics       // nil: one is made
	MetricsToken  string         // with it they can be read, and nothing else; empty: there is none
	Log           *slog.Logger   // nil: nothing is logged
	Version       string
	Peers         *Peers   // nil: there are none
	Timeouts      Timeouts // zero fields: 5 s, 10 s, 30 s, 120 s
}

// Timeouts bound how long a peer may keep us waiting. A slow peer that makes
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

// handler builds everything that is served.
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
	// Where a dialect has the root, its operator's Prometheus may be one of
	// those that need no key.
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
	return requestID(h)
}

// strip removes a mount's prefix and tells the metrics which route of the
// mount answered.
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
