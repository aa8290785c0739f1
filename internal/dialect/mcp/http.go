package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	stateless   = "2026-07-28" // from this version on requests have no session
	lastSession = "2025-11-25" // the newest version with sessions

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
)

// maxBody is the limit of a request's body. write_file sends up to 3 MB, in base64.
const maxBody = 8 << 20

// idleSession is how long a session of the protocol lives without a request.
const idleSession = 24 * time.Hour

// Handler serves the protocol over HTTP below one prefix: "/" is the newer
// transport, "/sse" and "/python/sse" are the older one.
type Handler struct {
	server   *Server
	modern   http.Handler // one request, one answer
	sessions http.Handler // the versions with an initialize and a session
	older    []*eventTransport
	mux      *http.ServeMux

	ending context.Context //nolint:containedctx // of the handler: streams that stay open end with it
	end    context.CancelFunc
}

// NewHandler returns a handler for the mount at prefix. The caller must strip the prefix.
func NewHandler(s *Server, prefix string) *Handler {
	options := func(stateless bool) *sdk.StreamableHTTPOptions {
		return &sdk.StreamableHTTPOptions{
			Stateless: stateless, MaxRequestBodyBytes: maxBody,
			SessionTimeout: idleSession, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true, // httpd checks the host, including the hosts of proxies
		}
	}
	get := func(*http.Request) *sdk.Server { return s.sdk }
	h := &Handler{server: s, mux: http.NewServeMux()}
	h.ending, h.end = context.WithCancel(context.Background())
	h.modern = sdk.NewStreamableHTTPHandler(get, options(true))
	h.sessions = sdk.NewStreamableHTTPHandler(get, options(false))
	h.mux.HandleFunc("/{$}", h.streamable)
	all := &eventTransport{server: s.sdk, open: &s.open, newID: s.newSessionID, endpoint: prefix + "/sse"}
	python := &eventTransport{server: s.pythonServer(), open: &s.open, newID: s.newSessionID,
		endpoint: prefix + "/python/sse"}
	h.mux.Handle("/sse", all)
	h.mux.Handle("/python/sse", python)
	h.older = []*eventTransport{all, python}
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A page of another site may not even read here: its browser has the network
	// position of its visitor, and CrossOriginProtection lets GET pass.
	if wire.ForeignOrigin(r) {
		http.Error(w, "a request from another site's page is refused", http.StatusForbidden)
		return
	}
	caller := h.server.Caller(r)
	if caller.Owner == "" {
		http.Error(w, "a key is needed", http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-Accel-Buffering", "no")
	identified(caller, h.mux).ServeHTTP(w, r)
}

// Close ends every session, since sessions that listen would keep the service from ending.
func (h *Handler) Close() {
	h.end()
	h.server.open.cancelAll()
	for s := range h.server.sdk.Sessions() {
		_ = s.Close() // it reports that it is already closed
	}
	for _, t := range h.older {
		t.close()
	}
}

// newSessionID returns an id that contains the node of the session.
func (s *Server) newSessionID() string {
	if s.Self == nil {
		return rand.Text()
	}
	return s.Self().Prefix() + rand.Text()
}

// holder returns the node that has the session of a request in memory.
func holder(r *http.Request) engine.Epoch {
	return engine.EpochOf(cmp.Or(r.Header.Get(sessionHeader), r.URL.Query().Get("sessionid")))
}

// isElsewhere reports whether a session is of a node that has ended: one that is alive would have got its requests.
// Each request goes on by itself then. What tools keep for the caller, such as live sessions, is not in the session.
func (s *Server) isElsewhere(session string) bool {
	if s.Self == nil || s.Self() == 0 {
		return false
	}
	holder := engine.EpochOf(session)
	return holder != 0 && holder != s.Self()
}

// The SDK passes on only the header of a request.
const (
	callerKey    = "airlock-run/caller"
	baseHeader   = "X-Airlock-Base"
	imagesHeader = "X-Airlock-Images"
	linksHeader  = "X-Airlock-Links"
)

// identified tells the SDK the caller of a request. The SDK compares the user of a session only if
// its own middleware has set it, so that gets a constant token and a verifier that knows the
// caller.
func identified(caller engine.Caller, next http.Handler) http.Handler {
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: string(caller.Owner), Extra: map[string]any{callerKey: caller}}, nil
	}
	with := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer caller")
		r.Header.Del("X-Api-Key")
		r.Header.Set(baseHeader, "http://"+r.Host)
		r.Header.Set(imagesHeader, r.URL.Query().Get("images"))
		r.Header.Set(linksHeader, r.URL.Query().Get("links"))
		with.ServeHTTP(w, r)
	})
}

// callerOf returns the caller of a request of the protocol. In a session the context is that of the
// first request.
func (s *Server) callerOf(ctx context.Context, r sdk.Request) engine.Caller {
	info := auth.TokenInfoFromContext(ctx)
	if extra := r.GetExtra(); extra != nil && extra.TokenInfo != nil {
		info = extra.TokenInfo
	}
	if info == nil {
		return s.Local
	}
	caller, _ := info.Extra[callerKey].(engine.Caller)
	return caller
}

