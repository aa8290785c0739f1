package live

import (
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// A node that takes a session over knows that a cell was given out before, and no other id.
func TestFormerCell(t *testing.T) {
	s := &Service{config: Config{Secret: []byte("secret")}}
	first := &session{service: s, id: engine.NewID()}
	first.record.Place.Generation = 1
	later := &session{service: s, id: first.id}
	later.record.Place.Generation = 2
	id := first.newCellID()
	if again, err := engine.ParseID(id.String()); err != nil || again != id {
		t.Errorf("%s is no id: %v", id, err)
	}
	if c := later.formerCell(id); c == nil || c.Status != StatusLost || c.ID != id {
		t.Errorf("%+v", c)
	}
	if c := first.formerCell(id); c != nil {
		t.Errorf("a cell that its own node has forgotten is %s", c.Status)
	}
	if c := later.formerCell(engine.NewID()); c != nil {
		t.Errorf("an id that was never given out is %s", c.Status)
	}
	other := &session{service: s, id: engine.NewID()}
	if c := other.formerCell(id); c != nil {
		t.Errorf("a cell of another session is %s", c.Status)
	}
}
