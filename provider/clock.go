package provider

import (
	"context"
	"time"
)

// Clock is the time, and how to let it pass. Tests hand in one that they turn
// themselves.
type Clock interface {
	Now() time.Time
	// Wait returns after d, or with the context's error when that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// SystemClock is the real one.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Wait implements Clock.
func (SystemClock) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
