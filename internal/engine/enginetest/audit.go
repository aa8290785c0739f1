package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// AddAudit records an act of administration.
func (x *Index) AddAudit(ctx context.Context, entry engine.AuditEntry) error {
	if err := x.called(ctx, "AddAudit"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	x.audit = append(x.audit, entry)
	return nil
}

// Audit returns acts of administration, newest first.
func (x *Index) Audit(ctx context.Context, q engine.AuditQuery) (list []engine.AuditEntry, err error) {
	if err := x.called(ctx, "Audit"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	for _, e := range slices.Backward(x.audit) {
		if e.At.Before(q.Before) && !e.At.Before(q.Since) && len(list) < q.Limit {
			list = append(list, e)
		}
	}
	return list, nil
}

// ExpireAudit deletes nothing.
func (x *Index) ExpireAudit(ctx context.Context, _ time.Time, _ int) (int, error) {
	if err := x.called(ctx, "ExpireAudit"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	return 0, nil
}
