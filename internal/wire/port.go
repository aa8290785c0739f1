package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
)

// Port passes one request on to a server in a sandbox, WebSockets included, over the
// connection that was made for it: what the next one may reach is for it to ask.
type Port struct {
	Conn   net.Conn // is closed
	Number int
	Log    *slog.Logger

	Request  func(*httputil.ProxyRequest) // sets the path and takes out what the server must not know
	Response func(*http.Response)         // takes out what must not come back
	Failed   func(http.ResponseWriter)    // says that the server gave no answer that can be read
}

// ours are headers of every answer of this service. A server in a sandbox says for
// itself how its answers are to be treated, and the first of two would count.
var ours = []string{"Cache-Control", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}

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
	for _, name := range ours {
		w.Header().Del(name)
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return unused() },
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug), // of peers that speak nonsense or leave
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL.Scheme, out.Out.URL.Host, out.Out.Host = "http", p.Local(), p.Local()
			out.Out.URL.RawQuery = out.In.URL.RawQuery
			p.Request(out)
		},
		ModifyResponse: func(resp *http.Response) error {
			p.Response(resp)
			if resp.StatusCode == http.StatusSwitchingProtocols {
				w.Header().Del("Connection") // it says close, for the case that nothing comes of it
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { p.Failed(w) },
	}
	proxy.ServeHTTP(w, r)
}

type portPrefix struct{}

// WithPortPrefix says where a port is reached, if that is another address than the one
// that is asked.
func WithPortPrefix(ctx context.Context, prefix string) context.Context {
	return context.WithValue(ctx, portPrefix{}, prefix)
}

// PortPrefix is what WithPortPrefix said, empty if nothing.
func PortPrefix(ctx context.Context) string {
	prefix, _ := ctx.Value(portPrefix{}).(string)
	return prefix
}

// HideCaller takes out of a request what it tells about its caller, and no server in a
// sandbox is to know.
func HideCaller(h http.Header) {
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "Referer"} {
		h.Del(name)
	}
}

// pageRules keep a page of a sandbox's server from acting in our name: sandbox gives
// it an origin of its own, for which no cookie, no storage, no key of ours and no
// answer of ours is there.
const pageRules = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// notBack is what would change how a browser treats this whole service: its cookies
// and storage, its transport, its keys, its service workers, and where it reports to.
var notBack = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Www-Authenticate",
	"Proxy-Authenticate", "Authentication-Info", "Service-Worker-Allowed", "Content-Security-Policy",
	"Content-Security-Policy-Report-Only", "Report-To", "Reporting-Endpoints", "Nel", "Origin-Agent-Cluster",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
}

// Confine makes an answer of a sandbox's server one that does no harm on an origin of
// ours.
func Confine(h http.Header) {
	for _, name := range notBack {
		h.Del(name)
	}
	h.Set("Content-Security-Policy", pageRules)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
