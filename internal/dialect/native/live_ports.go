package native

import (
	"cmp"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/wire"
)

// maxPort is the highest TCP port.
const maxPort = 1<<16 - 1

// listPorts names the ports on which programs of the session listen, with where each is reached.
func (q *request) listPorts(on live.Sessions) (any, error) {
	ports, err := on.Ports(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	below := q.api.Prefix + "/sessions/" + q.id.String() + "/ports/"
	return map[string][]client.Port{"ports": rest.Each(ports, func(port int) client.Port {
		return client.Port{Port: port, Path: below + strconv.Itoa(port) + "/"}
	})}, nil
}

// port passes a request on to a server in the session, WebSockets included.
func (q *request) port(on live.Sessions) (any, error) {
	number := q.PathValue("port")
	port, err := strconv.Atoi(number)
	if err != nil || port < 1 || port > maxPort || strconv.Itoa(port) != number {
		return nil, engine.NotFound("find", "port "+number)
	}
	// A page of a session's server has the opaque origin, which is written "null".
	if q.Header.Get("Origin") != "null" && wire.ForeignOrigin(q.Request.Request) {
		return nil, rest.Refuse(http.StatusForbidden, string(engine.ErrForbidden),
			"a page of another site may not use the servers of a session")
	}
	if q.Method == http.MethodOptions && q.Header.Get("Access-Control-Request-Method") != "" {
		allowOpaque(q.W.Header(), q.Request.Request)
		q.W.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		q.W.Header().Set("Access-Control-Allow-Headers", q.Header.Get("Access-Control-Request-Headers"))
		return nil, nil
	}
	conn, err := on.DialPort(q.Context(), q.Caller, q.id, port)
	if err != nil {
		return nil, err
	}
	q.api.pass(q.W, q.Request.Request, &wire.Port{Conn: conn, Number: port, Log: q.api.Log})
	return rest.Answer{}, nil
}

// allowOpaque lets the pages of a session's servers read the answers of these servers: to a browser
// their origin is opaque, like that of every sandboxed page. They still need the session's id.
func allowOpaque(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	if r.Header.Get("Origin") == "null" {
		h.Set("Access-Control-Allow-Origin", "null")
	}
}

func (a *api) pass(w http.ResponseWriter, r *http.Request, to *wire.Port) {
	inside, below := to.Local(), "/ports/"+r.PathValue("port")
	prefix := cmp.Or(wire.PortPrefix(r.Context()), a.Prefix+"/sessions/"+r.PathValue("id")+below)
	to.Request = func(p *httputil.ProxyRequest) {
		_, p.Out.URL.Path, _ = strings.Cut(p.In.URL.Path, below)
		_, p.Out.URL.RawPath, _ = strings.Cut(p.In.URL.RawPath, below)
		if p.Out.Header.Get("Origin") != "" {
			p.Out.Header.Set("Origin", "http://"+inside)
		}
		p.Out.Header.Set("X-Forwarded-Prefix", prefix)
	}
	to.Response = func(resp *http.Response) {
		wire.Confine(resp.Header)
		allowOpaque(resp.Header, r)
		if to := resp.Header.Get("Location"); to != "" {
			resp.Header.Set("Location", outside(to, inside, prefix))
		}
	}
	to.Failed = func(w http.ResponseWriter) {
		a.kit.Fail(w, r, rest.Refuse(http.StatusBadGateway, "bad_gateway",
			"the server in the session gave no answer that can be read"))
	}
	to.ServeHTTP(w, r)
}

// outside returns the external address of a redirect by a server in the session.
func outside(to, inside, prefix string) string {
	to = strings.TrimPrefix(to, "http://"+inside)
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		return prefix + to
	}
	return to
}
