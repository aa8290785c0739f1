// Package e2b serves the protocol of E2B's SDKs over live sessions: the control plane,
// which creates and deletes sandboxes, and at the address of a sandbox its code interpreter
// (port 49999), its daemon envd (port 49983) and other servers in it.
//
// A sandbox is a live session with a random id and a token of its own. The id leads to
// it and the token opens it: requests to a sandbox carry no key. The wire facts are from
// the SDKs (PyPI e2b 2.63.0, e2b-code-interpreter 2.11.5; npm e2b 2.51.0,
// @e2b/code-interpreter 2.8.0) and from github.com/e2b-dev/infra and code-interpreter,
// August 2026. The README lists the unsupported features.
package e2b

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Options configure a Handler.
type Options struct {
	Live   live.Sessions
	Caller func(*http.Request) engine.Caller // the zero Caller: anonymous
	Limits func() (defaults, maxima engine.Limits)
	Images func(engine.Caller) ([]engine.Image, error) // those that the caller's sandboxes can have
	Engine *engine.Service                             // has the volumes
	// Domain is the parent domain of sandbox names, which may have a port. Empty: localhost, for
	// clients that use that name.
	Domain string
	Log    *slog.Logger
	Self   func() engine.Epoch // epoch of this node; nil: there is only one node
	// Gather asks other nodes for their part of a list; nil: there are none.
	Gather func(w http.ResponseWriter, r *http.Request) [][]byte
	Store  Store         // keeps sandboxes and snapshots; nil: they end with the service
	Kept   time.Duration // of a paused sandbox; at least maxLife
}

// Holder returns the node that has the sandbox of a request in memory.
func (h *Handler) Holder(r *http.Request) engine.Epoch {
	id, _, _ := h.address(r)
	if _, rest, ok := strings.Cut(r.URL.Path, "/sandboxes/"); ok && id == "" { // of any version
		id, _, _ = strings.Cut(rest, "/")
	}
	if id == "" && r.URL.Path == "/snapshots" {
		id = r.URL.Query().Get("sandboxID")
	}
	if len(id) != sandboxIDLength {
		return 0
	}
	return engine.EpochOf(id)
}

const (
	portEnvd = 49983
	portCode = 49999

	maxJSON = 16 << 20 // of code, with the rest of its request
	maxLife = 24 * time.Hour
)

// Handler serves the protocol below one prefix, and under the names of sandboxes.
type Handler struct {
	Options
	sandboxes registry
	scans     scans
	control   *http.ServeMux
	patterns  []string // of control
	code      *http.ServeMux
	envd      http.Handler
}

// New returns a handler, with the sandboxes that an earlier process had. The caller must strip
// its prefix.
func New(o Options) *Handler {
	h := &Handler{Options: o}
	h.sandboxes.ended = h.end
	if h.Store != nil {
		h.Live.SetPrelude(engine.OriginE2B, prelude)
		if err := h.load(context.Background()); err != nil {
			h.Log.Error("the sandboxes of an earlier process are lost", "err", err)
		}
	}
	h.control, h.code, h.envd = h.controlRoutes(), h.codeRoutes(), h.envdRoutes()
	return h
}

// Close discards the sandboxes; the next process continues with them.
func (h *Handler) Close() { h.sandboxes.close() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	id, port, ok := h.address(r)
	switch {
	case ok:
		h.serveSandbox(w, r, id, port)
	case isSigned(r):
		h.serveSigned(w, r)
	default:
		h.control.ServeHTTP(w, r)
	}
}

// Access reports that requests to a sandbox need no key, because they carry its token. See
// httpd.Mount.
func (h *Handler) Access(r *http.Request) (network, everyone bool) {
	_, _, ok := h.address(r)
	return true, ok || isSigned(r) || r.URL.Path == "/health"
}

// Compressed reports whether a request may have a compressed body: files, which the space of their
// sandbox limits, and requests to servers in a sandbox. See httpd.Mount.
func (h *Handler) Compressed(r *http.Request) bool {
	_, _, ok := h.address(r)
	return ok || isSigned(r)
}

// refuseRequest writes a refusal in the protocol's format.
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	writeError(w, status, message)
}

// Hosts reports whether host is a name of this protocol: a sandbox, PORT-ID.DOMAIN, all
// sandboxes, sandbox.DOMAIN, or api.DOMAIN.
func (h *Handler) Hosts(host string) bool {
	label, domain, _ := strings.Cut(host, ".")
	if ours, _, _ := strings.Cut(h.Domain, ":"); domain == "" || domain != ours && domain != "localhost" {
		return false
	}
	return label == "api" || label == "sandbox" || sandboxName.MatchString(label)
}

var sandboxName = regexp.MustCompile(`^(\d{1,5})-([a-z0-9]{20})$`)

