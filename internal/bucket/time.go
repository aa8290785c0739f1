package bucket

import (
	"net/http"
	"sync/atomic"
	"time"
)

// serverTime is the clock of the bucket's modification times. The clock of this machine
// may be wrong by more than the minimum age for Sweep.
type serverTime struct {
	http.RoundTripper
	ahead atomic.Int64 // nanoseconds, of its last answer
}

func (t *serverTime) through(next http.RoundTripper) http.RoundTripper {
	t.RoundTripper = next
	return t
}

func (t *serverTime) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(request)
	if err == nil {
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			t.ahead.Store(int64(time.Until(date)))
		}
	}
	return answer, err
}

func (t *serverTime) now() time.Time { return time.Now().Add(time.Duration(t.ahead.Load())) }
