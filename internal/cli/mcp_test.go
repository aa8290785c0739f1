package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What `airlock mcp` sends to a service stays with it.
func TestMCPRedirectsStayWithTheService(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("the other server got %q with %q", body, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	client := keyedClient(http.DefaultTransport, "secret")
	if resp, err := client.Post(away.URL, "application/json", strings.NewReader("{}")); err == nil {
		resp.Body.Close()
		t.Error("it was redirected")
	}
}
