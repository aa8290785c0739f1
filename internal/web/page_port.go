package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// A program of a live session that listens on a port is opened in a browser at an address
// with a ticket. Its pages have an opaque origin, so that browsers send no cookies for what
// they load. The ticket stands for the visitor's sign-in, for that port only, and ends with
// it.

const (
	portPath   = "/port/"
	portTicket = "{ticket}/{path...}"
	ticketTime = 12 * time.Hour
	macBytes   = 16
)

// admission is what a ticket permits.
type admission struct {
	key     string // that the visitor showed
	session engine.ID
	port    int
}

// ticketFields are the signed fields of a ticket.
type ticketFields struct {
	SignIn  [32]byte // hash of the cookie
	Session engine.ID
	Port    uint16
	Until   int64 // Unix seconds
}

// seal signs a ticket. A token of forms is never one: no cookie has a zero byte.
func (v *signInStore) seal(fields []byte) []byte {
	mac := hmac.New(sha256.New, v.secret[:])
	mac.Write([]byte("port\x00"))
	mac.Write(fields)
	return mac.Sum(nil)[:macBytes]
}

// ticket returns a ticket for a port of a session, as the visitor with a cookie.
func (v *signInStore) ticket(cookie string, session engine.ID, port int) string {
	fields, err := binary.Append(nil, binary.BigEndian,
		ticketFields{sha256.Sum256([]byte(cookie)), session, uint16(port), v.now().Add(ticketTime).Unix()}) //nolint:gosec // checked
	if err != nil {
		panic(err) // of a fixed size
	}
	return v.self().Prefix() + base64.RawURLEncoding.EncodeToString(append(fields, v.seal(fields)...))
}

// admits returns what a ticket permits while its visitor is signed in. It does not count as
// a use of the sign-in.
func (v *signInStore) admits(ticket string) (admission, bool) {
	text, own := strings.CutPrefix(ticket, v.self().Prefix())
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	var f ticketFields
	if !own || err != nil || len(sealed) != binary.Size(f)+macBytes {
		return admission{}, false
	}
	fields, seal := sealed[:binary.Size(f)], sealed[binary.Size(f):]
	if _, err := binary.Decode(fields, binary.BigEndian, &f); err != nil || !hmac.Equal(seal, v.seal(fields)) ||
		v.now().Unix() >= f.Until {
		return admission{}, false
	}
	in, ok := v.signIns.Get(f.SignIn)
	if !ok || !v.good(in) {
		return admission{}, false
	}
	return admission{in.key, f.Session, int(f.Port)}, true
}

// ticketOf returns the ticket in a path of the site, or "".
func ticketOf(path string) string {
	rest, ok := strings.CutPrefix(path, portPath)
	if !ok {
		return ""
	}
	ticket, _, _ := strings.Cut(rest, "/")
	return ticket
}

// AnyOrigin lists the paths that pages of other origins may request: pages of programs have
// an opaque origin, and a ticket.
func AnyOrigin() []string { return []string{portPath} }

// openPort sends a visitor to a port of a session.
func (p *notebookPage) openPort(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	port, numberErr := strconv.ParseUint(v.PathValue("port"), 10, 16)
	if err != nil || numberErr != nil || port == 0 || !v.signedIn {
		return engine.ErrNotFound // without a key the API's own address is open
	}
	session, err := p.Engine.GetSession(v.Context(), v.caller, id)
	if err != nil {
		return err
	}
	ticket := p.signIns.ticket(v.cookie, session.ID, int(port)) //nolint:gosec // 16 bits
	return p.to(w, v, portPath+ticket+"/")
}

// port passes a request with a ticket on to its port, by way of the native API, which gives
// the answer an opaque origin.
func (p *notebookPage) port(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	to, ok := p.signIns.admits(ticket)
	_, known := p.Caller(r)
	if !ok || !known || strings.Contains(r.URL.Path+"/", "/../") {
		p.fail(w, &webRequest{Request: r}, refuse(http.StatusNotFound, "This address is not good any more.",
			"Open the port again from its notebook."))
		return
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy",
		"Permissions-Policy"} {
		w.Header().Del(name) // the API sets its own
	}
	from := portPath + ticket
	inside := "/sessions/" + to.session.String() + "/ports/" + strconv.Itoa(to.port)
	address := *r.URL
	address.Path = inside + strings.TrimPrefix(r.URL.Path, from)
	if r.URL.RawPath != "" {
		address.RawPath = inside + strings.TrimPrefix(r.URL.RawPath, from)
	}
	inner := r.WithContext(wire.WithPortPrefix(r.Context(), p.address(from)))
	inner.URL, inner.Pattern = &address, ""
	p.API.ServeHTTP(w, inner)
}
