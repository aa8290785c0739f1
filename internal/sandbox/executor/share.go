package executor

import (
	"fmt"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// All sandboxes take processes, watched folders, terminals and pipes from pools that the
// kernel keeps for the machine, a container or a user. A pool that is used up fails for
// everybody: for other tenants, for other programs of the host, and for the executor, which
// does not survive a thread that cannot be created. So the executor counts what each owner
// has, and refuses what exceeds the owner's part, or what all sandboxes may have together.
// That is less than the pool; see sizes.go.

// A share is the part of one of the kernel's pools that sandboxes may use.
type share struct {
	name  string // of what is counted, in the plural
	cure  string // how the operator makes the pool larger
	total int64  // 0: the kernel itself copes with a pool that is used up
	each  int64  // of one owner; the only holding of an owner may be larger

	mu     sync.Mutex
	used   int64
	owners map[string]int64
}

// A holding is what one sandbox, process or watch has of a share.
type holding struct {
	share *share
	owner string
	n     int64
}

// reserve counts n for an owner, or refuses it.
func (s *share) reserve(owner string, n int64) (*holding, error) {
	h := &holding{share: s, owner: owner}
	return h, h.resize(n)
}

// resize changes a holding to n. Only a larger one may be refused, which changes nothing.
func (h *holding) resize(n int64) error {
	if h == nil {
		return nil
	}
	s := h.share
	s.mu.Lock()
	defer s.mu.Unlock()
	more := n - h.n
	own := s.owners[h.owner]
	switch {
	case more <= 0:
	case s.total > 0 && s.used+more > s.total:
		return s.refuse(fmt.Sprintf("all programs of this service have %d %s, and there may be %d", s.used, s.name, s.total),
			"try again when some have ended; the operator can "+s.cure)
	case own+more > s.each && own > h.n: // it has something else, too
		return s.refuse(fmt.Sprintf("your programs have %d %s, and one owner may have %d", own, s.name, s.each),
			"end what you no longer need, or try again when some of it has ended; the operator can "+s.cure)
	}
	if s.owners == nil {
		s.owners = map[string]int64{}
	}
	h.n, s.used, s.owners[h.owner] = n, s.used+more, own+more
	if s.owners[h.owner] == 0 {
		delete(s.owners, h.owner)
	}
	return nil
}

func (s *share) refuse(have, hint string) error { return NewFailure(engine.ErrBusy, have, hint) }

// release gives back all of a holding.
func (h *holding) release() {
	_ = h.resize(0) // less is never refused
}
