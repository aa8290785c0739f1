package outbound

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Parse returns the address of a server of HTTP. No error has the address's password.
func Parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil && !strings.Contains(address, "://") { // 127.0.0.1:8000 is read as a path with a colon
		return nil, errors.New("the address must begin with http:// or https://")
	}
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // whose text has the address
			err = e.Err
		}
		return nil, fmt.Errorf("the address is not a URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the address %q must begin with http:// or https://", u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("the address %q names no host", u.Redacted())
	}
	return u, nil
}

// Base is Parse for an address below which the paths of a service are. Its path has no slash at its
// end.
func Base(address string) (*url.URL, error) {
	u, err := Parse(address)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, fmt.Errorf("the address %q has a query or a fragment, and paths are to follow it", u.Redacted())
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}
