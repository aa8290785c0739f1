package engine

import (
	"context"
	"sync/atomic"
)

// request is what is known of the request that a context belongs to.
type request struct {
	id  string
	run atomic.Pointer[ID]
}

type requestKey struct{}

// WithRequest returns the context of a request, with its id for the log.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{id: id})
}

// RequestID returns the id of a context's request.
func RequestID(ctx context.Context) (id string, ok bool) {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return "", false
	}
	return r.id, true
}

// NoteRun notes that a request has begun a run.
func NoteRun(ctx context.Context, run ID) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		r.run.Store(&run)
	}
}

// RunNoted returns the run that a request has begun, the last one if there were several; zero: none.
func RunNoted(ctx context.Context) ID {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		if run := r.run.Load(); run != nil {
			return *run
		}
	}
	return ID{}
}
