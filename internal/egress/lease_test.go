package egress

import (
	"runtime"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// The end of a run waits for the line of a connection that ends meanwhile.
func TestLineAtTheEnd(t *testing.T) {
	for range 20_000 {
		r := &run{reports: make(chan engine.Contact, 1)}
		c := r.addContact(target{host: "good.test", port: 80})
		go c.end(nil)
		runtime.Gosched()
		if r.endAll(); len(r.reports) != 1 {
			t.Fatalf("%d lines", len(r.reports))
		}
	}
}
