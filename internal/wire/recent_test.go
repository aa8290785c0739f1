package wire

import (
	"fmt"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// Ten thousand values of one owner leave those of others, and those that were used last.
func TestRecent(t *testing.T) {
	r := Recent[string, int]{Each: 100, Total: 150}
	for i := range 40 {
		r.Put("bob", fmt.Sprint("bob ", i), i)
	}
	for i := range 10_000 {
		r.Put("ada", fmt.Sprint("ada ", i), i)
		r.Get("ada 0")
	}
	if n := r.Len(); n != 140 {
		t.Errorf("%d values are remembered, want the 40 of bob and 100 of ada", n)
	}
	for i := range 40 {
		if v, ok := r.Get(fmt.Sprint("bob ", i)); !ok || v != i {
			t.Errorf("ada displaced number %d of bob", i)
		}
	}
	if _, ok := r.Get("ada 0"); !ok {
		t.Error("the value that was used last is forgotten")
	}
	if _, ok := r.Get("ada 9900"); ok {
		t.Error("the value that was not used for longest is remembered")
	}
	for i := range 10_000 {
		r.Put(engine.Owner(fmt.Sprint("owner ", i)), fmt.Sprint("value ", i), i)
	}
	if n, owners := r.Len(), len(r.owners); n != 150 || owners > 150 {
		t.Errorf("%d values of %d owners are remembered, want 150", n, owners)
	}
	r.Put("carl", "again", 1)
	r.Put("carl", "again", 2)
	if v, _ := r.Get("again"); v != 2 {
		t.Errorf("a second value of a key does not replace the first: %d", v)
	}
	r.Delete("again")
	if _, ok := r.Get("again"); ok || r.owners["carl"] != nil {
		t.Error("a deleted value is remembered")
	}
}

// The values of a key's users are those of one owner: however many it names, they displace each other's.
func TestRecentOfUsers(t *testing.T) {
	r := Recent[int, int]{Each: 100, Total: 10_000}
	r.Put("bob", -1, -1)
	for i := range 10_000 {
		r.Put(engine.Caller{Owner: "web"}.User(fmt.Sprint(i)).Owner, i, i)
	}
	if _, ok := r.Get(-1); !ok || r.Len() != 101 || len(r.owners) != 2 {
		t.Errorf("%d values of %d owners are remembered, want the one of bob (%v), and 100 of a key",
			r.Len(), len(r.owners), ok)
	}
}
