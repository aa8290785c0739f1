package native

import (
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// What large JSON bodies that are on their way in may take of the memory, all
// together and those of one owner. A small one is not worth counting.
const (
	maxBodies      = 256 << 20
	maxOwnerBodies = maxBodies / 4
)

// bodies counts the memory that large bodies take while they arrive, which can
// be as long as their senders like.
type bodies struct {
	mu    sync.Mutex
	all   int64
	owner map[engine.Owner]int64
}

// take reports whether there is room for n bytes more; they are given back
// with give.
func (b *bodies) take(owner engine.Owner, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > maxBodies || b.owner[owner]+n > maxOwnerBodies {
		return false
	}
	if b.owner == nil {
		b.owner = map[engine.Owner]int64{}
	}
	b.all += n
	b.owner[owner] += n
	return true
}

func (b *bodies) give(owner engine.Owner, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.owner[owner] -= n; b.owner[owner] == 0 {
		delete(b.owner, owner)
	}
}
