package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestPrepare has an interpreter get ready for a cell: nothing that a cell can see is other
// than before.
func TestPrepare(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	value := func(code string) string {
		t.Helper()
		c := p.want(p.run(s, code), StatusOK)
		if len(c.Outputs) != 1 {
			t.Fatalf("%s has %d outputs", code, len(c.Outputs))
		}
		return string(c.Outputs[0].Data["text/plain"])
	}
	// What compiles a cell looks for a magic first.
	p.want(p.run(s, "import sys; seen = []; hook = sys.excepthook; get_ipython().find_magic = seen.append"), StatusOK)
	cells := 1
	for ready := false; !ready; {
		if cells++; cells > 100 {
			t.Fatal("the interpreter was never ready")
		}
		p.Prepare(p.caller, s)
		<-time.After(10 * time.Millisecond) // an order that is there comes first
		ready = value("'x' in seen") == `"True"`
	}
	if got := value("_"); got != `"True"` {
		t.Errorf("_ is %s", got)
	}
	const state = "(len(In) - 1, max(Out), get_ipython().execution_count, sys.excepthook == hook, sys.last_value if hasattr(sys, 'last_value') else 0)"
	if got, want := value(state), fmt.Sprintf(`"(%d, %d, %d, True, 0)"`, cells+2, cells+1, cells+3); got != want {
		t.Errorf("the state is %s, wanted %s", got, want)
	}
}

// TestPrepareOnce asks for more than there is to give.
func TestPrepareOnce(t *testing.T) {
	told := 0
	it := &interpreter{began: true, controls: engine.Controls{Prepare: func() { told++ }}}
	at := &session{caller: engine.Caller{Owner: "ann"}, settings: settings{Language: "python"}, interpreter: it}
	id := engine.NewID()
	s := &Service{sessions: map[engine.ID]*session{id: at}}
	ann := engine.Caller{Owner: "ann"}
	s.Prepare(engine.Caller{Owner: "bob"}, id)
	s.Prepare(ann, engine.NewID())
	at.orders = []*order{{}}
	s.Prepare(ann, id)
	at.orders, at.current = nil, &order{}
	s.Prepare(ann, id)
	at.current, it.ending = nil, "it ends"
	s.Prepare(ann, id)
	it.ending, it.began = "", false
	s.Prepare(ann, id)
	if it.began = true; told != 0 {
		t.Errorf("it was told %d times, not for its owner or not while it waits", told)
	}
	for range 3 {
		s.Prepare(ann, id)
	}
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
}
