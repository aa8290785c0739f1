package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program of a live session that listens on a port is opened in a browser at an address
// with a ticket. Its pages have an opaque origin, so that browsers send no cookies for what
// they load. The ticket stands for the visitor's sign-in, for that port only, and ends with
// it.

// Paths below which a port is served.
const (
	PortPath   = "/port/"
	PortTicket = "{ticket}/{path...}"
	ticketTime = 12 * time.Hour
	macBytes   = 16
)

// Ticket returns a ticket for a port of a session, as the visitor.
func (s *Site) Ticket(v *Request, session engine.ID, port int) string {
	return s.signIns.ticket(v.cookie, session, port)
}

// Admitted returns the session and the port of a ticket.
func (s *Site) Admitted(ticket string) (session engine.ID, port int, ok bool) {
	to, ok := s.signIns.admits(ticket)
	return to.session, to.port, ok
}

// admission is what a ticket permits.
type admission struct {
	by      *signIn // of the visitor
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
	until := v.now().Add(ticketTime).Unix()
	fields, err := binary.Append(nil, binary.BigEndian,
		ticketFields{sha256.Sum256([]byte(cookie)), session, uint16(port), until}) //nolint:gosec // checked
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
	return admission{in, f.Session, int(f.Port)}, true
}

// ticketOf returns the ticket in a path of the site, or "".
func ticketOf(path string) string {
	rest, ok := strings.CutPrefix(path, PortPath)
	if !ok {
		return ""
	}
	ticket, _, _ := strings.Cut(rest, "/")
	return ticket
}
