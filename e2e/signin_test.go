package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestSignInProxy has a reverse proxy say who a visitor is. Without its word nobody is let in, on loopback neither.
func TestSignInProxy(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serveWith(t, who, dataWithoutPackages(t, who), nil, "--auth-proxy-header", "X-Forwarded-User",
		"--auth-proxy-network", "127.0.0.1/32")
	if got := string(s.do("GET", "/ui/", "").body); !strings.Contains(got, "<h1>Sign in</h1>") {
		t.Errorf("without the header the page is %.300s", got)
	}
	if got := string(s.do("GET", "/ui/", "", "X-Forwarded-User", "ada").body); !strings.Contains(got, ">ada</span>") {
		t.Errorf("with the header the page is %.300s", got)
	}
}
