package wire

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Headers that pass between a caller and a server in a sandbox, in canonical form; one that ends
// with "*" stands for all with that beginning. Everything else stays out. What goes in could
// identify the caller: keys, cookies, the proxy's knowledge. What comes out could be an order to a
// proxy in front (X-Accel-Redirect), or change how a browser treats the whole service: its cookies
// and storage, transport, keys, service workers and reports.
var (
	requestHeaders = []string{
		"Accept", "Accept-*", "Cache-Control", "Connection", "Content-*", "Expect", "Hx-*", "If-*", "Last-Event-Id",
		"Mcp-*", "Origin", "Pragma", "Range", "Sec-Websocket-*", "Upgrade", "User-Agent", "X-Csrf-Token", "X-Csrftoken",
		"X-Requested-With", "X-Xsrf-Token", "X-Xsrftoken",
	}
	responseHeaders = []string{
		"Accept-Ranges", "Allow", "Cache-Control", "Connection", "Content-Disposition", "Content-Encoding",
		"Content-Language", "Content-Length", "Content-Range", "Content-Type", "Date", "Etag", "Expires", "Hx-*",
		"Last-Modified", "Location", "Mcp-Session-Id", "Pragma", "Retry-After", "Sec-Websocket-*", "Upgrade", "Vary",
	}
	// originHeaders are those that only concern the origin that sends them.
	originHeaders = []string{
		"Access-Control-*", "Content-Security-Policy", "Content-Security-Policy-Report-Only", "Cross-Origin-*",
		"Permissions-Policy", "Referrer-Policy", "Set-Cookie", "Www-Authenticate", "X-Content-Type-Options",
		"X-Frame-Options",
	}
)

// HostCookie is the name of the page's cookie over TLS. A browser sends it with every path of this
// host, so it must not go into a sandbox.
const HostCookie = "__Host-airlock"

// hideCookie takes the page's cookie out of a request.
func hideCookie(r *http.Request) {
	all := r.Cookies()
	ours := func(c *http.Cookie) bool { return strings.HasPrefix(c.Name, HostCookie) }
	kept := slices.DeleteFunc(slices.Clone(all), ours)
	if len(kept) == len(all) {
		return
	}
	r.Header.Del("Cookie")
	for _, c := range kept {
		r.AddCookie(c)
	}
}

// keepHeaders removes the headers that a list does not name.
func keepHeaders(h http.Header, list []string) {
	for name := range h {
		if !slices.ContainsFunc(list, func(kept string) bool {
			beginning, open := strings.CutSuffix(kept, "*")
			return name == kept || open && strings.HasPrefix(name, beginning)
		}) {
			delete(h, name)
		}
	}
}

// finalOnly makes requests whose answers have neither informational answers before them, such as
// 103 Early Hints, nor trailers behind them: both have headers that are checked nowhere.
type finalOnly struct {
	ctx  context.Context //nolint:containedctx // of the request, without httputil's trace of informational answers
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f finalOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(f.ctx)
	answer, err := f.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	final := *answer // the transport adds trailers to answer when they come
	final.Trailer = nil
	return &final, nil
}
