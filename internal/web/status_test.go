package web

import (
	"strings"
	"testing"
)

// The status page says which sandboxes wait, and which cannot yet.
func TestStatusShowsPools(t *testing.T) {
	got := visitSite(t, true, nil).get("/status")
	for _, want := range []string{"Python without large packages</th><td>2</td><td>3</td>", "Python that plots</th><td colspan=\"2\">the interpreter is starting"} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, without %q", got.status, want)
		}
	}
}
