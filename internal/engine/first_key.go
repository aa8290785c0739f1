package engine

import (
	"context"
	"crypto/sha256"
	"errors"
)

// makeFirstKey makes a key with admin rights of the token in the settings, unless there is or was a key: a revoked one
// does not come back. Of several nodes that start at once one makes it.
func (s *Service) makeFirstKey(ctx context.Context) error {
	if s.cfg.FirstKey == "" || s.meter.keys.Load() > 0 {
		return nil
	}
	id, ok := keyIDOf(s.cfg.FirstKey)
	if !ok {
		return Invalid("first_key", "is no token of a key")
	}
	key := Key{ID: id, Owner: Local, Admin: true, CreatedAt: s.now(), Hash: sha256.Sum256([]byte(s.cfg.FirstKey))}
	if err := s.index.AddKey(ctx, key); err != nil && !errors.Is(err, ErrConflict) {
		return err
	}
	s.log.InfoContext(ctx, "there was no key: the one in the setting first_key has admin rights", "key", id)
	return s.loadAccounts(ctx)
}
