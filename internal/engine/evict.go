package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Held workspaces are memory, which all owners share. When it is used up, who has
// less than an equal part of it gets room: the sessions of who has most go, the
// one that was not used for longest first. Nobody loses one to a newcomer that was
// used a moment ago, or that a run is in, or to themselves.
const evictAfter = time.Minute

// holding is what one owner holds.
type holding struct {
	owner  Owner
	memory int64
	idle   []Session // the one not used for longest first
}

// evict gives workspaces of other owners back, until there is so much more memory
// for an owner. It reports whether any are.
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
	others, own, share := s.holdings(sessions, held, owner)
	if own+need > share {
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
			if s.giveUp(ctx, op, session) {
				h.memory -= held[session.ID]
				freed += held[session.ID]
			}
		}
	}
	return freed > 0
}

// giveUp drops an idle session, unless a run came first.
func (s *Service) giveUp(ctx context.Context, op string, session Session) bool {
	if _, err := s.beginDelete(op, session, false); err != nil {
		return false
	}
	defer s.endDelete(session.ID)
	if err := s.dropSession(ctx, op, session); err != nil {
		s.logFailure(ctx, op, err)
		return false
	}
	s.log.WarnContext(ctx, "an idle session was evicted: another owner needs the memory of held workspaces", "session",
		session.ID, "owner", session.Owner)
	return true
}

// holdings sums up what each owner holds, who has most first, without one of
// them, whose part is apart. share is an equal part of all.
func (s *Service) holdings(sessions []Session, held map[ID]int64, owner Owner) (others []*holding, own, share int64) {
	by := map[Owner]*holding{owner: {owner: owner}}
	var all int64
	for _, session := range sessions {
		h := by[session.Owner]
		if h == nil {
			h = &holding{owner: session.Owner}
			by[session.Owner] = h
		}
		h.memory += held[session.ID]
		all += held[session.ID]
		if held[session.ID] > 0 && s.now().Sub(s.lastUse(session)) >= evictAfter {
			h.idle = append(h.idle, session)
		}
	}
	own, share = by[owner].memory, all/int64(len(by))
	delete(by, owner)
	for _, h := range by {
		slices.SortFunc(h.idle, func(a, b Session) int { return s.lastUse(a).Compare(s.lastUse(b)) })
		others = append(others, h)
	}
	slices.SortFunc(others, func(a, b *holding) int { return cmp.Compare(b.memory, a.memory) })
	return others, own, share
}

// lastUse is when a session was used last.
func (s *Service) lastUse(session Session) time.Time {
	return s.touches.sessionExpiry(session).Add(-session.TTL)
}
