package httpd

import (
	"bytes"
	"net/http"
)

// ahead is what to do when a request begins.
type ahead struct {
	line []byte // its beginning
	do   func()
	seen int // bytes of the line: net/http reads the first byte of a request alone, if it comes early
}

// follow takes what is read.
func (a *ahead) follow(p []byte) {
	rest := a.line[a.seen:]
	if len(p) < len(rest) && bytes.HasPrefix(rest, p) {
		a.seen += len(p)
		return
	}
	if a.seen = 0; bytes.HasPrefix(p, rest) {
		a.do()
	}
}

// Ahead has do called when a later request on r's connection begins with the line of r,
// before anything else is known of it, its caller included. It is for what costs little and
// changes nothing. Do must not block. A connection has one do, the last one.
func Ahead(r *http.Request, do func()) {
	if c := originOf(r.Context()).conn; c != nil {
		c.ahead.Store(&ahead{line: []byte(r.Method + " " + r.RequestURI + " "), do: do})
	}
}
