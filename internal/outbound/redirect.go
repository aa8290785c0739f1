package outbound

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects bounds the redirects of a request within its origin.
const maxRedirects = 5

// Guard returns a copy of an HTTP client whose requests do not leave the origin of their address,
// unless c has a rule of its own. By default net/http follows a redirect to any server, with the
// body and the headers that it does not know as secrets; a RoundTripper that sets headers sets
// them there too.
func Guard(c http.Client) *http.Client {
	if c.CheckRedirect == nil {
		c.CheckRedirect = SameOrigin
	}
	return &c
}

// SameOrigin is an http.Client's CheckRedirect: it follows redirects to the scheme, host and port
// of the first request, and returns a *RedirectError for others.
func SameOrigin(r *http.Request, via []*http.Request) error {
	from, to := origin(via[0].URL), origin(r.URL)
	if from != to {
		return &RedirectError{From: from, To: to}
	}
	if len(via) > maxRedirects {
		return errors.New("the server redirects again and again")
	}
	return nil
}

// RedirectError is the error of a redirect to another origin.
type RedirectError struct{ From, To string }

// Error says what to do.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to %s, which was not sent the request, since it may hold secrets: "+
		"if that is the right server, set its address", e.From, e.To)
}

// origin returns the scheme, host and port of an address.
func origin(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	usual := map[string]string{"https": ":443", "http": ":80"}[scheme]
	return scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), usual)
}
