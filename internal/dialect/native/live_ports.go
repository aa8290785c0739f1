package native

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// maxPort is the highest TCP port.
const maxPort = 1<<16 - 1

// pageRules keep a page of a session's server from acting in our name: sandbox
// gives it an origin of its own, for which no cookie, no storage, no key of ours
// and no answer of ours is there.
const pageRules = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// notForward is what a request tells about its caller, and nothing inside is to
// know.
var notForward = []string{"Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "Referer"}

// notBack is what would change how a browser treats this whole service: its
// cookies and storage, its transport, its keys, its service workers, and where it
// reports to.
var notBack = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Www-Authenticate",
	"Proxy-Authenticate",
	"Authentication-Info", "Service-Worker-Allowed", "Content-Security-Policy", "Content-Security-Policy-Report-Only",
	"Report-To", "Reporting-Endpoints",
	"Nel", "Origin-Agent-Cluster", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
	"Access-Control-Allow-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
}

// ours are headers of every answer of this service. Here they would stand beside the
// server's own, and the first would keep its pages from loading what it serves: to a
// browser their origin is another one.
var ours = []string{"Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}

// port passes a request on to a server in the session, WebSockets included.
func (q *request) port(on Inside) (any, error) {
	number := q.PathValue("port")
	port, err := strconv.Atoi(number)
	if err != nil || port < 1 || port > maxPort || strconv.Itoa(port) != number {
		return nil, engine.ErrNotFound
	}
	if foreignOrigin(q.Request) {
		return nil, refuse(http.StatusForbidden, string(engine.ErrForbidden),
			"a page of another site may not use the servers of a session")
	}
	if q.Method == http.MethodOptions && q.Header.Get("Access-Control-Request-Method") != "" {
		allowOpaque(q.w.Header(), q.Request)
		q.w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		q.w.Header().Set("Access-Control-Allow-Headers", q.Header.Get("Access-Control-Request-Headers"))
		return nil, nil
	}
	conn, err := on.DialPort(q.Context(), q.caller, q.id, port)
	if err != nil {
		return nil, err
	}
	// The one connection of this request: what the next one may reach is for it to ask.
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if conn == nil {
				return nil, errors.New("the connection was used")
			}
			once := conn
			conn = nil
			return once, nil
		},
	}
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for _, name := range ours {
		q.w.Header().Del(name)
	}
	q.pass(q.w, q.Request, transport, port)
	return answer{}, nil
}

// foreignOrigin reports whether a browser's page of another site asks. A page of a
// session's server has the opaque origin, which is written "null".
func foreignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || origin == "null" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// allowOpaque lets the pages of a session's servers read what these answer: to a
// browser their origin is another one, like that of every sandboxed page. What they
// cannot do without is the session's id.
func allowOpaque(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	if r.Header.Get("Origin") == "null" {
		h.Set("Access-Control-Allow-Origin", "null")
	}
}

func (a *api) pass(w http.ResponseWriter, r *http.Request, transport *http.Transport, port int) {
	inside := "localhost:" + strconv.Itoa(port)
	prefix := a.Prefix + "/sessions/" + r.PathValue("id") + "/ports/" + r.PathValue("port")
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug), // of peers that speak nonsense or leave
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", inside, inside
			below := func(path string) string {
				_, path, _ = strings.Cut(path, "/ports/"+r.PathValue("port"))
				return path
			}
			p.Out.URL.Path, p.Out.URL.RawPath = below(p.In.URL.Path), below(p.In.URL.RawPath)
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			for _, name := range notForward {
				p.Out.Header.Del(name)
			}
			if p.Out.Header.Get("Origin") != "" {
				p.Out.Header.Set("Origin", "http://"+inside)
			}
			p.Out.Header.Set("X-Forwarded-Prefix", prefix)
		},
		ModifyResponse: func(resp *http.Response) error {
			for _, name := range notBack {
				resp.Header.Del(name)
			}
			resp.Header.Set("Content-Security-Policy", pageRules)
			resp.Header.Set("X-Content-Type-Options", "nosniff")
			resp.Header.Set("Referrer-Policy", "no-referrer")
			allowOpaque(resp.Header, r)
			if to := resp.Header.Get("Location"); to != "" {
				resp.Header.Set("Location", outside(to, inside, prefix))
			}
			if resp.StatusCode == http.StatusSwitchingProtocols {
				w.Header().Del("Connection") // it says close, for the case that nothing comes of it
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			a.fail(w, r, refuse(http.StatusBadGateway, "bad_gateway",
				"the server in the session gave no answer that can be read"))
		},
	}
	proxy.ServeHTTP(w, r)
}

// outside is where a redirect of a server in the session leads to from here.
func outside(to, inside, prefix string) string {
	to = strings.TrimPrefix(to, "http://"+inside)
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		return prefix + to
	}
	return to
}
