package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Held workspaces are memory, which all owners share. When it is used up, an owner with
// less than an equal share gets memory: idle sessions of the owners with the most are
// evicted, the least recently used first. A session that was used within evictAfter, or
// that a run is in, is never evicted, and no owner evicts its own. The shares are those of
// accounts, and then of the users of one.
const evictAfter = time.Minute

// holding is what one owner holds.
type holding struct {
	memory int64
	idle   []Session // the least recently used first
}

// evict releases workspaces of other owners until an owner can have need more bytes of
// memory. It reports whether it released any.
func (s *Service) evict(ctx context.Context, owner Owner, need int64) bool {
	const op = "evict session"
	held, err := s.sandbox.Held(ctx)
	if err != nil {
		s.logFailure(ctx, op, err)
		return false
	}
	sessions, err := s.index.HeldSessions(ctx, s.Self())
	if err != nil {
		s.logFailure(ctx, op, err)
		return false
	}
	if s.evictOf(ctx, s.holdings(sessions, held, owner.Account(), Owner.Account), need, held) {
		return true
	}
	own := slices.DeleteFunc(sessions, func(each Session) bool { return each.Owner.Account() != owner.Account() })
	return s.evictOf(ctx, s.holdings(own, held, owner, func(each Owner) Owner { return each }), need, held)
}

// evictOf releases idle workspaces of those who hold more than a share.
func (s *Service) evictOf(ctx context.Context, all holdings, need int64, held map[ID]int64) bool {
	const op = "evict session"
	others, share := all.others, all.share
	if all.own+need > share {
		return false
	}
	freed := int64(0)
	for _, h := range others {
		for _, session := range h.idle {
			if freed > 0 && freed >= need {
				return true
			}
			if h.memory <= share {
				break
			}
			if s.dropIdle(ctx, op, session, func() bool { return true }) {
				s.log.WarnContext(ctx, "an idle session was evicted: another owner needs the memory of held workspaces",
					"session", session.ID, "owner", session.Owner)
				h.memory -= held[session.ID]
				freed += held[session.ID]
			}
		}
	}
	return freed > 0
}

// holdings is what owners hold.
type holdings struct {
	others []*holding // the largest first
	own    int64      // of the owner that needs more
	share  int64      // an equal share of the whole
}

// holdings returns what owners hold, if of says who has a session of an owner's.
func (s *Service) holdings(sessions []Session, held map[ID]int64, owner Owner, of func(Owner) Owner) (found holdings) {
	by := map[Owner]*holding{owner: {}}
	var all int64
	for _, session := range sessions {
		h := by[of(session.Owner)]
		if h == nil {
			h = &holding{}
			by[of(session.Owner)] = h
		}
		h.memory += held[session.ID]
		all += held[session.ID]
		if held[session.ID] > 0 && s.now().Sub(s.lastUse(session)) >= evictAfter {
			h.idle = append(h.idle, session)
		}
	}
	found.own, found.share = by[owner].memory, all/int64(len(by))
	delete(by, owner)
	for _, h := range by {
		slices.SortFunc(h.idle, func(a, b Session) int { return s.lastUse(a).Compare(s.lastUse(b)) })
		found.others = append(found.others, h)
	}
	slices.SortFunc(found.others, func(a, b *holding) int { return cmp.Compare(b.memory, a.memory) })
	return found
}

// lastUse returns when a session was used last.
func (s *Service) lastUse(session Session) time.Time {
	return s.touches.expiry(session.life()).Add(-session.TTL)
}
