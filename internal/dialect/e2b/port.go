package e2b

import (
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

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
	byName := r.Header.Get("E2b-Sandbox-Id") == ""
	to := &wire.Port{
		Conn: conn, Number: port, Log: h.Log,
		Request: func(p *httputil.ProxyRequest) {
			if byName {
				p.Out.Host = p.In.Host
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

// hideKeys takes out what opens this service, or the sandbox.
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
