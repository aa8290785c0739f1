package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Timeouts of a provider's connections. There is no limit on a whole transfer:
// a large file that moves is fine, one that makes no progress is not.
type Timeouts struct {
	Connect time.Duration // 10 s
	Idle    time.Duration // 30 s of a transfer, or of an answer to a look-up, that stalls
	// Silence is how long a model may say nothing: 10 min. Code that it started
	// runs for minutes, and most services send nothing meanwhile. That the other
	// side is there is asked for every 30 s, where the connection is HTTP/2.
	Silence time.Duration
}

func (t Timeouts) filled() Timeouts {
	t.Connect = cmp.Or(t.Connect, 10*time.Second)
	t.Idle = cmp.Or(t.Idle, 30*time.Second)
	t.Silence = cmp.Or(t.Silence, 10*time.Minute)
	return t
}

// HTTPOption changes how an HTTPClient connects.
type HTTPOption func(*http.Transport) http.RoundTripper

// WithTransport has an HTTPClient make its requests with what a function returns for
// its own transport: one that checks where it connects to, or a proxy's.
func WithTransport(of func(base *http.Transport) http.RoundTripper) HTTPOption { return of }

// HTTPClient returns a client for a provider: limits for connecting and for
// standing still, none for a transfer that moves, no redirect to another host,
// which would get the key, no error that passes for a success, and no answer that
// repeats the key.
func HTTPClient(t Timeouts, options ...HTTPOption) *http.Client {
	t = t.filled()
	dial := &net.Dialer{Timeout: t.Connect, KeepAlive: 30 * time.Second}
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial.DialContext,
		TLSHandshakeTimeout:   t.Connect,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: t.Idle, PingTimeout: t.Connect},
	}
	var below http.RoundTripper = base
	for _, option := range options {
		below = option(base)
	}
	return &http.Client{
		Transport: maskTransport{layer{errorStatusTransport{layer{idleTimeoutTransport{layer{below}, t}}}}},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 5 || r.URL.Host != via[0].URL.Host {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// layer is the part that the transports of this package share.
type layer struct{ next http.RoundTripper }

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (l layer) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// AccountOf is an Account: it tells addresses and keys apart and gives away
// neither.
func AccountOf(address, key string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(address, "/") + "\x00" + key))
	return hex.EncodeToString(sum[:8])
}

// KindOfStatus is the kind of a status that nothing else is known of.
func KindOfStatus(status int) Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case status == http.StatusPaymentRequired:
		return Quota
	case status == http.StatusNotFound, status == http.StatusGone:
		return FileNotFound
	case status == http.StatusRequestEntityTooLarge:
		return TooLarge
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return Transient
	}
	return Invalid
}

// RetryAfter reads how long a provider asks to wait: retry-after-ms,
// Retry-After in seconds or as a date. 0 when it does not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 && ms < 1e10 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e7 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// Failed makes an Error of one that is not from the provider: the network's, or
// a cancelled context's, which stays what it is (errors.Is finds it) and is not
// retryable. Ambiguous is set: whether the request arrived is not known.
func Failed(name, op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Kind: Transient, Provider: name, Op: op, Err: err, Ambiguous: true}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Message = "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		e.Message = "out of time"
	case isDNS && dns.IsNotFound:
		e.Ambiguous = false
		e.Hint = "The provider's address is not known: check the network, the proxy, and the base address."
	case errors.Is(err, errIdle):
		e.Message = "the connection stalled for too long and was closed"
	case untrusted:
		e.Kind, e.Ambiguous = Invalid, false
		e.Hint = "The certificate of the provider's address is not trusted: check the base address, the clock, and a proxy " +
			"that looks into connections."
	case isRefused(err):
		e.Ambiguous = false
		e.Hint = "Nothing answers at the provider's address: check the network, the proxy, and the base address."
	}
	return e
}

func isRefused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Body returns the content of a download from byte offset on. The status has
// been looked at: it is one of success. A server that does not know ranges sends
// all of it; what we have is skipped. Size is that of the whole file, -1 when the
// server does not say.
func Body(resp *http.Response, offset int64) (body io.ReadCloser, size int64, err error) {
	size = resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		var first, last int64
		var total string
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%s", &first, &last, &total); err != nil ||
			first != offset {
			resp.Body.Close()
			return nil, -1, &Error{Kind: Transient, Message: fmt.Sprintf(
				"the range from byte %d was asked for, %q came", offset, resp.Header.Get("Content-Range"))}
		}
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			size = -1
		}
	case offset > 0:
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil {
			resp.Body.Close()
			return nil, -1, &Error{Kind: Transient, Message: "the download broke off before the part that was missing", Err: err}
		}
	}
	return resp.Body, size, nil
}
