package httpd

import (
	"bytes"
	"net/http"
)

// ahead is a function to call when the next request begins with a line.
type ahead struct {
	line []byte // its beginning
	do   func()
	seen int // bytes of the line: net/http reads the first byte of a request alone, if it comes early
}

// follow records bytes that were read.
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

// Ahead makes the server call do when a later request on r's connection begins with the
// line of r. The rest of that request is not known yet, its caller included, so do must be
// cheap, change nothing and not block. A connection keeps only the last do.
func Ahead(r *http.Request, do func()) {
	if c, ok := originOf(r.Context()).conn.(*strictConn); ok {
		c.ahead.Store(&ahead{line: []byte(r.Method + " " + r.RequestURI + " "), do: do})
	}
}
