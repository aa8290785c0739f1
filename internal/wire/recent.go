package wire

import (
	"container/list"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// Recent remembers values by their keys: up to Each of one owner, and up to Total of all owners. All users of
// a key are one owner here. A value beyond takes the place of the one that its owner has not used for longest,
// or, if there is no room left for all, that the owner with the most values has not: nobody displaces the
// values of who has fewer.
type Recent[K comparable, V any] struct {
	Each, Total int

	mu     sync.Mutex
	known  map[K]*list.Element         // of *remembered[K, V]
	owners map[engine.Owner]*list.List // last used first
}

type remembered[K comparable, V any] struct {
	owner engine.Owner
	key   K
	value V
}

// Put remembers a value, in place of an earlier one of its key.
func (r *Recent[K, V]) Put(owner engine.Owner, key K, value V) {
	owner = owner.Account()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
	switch own := r.owners[owner]; {
	case own != nil && own.Len() >= r.Each:
		r.evict(own)
	case len(r.known) >= r.Total:
		r.evict(r.largest())
	}
	if r.known == nil {
		r.known, r.owners = map[K]*list.Element{}, map[engine.Owner]*list.List{}
	}
	if r.owners[owner] == nil {
		r.owners[owner] = list.New()
	}
	r.known[key] = r.owners[owner].PushFront(&remembered[K, V]{owner, key, value})
}

// Get returns the value of a key, and counts as a use of it.
func (r *Recent[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.known[key]
	if !ok {
		return value, false
	}
	is := e.Value.(*remembered[K, V])
	r.owners[is.owner].MoveToFront(e)
	return is.value, true
}

// Delete forgets a key.
func (r *Recent[K, V]) Delete(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
}

// Len returns the number of values.
func (r *Recent[K, V]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

func (r *Recent[K, V]) remove(key K) {
	e, ok := r.known[key]
	if !ok {
		return
	}
	owner := e.Value.(*remembered[K, V]).owner
	r.owners[owner].Remove(e)
	delete(r.known, key)
	if r.owners[owner].Len() == 0 {
		delete(r.owners, owner)
	}
}

func (r *Recent[K, V]) evict(from *list.List) { r.remove(from.Back().Value.(*remembered[K, V]).key) }

// largest returns the list of the owner with the most values.
func (r *Recent[K, V]) largest() (most *list.List) {
	for _, own := range r.owners {
		if most == nil || own.Len() > most.Len() {
			most = own
		}
	}
	return most
}
