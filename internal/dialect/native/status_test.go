package native

import (
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestStatus(t *testing.T) {
	r, _ := liveRig(t)
	for caller, status := range map[engine.Caller]int{
		{Owner: "alice", Admin: true}: 200, {Owner: engine.Local}: 200, {Owner: "alice"}: 403,
		{Owner: engine.Local, Key: "k"}: 403,
	} {
		r.caller = caller
		w := r.send("GET", "/status", "", "")
		check(t, w, status)
		if status == 200 {
			check(t, w, 200, `"running":0`,
				`"live":{"interpreters":2,"busy":1,"limit":40,"owner_limit":16,"cells":9,"lost":1,"evicted":2,"expired":3}`,
				`"cold":"their interpreter ended while it imported packages: ImportError: libopenblas"`)
		}
	}
}

// TestNoLive checks a service without interpreters.
func TestNoLive(t *testing.T) {
	r := newRig(t, hello)
	check(t, r.json("POST", "/sessions", `{"kind":"live"}`), 503, "no live sessions")
	check(t, r.json("POST", "/sessions/"+engine.NewID().String()+"/cells", `{"code":"1"}`), 503, "no live sessions")
}
