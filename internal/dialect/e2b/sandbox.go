package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// sandbox is a live session with a deadline.
type sandbox struct {
	id        string
	node      engine.Epoch // of the session
	token     string
	session   engine.ID
	caller    engine.Caller
	template  string
	labels    map[string]string // metadata of the sandbox
	env       map[string]string // of all processes in it
	public    bool              // its ports need no token
	mask      string            // the Host that its servers see; empty: the client's
	https     []int             // ports of servers that speak TLS
	rules     []engine.Secret   // headers of requests to hosts; in memory alone
	key       string            // Idempotency-Key of its creation
	domain    string
	limits    engine.Limits
	started   time.Time
	autoPause bool // at its deadline

	mu       sync.Mutex
	gone     context.Context //nolint:containedctx // ended with its life, or a pause
	leave    context.CancelFunc
	ends     time.Time
	paused   bool
	timer    *time.Timer
	contexts []*codeContext
	metadata fileMetadata
	watchers map[string]*watcher
	measured time.Time // when metrics were last asked for, and what had been used by then
	used     time.Duration
}

// opens reports whether a token is the sandbox's.
func (sb *sandbox) opens(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(sb.token)) == 1
}

// end returns the deadline of the sandbox.
func (sb *sandbox) end() time.Time {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.ends
}

// live sets the remaining time. If longer is set, it never shortens it.
func (sb *sandbox) live(left time.Duration, longer bool) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	ends := time.Now().Add(left)
	if longer && ends.Before(sb.ends) || sb.timer == nil || sb.paused {
		return
	}
	sb.ends = ends
	sb.timer.Reset(left)
}

// isSigned reports whether a request shows a signature in place of a token, and so
// names no sandbox.
func isSigned(r *http.Request) bool {
	return r.URL.Path == "/files" && strings.Contains(r.URL.RawQuery, "signature=")
}

// signed reports whether a request for a file is signed with a sandbox's token, and whether that
// signature has expired.
func signed(r *http.Request, token string) (signed, expired bool) {
	if !isSigned(r) {
		return false, false
	}
	q := r.URL.Query()
	operation := "write"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		operation = "read"
	}
	text := q.Get("path") + ":" + operation + ":" + q.Get("username") + ":" + token
	if expires := q.Get("signature_expiration"); expires != "" {
		at, err := strconv.ParseInt(expires, 10, 64)
		if err != nil {
			return false, false
		}
		expired = time.Now().Unix() > at
		text += ":" + expires
	}
	sum := sha256.Sum256([]byte(text))
	want := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
	given := strings.ReplaceAll(q.Get("signature"), " ", "+") // a "+" that a client has not encoded
	return subtle.ConstantTimeCompare([]byte(want), []byte(given)) == 1, expired
}

// The words of E2B's envd.
const (
	expiredSignature = "signature is already expired"
	wrongSignature   = "invalid signature"
)

// serveSigned serves a file by a signature, which an address without an id has.
func (h *Handler) serveSigned(w http.ResponseWriter, r *http.Request) {
	sb, expired := h.findSigned(r)
	switch {
	case sb == nil:
		writeError(w, http.StatusUnauthorized, wrongSignature+", or its sandbox is gone")
	case expired:
		writeError(w, http.StatusUnauthorized, expiredSignature)
	default:
		sb.serve(w, r.WithContext(context.WithValue(r.Context(), sandboxKey{}, sb)), h.envd)
	}
}

// findSigned returns the sandbox with whose token a request is signed, as find does.
func (h *Handler) findSigned(r *http.Request) (sb *sandbox, expired bool) {
	for _, sb := range h.sandboxes.all() {
		if is, expired := signed(r, sb.token); is {
			return sb, expired
		}
	}
	if !h.inCluster() {
		return nil, false
	}
	id := ""
	h.adopt(r.Context(), true, func(stored *record) bool {
		is, late := signed(r, stored.Token)
		if is {
			id, expired = stored.ID, late
		}
		return is
	})
	return h.sandboxes.find(id), expired
}

// registry holds the sandboxes of this node in memory.
type registry struct {
	ended func(*sandbox) // called at their deadline

	mu   sync.Mutex
	byID map[string]*sandbox
}

