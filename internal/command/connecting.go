package command

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/airlock-run/airlock/internal/modelhttp"
	"github.com/airlock-run/airlock/internal/outbound"
)

// ModelHostname returns the host name in an address, or "".
func ModelHostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// OperatorsPolicy allows the addresses that the operator set, and public ones.
func OperatorsPolicy(addresses ...string) *outbound.Policy {
	var hosts []string
	for _, address := range addresses {
		// The user of a wrong address reports it.
		if u, err := url.Parse(address); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
			hosts = append(hosts, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
		}
	}
	policy, err := outbound.New(hosts, nil)
	if err != nil { // an invalid host
		policy, _ = outbound.New(nil, nil)
	}
	return policy
}

type loggedCalls struct {
	next http.RoundTripper
	log  *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (l loggedCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := l.next.RoundTrip(r)
	said := []any{"method", r.Method, "host", r.URL.Host, "path", r.URL.Path, "sent", r.ContentLength, "took",
		time.Since(began).Round(time.Millisecond)}
	if err != nil {
		// The whole error would contain the query.
		cause := err
		if e, ok := errors.AsType[*url.Error](err); ok {
			cause = e.Err
		}
		l.log.DebugContext(r.Context(), "call failed", append(said, "err", cause)...)
		return resp, err
	}
	l.log.DebugContext(r.Context(), "call", append(said, "status", resp.StatusCode, "received", resp.ContentLength)...)
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (l loggedCalls) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// WebClient returns an HTTP client that connects to the given addresses and to public
// ones. With --verbose it logs each call without secrets: no header, query or body.
func (a *App) WebClient(addresses ...string) *http.Client {
	c := modelhttp.New(modelhttp.Options{Transport: OperatorsPolicy(addresses...).Transport})
	if a.Log.Enabled(context.Background(), slog.LevelDebug) {
		c.Transport = loggedCalls{c.Transport, a.Log}
	}
	return c
}
