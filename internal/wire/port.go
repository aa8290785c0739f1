package wire

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
)

// Port proxies one request to a server in a sandbox, WebSockets included, over a connection made
// for this request. Access is checked anew for the next one.
type Port struct {
	Conn   net.Conn // is closed
	Number int
	Log    *slog.Logger

	Origin bool // the server has an origin of its own: cookies and rules for browsers are its own affair
	Custom bool // headers of any name go in: programs call the server, not pages of this service

	Request  func(*httputil.ProxyRequest) // sets the path and takes out what the server must not know
	Response func(*http.Response)         // takes out what must not come back
	Failed   func(http.ResponseWriter)    // says that the server gave no answer that can be read
}

// ownHeaders are on every answer of this service. They are removed here, since the server in the
// sandbox sets its own, and the first of two would count.
var ownHeaders = []string{"Cache-Control", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}

// Local is the host that the server is asked for, by its address inside.
func (p *Port) Local() string { return "localhost:" + strconv.Itoa(p.Number) }

// ServeHTTP implements http.Handler.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	once := make(chan net.Conn, 1)
	once <- p.Conn
	unused := func() (net.Conn, error) {
		select {
		case conn := <-once:
			return conn, nil
		default:
			return nil, errors.New("the connection was used")
		}
	}
	defer func() {
		if conn, err := unused(); err == nil {
			conn.Close()
		}
	}()
	for _, name := range ownHeaders {
		w.Header().Del(name)
	}
	proxy := &httputil.ReverseProxy{
		Transport: finalOnly{r.Context(), &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return unused() },
		}},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug), // of peers that speak nonsense or leave
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host, out.Out.Host = "http", p.Local(), p.Local()
			out.Out.URL.RawQuery = out.In.URL.RawQuery
			if p.Custom {
				maps.DeleteFunc(out.Out.Header, func(name string, _ []string) bool {
					return strings.HasPrefix(name, "X-Airlock-")
				})
				hideCookie(out.Out)
			} else {
				keepHeaders(out.Out.Header, requestHeaders)
			}
			p.Request(out)
		},
		ModifyResponse: func(resp *http.Response) error {
			if p.Origin {
				keepHeaders(resp.Header, append(originHeaders, responseHeaders...))
			} else {
				keepHeaders(resp.Header, responseHeaders)
			}
			p.Response(resp)
			if resp.StatusCode == http.StatusSwitchingProtocols {
				w.Header().Del("Connection") // it says close, for the case that nothing comes of it
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { p.Failed(w) },
	}
	// The answer may come before the end of the request, or before the transport has read the end. Without this
	// the server closes the body at the first write, and the transport then cuts the answer off.
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy.ServeHTTP(w, r)
}

type portPrefix struct{}

// WithPortPrefix sets the address of a port, if it differs from the address that is requested.
func WithPortPrefix(ctx context.Context, prefix string) context.Context {
	return context.WithValue(ctx, portPrefix{}, prefix)
}

// PortPrefix returns what WithPortPrefix has set, or "".
func PortPrefix(ctx context.Context) string {
	prefix, _ := ctx.Value(portPrefix{}).(string)
	return prefix
}

// pageRules keep a page of a sandbox's server from acting as a part of this service: its origin is
// opaque, and has no access to cookies, storage, keys and answers of this service.
const pageRules = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// Confine makes a page of a sandbox's server harmless on this service's origin.
func Confine(h http.Header) {
	h.Set("Content-Security-Policy", pageRules)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