func (g *registry) find(id string) *sandbox {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id]
}

func (g *registry) all() []*sandbox {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.byID))
}

// maxSandboxes limits the sandboxes of an owner. A quota of sessions may be less, but it does not count sandboxes
// whose session was deleted by another protocol.
const maxSandboxes = 1000

// add starts the life of a sandbox, unless its owner has too many.
func (g *registry) add(sb *sandbox, life time.Duration) bool {
	sb.watchers = map[string]*watcher{}
	sb.gone, sb.leave = context.WithCancel(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	own := 0
	for _, other := range g.byID {
		if other.caller.Owner.Account() == sb.caller.Owner.Account() {
			own++
		}
	}
	if own >= maxSandboxes {
		return false
	}
	if g.byID == nil {
		g.byID = map[string]*sandbox{}
	}
	g.byID[sb.id] = sb
	sb.ends = time.Now().Add(life)
	sb.timer = time.AfterFunc(life, func() { g.ended(sb) })
	return true
}

// remove ends the life of a sandbox, and reports whether it had one.
func (g *registry) remove(sb *sandbox) bool {
	g.mu.Lock()
	had := g.byID[sb.id] == sb
	delete(g.byID, sb.id)
	g.mu.Unlock()
	sb.quit()
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.timer != nil {
		sb.timer.Stop()
		sb.timer = nil
	}
	return had
}

// quit cuts off the requests to a sandbox, before its end or pause: they must not answer with
// what that does to their processes.
func (sb *sandbox) quit() {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.leave()
	for id, w := range sb.watchers {
		delete(sb.watchers, id)
		w.cancel()
	}
}

// life returns a context that ends with the sandbox or its pause, and whether it is paused.
func (sb *sandbox) life() (gone context.Context, paused bool) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.gone, sb.paused
}

// newSandbox returns a sandbox that has no session yet.
func (h *Handler) newSandbox(caller engine.Caller, template string, left time.Duration) *sandbox {
	sb := &sandbox{caller: caller, template: template, token: rand.Text() + rand.Text(),
		started: time.Now().Truncate(precision)}
	if h.Self != nil {
		sb.node = h.Self()
	}
	sb.id, sb.ends = newSandboxID(sb.node), sb.started.Add(left)
	return sb
}

func (g *registry) close() {
	for _, sb := range g.all() {
		g.remove(sb)
	}
}

const sandboxIDLength = 20

// newSandboxID returns an id of 20 characters, the most that a host name without regard to case may
// have: 103 random bits, or in a cluster the node and 41.
func newSandboxID(node engine.Epoch) string {
	first := node.Prefix()
	return first + engine.RandomText("abcdefghijklmnopqrstuvwxyz0123456789", sandboxIDLength-len(first))
}

