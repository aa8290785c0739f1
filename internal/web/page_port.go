package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/wire"
)

// AnyOrigin lists the paths that pages of other origins may request: pages of programs have
// an opaque origin, and a ticket.
func AnyOrigin() []string { return []string{page.PortPath} }

// openPort sends a visitor to a port of a session.
func (p *notebookPage) openPort(w http.ResponseWriter, v *page.Request) error {
	id, err := engine.ParseID(v.PathValue("id"))
	port, numberErr := strconv.ParseUint(v.PathValue("port"), 10, 16)
	if err != nil || numberErr != nil || port == 0 || !v.HasKey {
		return engine.ErrNotFound // without a key the API's own address is open
	}
	session, err := p.Engine.GetSession(v.Context(), v.Caller, id)
	if err != nil {
		return err
	}
	ticket := p.Ticket(v, session.ID, int(port))
	return p.Redirect(w, v, page.PortPath+ticket+"/")
}

// port passes a request with a ticket on to its port, by way of the native API, which gives
// the answer an opaque origin.
func (p *notebookPage) port(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	session, port, ok := p.Admitted(ticket)
	_, known := p.Caller(r)
	if !ok || !known || strings.Contains(r.URL.Path+"/", "/../") {
		p.Fail(w, &page.Request{Request: r}, page.Refuse(http.StatusNotFound, "This address has expired.",
			"Open the port again from its notebook."))
		return
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy",
		"Permissions-Policy"} {
		w.Header().Del(name) // the API sets its own
	}
	from := page.PortPath + ticket
	inside := "/sessions/" + session.String() + "/ports/" + strconv.Itoa(port)
	address := *r.URL
	address.Path = inside + strings.TrimPrefix(r.URL.Path, from)
	if r.URL.RawPath != "" {
		address.RawPath = inside + strings.TrimPrefix(r.URL.RawPath, from)
	}
	inner := r.WithContext(wire.WithPortPrefix(r.Context(), p.URL(from)))
	inner.URL, inner.Pattern = &address, ""
	p.API.ServeHTTP(w, inner)
}
