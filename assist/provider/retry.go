package provider

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// Retry says how often and after what pauses a call is repeated. The zero value
// is the default: 3 tries, 1 s before the second, twice as long
// before each further one, 10 s at most, 60 s of waiting in all.
type Retry struct {
	Tries  int           // including the first
	First  time.Duration // before the second try
	Factor float64
	Most   time.Duration // of one wait, unless the provider asks for more
	// Asked is the longest wait that a provider may ask for (Retry-After,
	// RetryInfo). If it asks for more, Do returns the error at once, with the time
	// in it.
	Asked  time.Duration
	Budget time.Duration // of all waits together
	Clock  Clock
	// Random returns a number in [0, 1) for the jitter.
	Random func() float64
	// Again is called before each repetition; may be nil.
	Again func(err error, wait time.Duration)
}

func (r Retry) filled() Retry {
	r.Tries = cmp.Or(r.Tries, 3)
	r.First = cmp.Or(r.First, time.Second)
	r.Factor = cmp.Or(r.Factor, 2)
	r.Most = cmp.Or(r.Most, 10*time.Second)
	r.Asked = cmp.Or(r.Asked, 30*time.Second)
	r.Budget = cmp.Or(r.Budget, time.Minute)
	if r.Clock == nil {
		r.Clock = SystemClock{}
	}
	if r.Random == nil {
		r.Random = rand.Float64
	}
	return r
}

// Do calls once until it succeeds, fails with an error that is not retryable, or the
// limits are reached. Its error has the number of attempts. Do does not repeat an
// error with such a number: of a Do within a Do only the inner one repeats.
func (r Retry) Do(ctx context.Context, once func(context.Context) error) error {
	r = r.filled()
	wait, waited := r.First, time.Duration(0)
	for try := 1; ; try++ {
		err := once(ctx)
		if err == nil {
			return nil
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Kind.Retryable() || e.Attempts > 0 || ctx.Err() != nil {
			return err
		}
		pause := r.pause(e, wait)
		if try >= r.Tries || waited+pause > r.Budget || e.RetryAfter > r.Asked {
			final := *e
			final.Attempts = try
			return &final
		}
		if r.Again != nil {
			r.Again(err, pause)
		}
		if err := r.Clock.Wait(ctx, pause); err != nil {
			return err
		}
		waited += pause
		wait = min(time.Duration(float64(wait)*r.Factor), r.Most)
	}
}

// pause returns the wait with jitter, so that many clients do not come back at the same
// moment, but no less than the provider asks for.
func (r Retry) pause(e *Error, wait time.Duration) time.Duration {
	own := time.Duration(float64(wait) * (0.5 + r.Random()/2))
	return max(e.RetryAfter, own)
}

// Rewound seeks the body to start for another attempt and reports whether that is
// possible.
func (u Upload) Rewound(start int64) bool {
	s, ok := u.Body.(io.Seeker)
	if !ok {
		return false
	}
	_, err := s.Seek(start, io.SeekStart)
	return err == nil
}

// An AttemptReader is the body of one attempt of a request. An HTTP transport may read
// a body after it has returned. After Revoke such a Read fails, so that the next attempt
// is the only user of the reader.
type AttemptReader struct {
	mu   sync.Mutex
	from io.Reader
	over bool
}

// NewAttemptReader returns a reader of r that can be revoked.
func NewAttemptReader(r io.Reader) *AttemptReader { return &AttemptReader{from: r} }

var errRevoked = errors.New("this attempt is over")

// Read implements io.Reader.
func (l *AttemptReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, errRevoked
	}
	return l.from.Read(p)
}

// Revoke ends reading. It waits for a Read that is in progress.
func (l *AttemptReader) Revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// Clock tells the time and waits. Tests replace it.
type Clock interface {
	Now() time.Time
	// Wait returns after d, or with the context's error when that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// SystemClock is the clock of the system.
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