// serve serves a request to a sandbox. When the sandbox ends meanwhile, the connection is cut: that
// tells clients to ask whether the sandbox is still there.
func (sb *sandbox) serve(w http.ResponseWriter, r *http.Request, h http.Handler) {
	gone, paused := sb.life()
	if paused {
		noSandbox(w, sb.id)
		return
	}
	httpd.NoteCaller(w, sb.caller)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(gone, cancel)()
	h.ServeHTTP(&cutWriter{w, gone}, r.WithContext(ctx))
	if gone.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// cutWriter writes an answer until a context ends.
type cutWriter struct {
	http.ResponseWriter
	gone context.Context //nolint:containedctx // of the sandbox, not of the request
}

// Unwrap is for http.ResponseController.
func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher, which the package for RPC asks for.
func (w *cutWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// WriteHeader implements http.ResponseWriter.
func (w *cutWriter) WriteHeader(status int) {
	w.check()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *cutWriter) Write(data []byte) (int, error) {
	w.check()
	return w.ResponseWriter.Write(data)
}

func (w *cutWriter) check() {
	if w.gone.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// endTime bounds how long the end of a sandbox takes.
const endTime = time.Minute

// end ends or pauses a sandbox whose time is over.
func (h *Handler) end(sb *sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if _, paused := sb.life(); sb.autoPause && !paused {
		if _, err := h.pause(ctx, sb, live.MemoryIfKept); err != nil {
			h.Log.Error("a sandbox could not be paused and goes on", "session", sb.session, "err", err)
			sb.live(retryPause, false)
		}
		return
	}
	if err := h.kill(ctx, sb); err != nil {
		h.Log.Error("a sandbox could not be ended", "session", sb.session, "err", err)
	}
}

// kill ends a sandbox and everything in it.
func (h *Handler) kill(ctx context.Context, sb *sandbox) error {
	if !h.sandboxes.remove(sb) {
		return engine.ErrNotFound
	}
	err := h.Live.Delete(context.WithoutCancel(ctx), sb.caller, sb.session)
	if engine.KindOf(err) == engine.ErrNotFound {
		return nil // it was deleted concurrently
	}
	return err
}

// matches reports whether a sandbox has the metadata that a list asks for: a query in
// a query, whose keys and values are encoded once more.
func (sb *sandbox) matches(query string) (bool, error) {
	wanted, err := url.ParseQuery(query)
	if err != nil {
		return false, err
	}
	for name, values := range wanted {
		for _, value := range values {
			name, nameErr := url.QueryUnescape(name)
			value, valueErr := url.QueryUnescape(value)
			if nameErr != nil || valueErr != nil {
				return false, cmp.Or(nameErr, valueErr)
			}
			if have, ok := sb.labels[name]; !ok || have != value {
				return false, nil
			}
		}
	}
	return true, nil
}

// port passes a request on to a server in a sandbox, WebSockets included.
func (h *Handler) port(w http.ResponseWriter, r *http.Request, sb *sandbox, port int) {
	conn, err := h.Live.DialPort(r.Context(), sb.caller, sb.session, port)
	if engine.KindOf(err) == engine.ErrConflict {
		writeJSON(w, http.StatusBadGateway, map[string]any{
			"sandboxId": sb.id, "message": "The sandbox is running but port is not open", "port": port,
			"code": http.StatusBadGateway,
		})
		return
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	if slices.Contains(sb.https, port) {
		//nolint:gosec // the certificate is the sandbox's own, and nobody is between
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	byName := r.Header.Get("E2b-Sandbox-Id") == ""
	to := &wire.Port{
		Conn: conn, Number: port, Log: h.Log, Origin: byName, Custom: true,
		Request: func(p *httputil.ProxyRequest) {
			if byName {
				p.Out.Host = p.In.Host
			}
			if sb.mask != "" {
				p.Out.Host = strings.ReplaceAll(sb.mask, maskPort, strconv.Itoa(port))
			}
			hideKeys(p.Out.Header)
		},
		Response: func(resp *http.Response) { keepCookies(resp.Header, byName) },
		Failed: func(w http.ResponseWriter) {
			writeError(w, http.StatusBadGateway, "the server in the sandbox gave no answer that can be read")
		},
	}
	to.ServeHTTP(w, r)
}

// hideKeys removes the keys of the service and of the sandbox.
func hideKeys(header http.Header) {
	for _, name := range []string{"X-Api-Key", "X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id",
		"E2b-Sandbox-Port"} {
		header.Del(name)
	}
	for _, prefix := range []string{"ak_", keyPrefix} {
		if strings.Contains(header.Get("Authorization"), prefix) {
			header.Del("Authorization")
		}
	}
}

// keepCookies keeps the cookies of the sandbox's own name: a cookie with a domain would be sent to
// all sandboxes, and to other hosts below it.
func keepCookies(header http.Header, byName bool) {
	cookies := header["Set-Cookie"]
	header.Del("Set-Cookie")
	if !byName {
		return
	}
	for _, cookie := range cookies {
		parts := strings.Split(cookie, ";")
		kept := parts[:1]
		for _, part := range parts[1:] {
			if name, _, _ := strings.Cut(strings.TrimSpace(part), "="); !strings.EqualFold(strings.TrimSpace(name), "Domain") {
				kept = append(kept, part)
			}
		}
		header.Add("Set-Cookie", strings.Join(kept, ";"))
	}
}