// streamable serves both generations of the protocol at one address.
func (h *Handler) streamable(w http.ResponseWriter, r *http.Request) {
	info := auth.TokenInfoFromContext(r.Context())
	owner := info.UserID
	if r.Method == http.MethodDelete && h.server.isElsewhere(r.Header.Get(sessionHeader)) {
		w.WriteHeader(http.StatusNoContent) // it ended with its node
		return
	}
	if r.Method == http.MethodDelete {
		// Closing waits for the calls of a session, so cancel them first.
		h.server.open.cancel(r.Header.Get(sessionHeader), engine.Owner(owner))
		h.sessions.ServeHTTP(w, r)
		return
	}
	version := r.Header.Get(versionHeader)
	modern := version >= stateless || h.server.isElsewhere(r.Header.Get(sessionHeader))
	if r.Method == http.MethodPost {
		body, err := h.server.Bodies.ReadRequest(w, r, engine.Owner(owner), maxBody)
		if err != nil {
			refuseBody(w, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if version == "" && r.Header.Get(sessionHeader) == "" {
			modern = declaresVersion(body)
		}
		beating := keepAlive(w, firstComment, nextComment)
		defer beating.stop()
		w = beating
		if s := subscriptionIn(r.Header, body); modern && s != nil {
			h.follow(w, r, s)
			return
		}
	}
	if modern {
		h.modern.ServeHTTP(w, r)
		return
	}
	h.sessions.ServeHTTP(w, r)
}

func refuseBody(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, wire.ErrBodies):
		w.Header().Set("Retry-After", "1")
		http.Error(w, wire.ErrBodies.Error(), http.StatusServiceUnavailable)
	case wire.IsTooLarge(err):
		http.Error(w, "the request is larger than 8 MiB: send large files with upload_link", http.StatusRequestEntityTooLarge)
	default:
		http.Error(w, "the request could not be read", http.StatusBadRequest)
	}
}

// declaresVersion reports whether a message contains the version of the protocol, as only messages
// without sessions do.
func declaresVersion(body []byte) bool {
	return gjson.GetBytes(body, `params._meta.io\.modelcontextprotocol/protocolVersion`).Exists()
}

// Limits of the sessions of the protocol, which take some 20 KB each: of one owner, since some hosts open
// one for each turn and close none, and of all.
const (
	maxSessions = 200
	allSessions = 2000
)

// codeBusy is the code of the error for a session beyond the limits: one of those that are left to servers.
const codeBusy = -32000

const manySessions = "too many sessions of the protocol run calls: try again when one of them has ended, or end one " +
	"with DELETE"

// openSessions are the sessions of the protocol and their calls in progress. The SDK closes
// a session only when its calls have ended.
type openSessions struct {
	mu       sync.Mutex
	sessions map[*sdk.ServerSession]*openSession
}

type openSession struct {
	owner engine.Owner
	used  time.Time
	calls map[*context.CancelFunc]bool
}

// add adds a session, unless there are too many and all run calls. It returns the session whose place the
// new one takes, nil if there was room: the caller closes it. alive are the sessions that are not closed.
func (o *openSessions) add(
	s *sdk.ServerSession, owner engine.Owner, alive iter.Seq[*sdk.ServerSession],
) (oldest *sdk.ServerSession, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions[s] != nil { // a second initialize, which the SDK refuses
		return nil, true
	}
	o.retain(alive)
	counts := map[engine.Owner]int{}
	for _, is := range o.sessions {
		counts[is.owner]++
	}
	from := owner
	if counts[owner] < maxSessions {
		for other, n := range counts { // nobody displaces the sessions of who has fewer
			if n > counts[from] {
				from = other
			}
		}
	}
	if counts[owner] >= maxSessions || len(o.sessions) >= allSessions {
		if oldest = o.oldestIdle(from); oldest == nil {
			return nil, false
		}
		delete(o.sessions, oldest)
	}
	if o.sessions == nil {
		o.sessions = map[*sdk.ServerSession]*openSession{}
	}
	o.sessions[s] = &openSession{owner: owner, used: time.Now(), calls: map[*context.CancelFunc]bool{}}
	return oldest, true
}

// oldestIdle returns the session of an owner that runs no call and was not used for longest; nil: all run calls.
func (o *openSessions) oldestIdle(owner engine.Owner) (oldest *sdk.ServerSession) {
	for s, is := range o.sessions {
		if is.owner == owner && len(is.calls) == 0 && (oldest == nil || is.used.Before(o.sessions[oldest].used)) {
			oldest = s
		}
	}
	return oldest
}

// retain drops closed sessions.
func (o *openSessions) retain(alive iter.Seq[*sdk.ServerSession]) {
	lives := map[*sdk.ServerSession]bool{}
	for s := range alive {
		lives[s] = true
	}
	for s := range o.sessions {
		if !lives[s] {
			delete(o.sessions, s)
		}
	}
}

// call returns a context that ends with the session of a call, and a function that the
// caller calls at the end.
func (o *openSessions) call(ctx context.Context, s *sdk.ServerSession) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.sessions[s]
	if is == nil {
		return ctx, cancel
	}
	is.used = time.Now()
	is.calls[&cancel] = true
	return ctx, func() {
		cancel()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(is.calls, &cancel)
	}
}

// cancel ends the calls of the session with an id, if owner owns it.
func (o *openSessions) cancel(id string, owner engine.Owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s, is := range o.sessions {
		if s.ID() == id && is.owner == owner {
			is.end()
		}
	}
}

// close ends the calls of a session and drops it.
func (o *openSessions) close(s *sdk.ServerSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if is := o.sessions[s]; is != nil {
		is.end()
		delete(o.sessions, s)
	}
}

// cancelAll ends every call.
func (o *openSessions) cancelAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, is := range o.sessions {
		is.end()
	}
}

func (is *openSession) end() {
	for cancel := range is.calls {
		(*cancel)()
	}
}
