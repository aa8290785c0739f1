package provider

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/idle"
	"github.com/airlock-run/airlock/internal/modelhttp"
	"github.com/airlock-run/airlock/internal/outbound"
)

// HTTPOptions of an HTTPClient. The time of a whole transfer is not limited, only the time
// without progress. A zero field takes what its comment says.
type HTTPOptions struct {
	Connect time.Duration // 10 s
	Idle    time.Duration // without progress of a transfer or of an answer to a look-up: 30 s
	// Silence is how long a model may send nothing: 10 min. Its code may run for
	// minutes, and most services send nothing meanwhile. HTTP/2 connections are
	// checked by pings every Idle.
	Silence time.Duration
	// Transport replaces the transport, for example by one that checks addresses; nil: it is base.
	Transport func(base *http.Transport) http.RoundTripper
}

// HTTPClient returns a client for a provider. It has timeouts for connecting and for the
// lack of progress, follows no redirect to another server, which would get the key, detects
// errors with status 200, and masks the key in answers.
func HTTPClient(o HTTPOptions) *http.Client { return modelhttp.New(modelhttp.Options(o)) }

// DefaultHTTPClient is the HTTP client of providers that are given none. As with net/http's own,
// all of them share its connections, and CloseIdleConnections closes those that wait for another
// request.
var DefaultHTTPClient = HTTPClient(HTTPOptions{})

// AccountOf returns an Account: a hash of the address and the key.
func AccountOf(address, key string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(address, "/") + "\x00" + key))
	return hex.EncodeToString(sum[:8])
}

// KindOfStatus returns the kind of an error of which only the status is known.
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

// RetryAfter returns how long a provider asks to wait: retry-after-ms,
// Retry-After in seconds or as a date. It returns 0 without such a header.
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

// Failed returns an error of the network or of the caller's context as an Error. That of a context
// has no Kind, since the provider has not failed. Ambiguous is set if the request may have arrived.
func Failed(name, op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Kind: Transient, Provider: name, Op: op, Err: err, Ambiguous: true}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	redirect, redirected := errors.AsType[*outbound.RedirectError](err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Kind, e.Message = "", "interrupted"
	case contains(err, context.DeadlineExceeded):
		e.Kind, e.Message = "", "out of time"
		e.Hint = "The deadline of this call passed before it had ended: give it more time."
	case isDNS && dns.IsNotFound:
		e.Ambiguous = false
		e.Hint = "The provider's address is not known: check the network, the proxy, and the base address."
	case errors.Is(err, idle.Err):
		e.Message = "the connection stalled for too long and was closed"
	case untrusted:
		e.Kind, e.Ambiguous = Invalid, false
		e.Hint = "The certificate of the provider's address is not trusted: check the base address, the clock, and a proxy " +
			"that looks into connections."
	case redirected:
		e.Kind, e.Ambiguous, e.Message = Invalid, false, redirect.Error()
	case isRefused(err):
		e.Ambiguous = false
		e.Hint = "Nothing answers at the provider's address: check the network, the proxy, and the base address."
	}
	return e
}

// contains reports whether target itself is in err's tree. To errors.Is the timeouts of package net
// are context.DeadlineExceeded, too.
func contains(err, target error) bool {
	switch wrapper := err.(type) { //nolint:errorlint // it walks the tree
	case interface{ Unwrap() error }:
		return contains(wrapper.Unwrap(), target)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wrapper.Unwrap(), func(e error) bool { return contains(e, target) })
	}
	return err == target //nolint:errorlint // errors.Is is too wide
}

func isRefused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Body returns the content of a successful download from byte offset on. It skips the
// beginning if the server ignored the range. Size is that of the whole file, or -1.
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
