// Package modelhttp has the HTTP client for servers of models: those of providers, and any
// that speaks the API of one.
package modelhttp

import (
	"cmp"
	"net"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/idle"
	"github.com/airlock-run/airlock/internal/outbound"
)

// Options of a client. The time of a whole transfer is not limited, only the time without
// progress. A zero field takes what its comment says.
type Options struct {
	Connect time.Duration // 10 s
	Idle    time.Duration // without progress of a transfer or of an answer to a look-up: 30 s
	// Silence is how long a model may send nothing: 10 min. Its code may run for
	// minutes, and most services send nothing meanwhile. HTTP/2 connections are
	// checked by pings every Idle.
	Silence time.Duration
	// Transport replaces the transport, for example by one that checks addresses; nil: it is base.
	Transport func(base *http.Transport) http.RoundTripper
}

// Filled returns the options with the default values for the times that are 0.
func (o Options) Filled() Options {
	o.Connect = cmp.Or(o.Connect, 10*time.Second)
	o.Idle = cmp.Or(o.Idle, 30*time.Second)
	o.Silence = cmp.Or(o.Silence, 10*time.Minute)
	return o
}

// New returns a client. It has timeouts for connecting and for the
// lack of progress, follows no redirect to another server, which would get the key, detects
// errors with status 200, and masks the key in answers.
func New(o Options) *http.Client {
	o = o.Filled()
	dial := &net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial.DialContext,
		TLSHandshakeTimeout:   o.Connect,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: o.Idle, PingTimeout: o.Connect},
	}
	var below http.RoundTripper = base
	if o.Transport != nil {
		below = o.Transport(base)
	}
	limited := idle.Transport{Next: below, Idle: o.Idle, Answer: o.Silence}
	return outbound.Guard(http.Client{Transport: maskTransport{layer{errorStatusTransport{layer{limited}}}}})
}
