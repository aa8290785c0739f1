package outbound_test

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/outbound"
)

func TestBase(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8000":            "http://127.0.0.1:8000",
		"https://host.example/v1//":        "https://host.example/v1",
		"HTTPS://host.example/a%2Fb/":      "https://host.example/a%2Fb",
		"http://[::1]:8000/":               "http://[::1]:8000",
		"https://user:secret@host.example": "https://user:secret@host.example",
	} {
		if u, err := outbound.Base(address); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", address, u, err, want)
		}
	}
	for _, address := range []string{"", "host", "host:80", "127.0.0.1:8000", "//host", "/v1", "ftp://host",
		"unix:///run/a",
		"http://", "http://:80", "http:host", "https://host?", "https://host?a=b", "https://host#a", "http://host:port",
		"http://user:secret@host name", "ftp://user:secret@host", "http://user:secret@host?x"} {
		if u, err := outbound.Base(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v", address, u, err)
		}
	}
}
