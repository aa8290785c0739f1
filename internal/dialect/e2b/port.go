package e2b

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// ours are headers of every answer of this service. A server in a sandbox, which has
// a name and so an origin of its own, says for itself how its pages are to be treated.
var ours = []string{"Cache-Control", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}

// port passes a request on to a server in a sandbox, WebSockets included.
func (h *Handler) port(w http.ResponseWriter, r *http.Request, sb *sandbox, port int) {
	conn, err := h.Live.DialPort(r.Context(), sb.caller, sb.session, port)
	if engine.KindOf(err) == engine.ErrConflict {
		writeJSON(w, http.StatusBadGateway, map[string]any{
			"sandboxId": sb.id, "message": "The sandbox is running but port is not open", "port": port, "code": http.StatusBadGateway,
		})
		return
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	// The one connection of this request.
	once := make(chan net.Conn, 1)
	once <- conn
	defer func() {
		select {
		case conn := <-once:
			conn.Close()
		default:
		}
	}()
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				return nil, errors.New("the connection was used")
			}
		},
	}
	for _, name := range ours {
		w.Header().Del(name)
	}
	byName := r.Header.Get("E2b-Sandbox-Id") == ""
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug), // of peers that speak nonsense or leave
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", "localhost:"+strconv.Itoa(port)
			p.Out.Host = p.In.Host
			if !byName {
				p.Out.Host = p.Out.URL.Host
			}
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			hideKeys(p.Out.Header)
		},
		ModifyResponse: func(resp *http.Response) error {
			keepCookies(resp.Header, byName)
			if resp.StatusCode == http.StatusSwitchingProtocols {
				w.Header().Del("Connection") // it says close, for the case that nothing comes of it
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			writeError(w, http.StatusBadGateway, "the server in the sandbox gave no answer that can be read")
		},
	}
	proxy.ServeHTTP(w, r)
}

// hideKeys takes out what opens this service, or the sandbox.
func hideKeys(header http.Header) {
	for _, name := range []string{"X-Api-Key", "X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id", "E2b-Sandbox-Port"} {
		header.Del(name)
	}
	for _, prefix := range []string{"ak_", keyPrefix} {
		if strings.Contains(header.Get("Authorization"), prefix) {
			header.Del("Authorization")
		}
	}
}

// keepCookies keeps those that are for the name of the sandbox alone: a cookie for a
// whole domain would be for all sandboxes, and for what else is below it.
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