// address returns the sandbox and the port that a request is for, by its headers or by
// the name of its host.
func (h *Handler) address(r *http.Request) (id string, port int, ok bool) {
	if id = r.Header.Get("E2b-Sandbox-Id"); id != "" {
		port, err := strconv.Atoi(r.Header.Get("E2b-Sandbox-Port"))
		return id, port, err == nil && port > 0 && port < 1<<16
	}
	label, _, _ := strings.Cut(r.Host, ".")
	name := sandboxName.FindStringSubmatch(label)
	if name == nil {
		return "", 0, false
	}
	port, err := strconv.Atoi(name[1])
	return name[2], port, err == nil && port > 0 && port < 1<<16
}

// serveSandbox serves a request to a port of a sandbox.
func (h *Handler) serveSandbox(w http.ResponseWriter, r *http.Request, id string, port int) {
	sb := h.find(r.Context(), id)
	if sb == nil {
		noSandbox(w, id)
		return
	}
	outer := r
	r = r.WithContext(context.WithValue(r.Context(), sandboxKey{}, sb))
	defer func() { outer.Pattern = r.Pattern }() // it names one of a bounded number of routes
	shown := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return sb.opens(r.Header.Get(name)) })
	}
	switch port {
	case portEnvd:
		if _, paused := sb.life(); r.URL.Path == "/health" && !paused {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		is, expired := signed(r, sb.token)
		switch {
		case shown("X-Access-Token"), is && !expired:
		case is:
			writeError(w, http.StatusUnauthorized, expiredSignature)
			return
		case isSigned(r):
			writeError(w, http.StatusUnauthorized, wrongSignature)
			return
		default:
			writeError(w, http.StatusUnauthorized, "the token of this sandbox is needed, as X-Access-Token")
			return
		}
		sb.serve(w, r, h.envd)
	case portCode:
		if !shown("X-Access-Token", "E2B-Traffic-Access-Token") {
			writeError(w, http.StatusUnauthorized,
				"the token of this sandbox is needed, as X-Access-Token or E2B-Traffic-Access-Token")
			return
		}
		sb.serve(w, r, h.code)
	default:
		if !sb.public && !shown("E2B-Traffic-Access-Token", "X-Access-Token") {
			writeError(w, http.StatusForbidden,
				"the ports of this sandbox are not public: the token is needed, as E2B-Traffic-Access-Token")
			return
		}
		sb.serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.port(w, r, sb, port) }))
	}
}

// noSandbox answers a request to a sandbox that is gone, or paused.
func noSandbox(w http.ResponseWriter, id string) {
	writeJSON(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found",
		"code": http.StatusBadGateway})
}

type sandboxKey struct{}

// sandboxOf returns the sandbox of a request whose token was checked.
func sandboxOf(ctx context.Context) *sandbox { return ctx.Value(sandboxKey{}).(*sandbox) }

// statuses are those of the control plane. 502 and 503 make SDKs retry, and 404 has its own meaning
// for each call.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrConflict: http.StatusBadRequest,
	engine.ErrFull:     http.StatusTooManyRequests,
})

// status returns the status and message of an error, and sets Retry-After.
func (h *Handler) status(w http.ResponseWriter, err error) (status int, message string) {
	kind := engine.KindOf(err)
	status = statuses[kind]
	if status == 0 {
		h.Log.Error("e2b", "err", err)
		return http.StatusInternalServerError, "internal error"
	}
	message = err.Error()
	if e, ok := errors.AsType[*engine.Error](err); ok {
		shown := engine.Error{Kind: kind, Err: cmp.Or(e.Err, err), Hint: e.Hint}
		if e.Err != nil && kind == engine.ErrInvalid {
			shown.ID = e.ID
		}
		shown.Err = atHome(shown.Err)
		message = wire.Sentence(&shown)
	}
	usual := time.Duration(0)
	if status == http.StatusTooManyRequests {
		usual = time.Second
	}
	if seconds := engine.RetrySeconds(err, usual); seconds != "" {
		w.Header().Set("Retry-After", seconds)
	}
	return status, message
}

func (h *Handler) fail(w http.ResponseWriter, err error) {
	status, message := h.status(w, err)
	writeError(w, status, message)
}

// writeError writes an error in the format of E2B's control plane and envd.
func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"code": status, "message": message})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json", wire.Encode(body))
}

// The prefix that SDKs demand of a key. The rest is the hexadecimal form of an ordinary key, "ak_",
// its id, "_", and 43 characters of base64.
const keyPrefix = "e2b_"

var ordinaryKey = regexp.MustCompile(`^ak_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$`)

// Key returns the form of a key that E2B's SDKs demand, or "" if token is no ordinary key.
func Key(token string) string {
	parts := ordinaryKey.FindStringSubmatch(token)
	if parts == nil {
		return ""
	}
	secret, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return ""
	}
	return keyPrefix + hex.EncodeToString([]byte(parts[1])) + hex.EncodeToString(secret)
}

// Ordinary returns the usual spelling of a key in E2B's form, or token unchanged.
func Ordinary(token string) string {
	raw, err := hex.DecodeString(strings.TrimPrefix(token, keyPrefix))
	if err != nil || len(raw) != 12+32 || !strings.HasPrefix(token, keyPrefix) {
		return token
	}
	return "ak_" + string(raw[:12]) + "_" + base64.RawURLEncoding.EncodeToString(raw[12:])
}
