package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	stateless   = "2026-07-28" // from here on each request stands for itself
	lastSession = "2025-11-25" // the newest version with sessions

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
	versionKey    = "io.modelcontextprotocol/protocolVersion"
)

// MaxBody is the limit of a request's body: write_file brings 3 MB, in base64.
const MaxBody = 8 << 20

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

// NewHandler returns a handler that wants its prefix removed; prefix is where it
// is mounted.
func NewHandler(s *Server, prefix string) *Handler {
	options := func(stateless bool) *sdk.StreamableHTTPOptions {
		return &sdk.StreamableHTTPOptions{
			Stateless: stateless, MaxRequestBodyBytes: MaxBody,
			SessionTimeout: idleSession, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true, // httpd checks the host, and knows those of proxies
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

// Close ends every session, for those that listen would keep a service from
// ending.
func (h *Handler) Close() {
	h.end()
	h.server.open.cancelAll()
	for s := range h.server.sdk.Sessions() {
		_ = s.Close() // it says that it is closed already
	}
	for _, t := range h.older {
		t.close()
	}
}

// newSessionID returns an id that says which node has the session.
func (s *Server) newSessionID() string {
	if s.Self == nil {
		return rand.Text()
	}
	return s.Self().Prefix() + rand.Text()
}

// Holder returns the node in whose memory the session is that a request names.
func Holder(r *http.Request) engine.Epoch {
	return engine.EpochOf(cmp.Or(r.Header.Get(sessionHeader), r.URL.Query().Get("sessionid")))
}

// What the SDK hands on of a request are its header fields.
const (
	callerKey    = "airlock-run/caller"
	baseHeader   = "X-Airlock-Base"
	imagesHeader = "X-Airlock-Images"
)

// identified tells the SDK who makes a request. Only its own middleware can set
// what it compares when a session is used again, so it gets a header that says
// nothing and a verifier that knows.
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
		with.ServeHTTP(w, r)
	})
}

// callerOf returns who made a request of the protocol. The context of a session
// with requests of its own is that of the first.
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
	if r.Method == http.MethodDelete {
		// Closing waits for the calls of a session, so they are ended first.
		h.server.open.cancel(r.Header.Get(sessionHeader), engine.Owner(owner))
		h.sessions.ServeHTTP(w, r)
		return
	}
	version := r.Header.Get(versionHeader)
	modern := version >= stateless
	if r.Method == http.MethodPost {
		body, err := h.server.Bodies.ReadRequest(w, r, engine.Owner(owner), MaxBody)
		if err != nil {
			refuseBody(w, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if caller, ok := info.Extra[callerKey].(engine.Caller); ok {
			h.prepare(caller, body)
		}
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

// prepare has the interpreter get ready that a call seems to be about, while the call is
// parsed, which takes longer. To be wrong costs little and changes nothing.
func (h *Handler) prepare(caller engine.Caller, body []byte) {
	_, after, found := bytes.Cut(body, []byte(`"`+sessionPrefix))
	if !found || len(after) < idLength || !bytes.Contains(body, []byte(`"run_code"`)) {
		return
	}
	if id, err := engine.ParseID(string(after[:idLength])); err == nil {
		h.server.Live.Prepare(caller, id)
	}
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

// declaresVersion reports whether a message names the version of the protocol in
// itself, as only those without sessions do.
func declaresVersion(body []byte) bool {
	if !bytes.Contains(body, []byte(versionKey)) {
		return false
	}
	var message struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	return json.Unmarshal(body, &message) == nil && message.Params.Meta[versionKey] != nil
}
