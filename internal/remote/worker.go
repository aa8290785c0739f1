package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
)

// Worker lets apis use a sandbox. It has no database, no key of a bucket and none of a
// tenant: bytes come and go by addresses that are good for one object, or on the stream
// of the request that they belong to.
type Worker struct {
	config    WorkerConfig
	admission *admission
	bytes     http.Client

	mu        sync.Mutex
	draining  bool // it ends
	resting   bool // it was asked to take nothing new
	processes map[engine.ID]engine.Process
	idle      map[*host]func() // ends live interpreters that have nothing to do
	runs      sync.WaitGroup
}

// WorkerConfig sets up a Worker.
type WorkerConfig struct {
	Sandbox engine.Sandbox
	Cache   *blob.Cache
	Network engine.NetworkConfig // bounds what apis grant programs
	Slots   int                  // programs that compute at once
	Seats   int                  // programs at once, those that rest included
	Memory  int64                // for all of them, once there are more than slots
	Log     *slog.Logger
}

// Times after which a bucket that does not answer is taken for away, as an api does.
const (
	bucketDialTime  = 5 * time.Second
	bucketLostAfter = 10 * time.Second
	bucketTime      = 60 * time.Second
)

// NewWorker returns a worker, which serves as an http.Handler.
func NewWorker(c WorkerConfig) *Worker {
	bytes := http.DefaultTransport.(*http.Transport).Clone()
	bytes.DialContext = outbound.Dialer(bucketDialTime, bucketLostAfter).DialContext
	bytes.ResponseHeaderTimeout, bytes.MaxIdleConnsPerHost = bucketTime, 16
	return &Worker{config: c, bytes: http.Client{Transport: bytes}, processes: map[engine.ID]engine.Process{},
		idle:      map[*host]func(){},
		admission: &admission{slots: c.Slots, seats: max(c.Seats, c.Slots), memory: c.Memory}}
}

// Handler serves what apis ask. Who may ask has been found out before.
func (w *Worker) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /worker/v1/run", w.run)
	mux.HandleFunc("POST /worker/v1/hold", w.hold)
	mux.HandleFunc("POST /worker/v1/changes", w.changes)
	mux.HandleFunc("POST /worker/v1/ask", w.ask)
	w.inside(mux)
	return mux
}

// Drain has the worker take nothing new, and returns when what it does has ended or
// ctx has. Interpreters that wait for cells end: their files are stored, and their
// sessions go on elsewhere.
func (w *Worker) Drain(ctx context.Context) error {
	w.mu.Lock()
	w.draining = true
	for _, end := range w.idle {
		end()
	}
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.runs.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Worker) isDraining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining || w.resting
}

// rest has the worker take nothing new, or takes that back.
func (w *Worker) rest(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = yes
}

// Forget releases all that is held: nobody knows of it any more.
func (w *Worker) Forget(ctx context.Context) {
	held, err := w.config.Sandbox.Held(ctx)
	for id := range held {
		err = errors.Join(err, w.config.Sandbox.Release(ctx, id))
	}
	if err != nil {
		w.config.Log.Error("workspaces could not be released", "error", err)
	}
}

// rests notes whether a live interpreter has nothing to do. One of a worker that ends has
// no more use.
func (w *Worker) rests(h *host, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !yes || h.ended.Load():
		delete(w.idle, h)
	case w.draining:
		h.gone()
	default:
		w.idle[h] = h.gone
	}
}

// enter counts a request among those that Drain waits for. What is held is used until the
// worker ends; then it is gone, and made anew elsewhere.
func (w *Worker) enter(held bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case held && w.draining:
		return noWorkspace(engine.ID{})
	case !held && (w.draining || w.resting):
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New("the worker takes nothing new")}
	}
	w.runs.Add(1)
	return nil
}

// exchange is a request in which bytes of files come and go.
type exchange struct {
	worker  *Worker
	frames  *frames
	answers chan received // to what the worker has asked, once somebody else reads frames; nil: nobody does
}

type received struct {
	kind    kind
	payload []byte
}

func (w *Worker) exchange(rw http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{worker: w, frames: &frames{r: r.Body, w: rw, flush: http.NewResponseController(rw).Flush}}
}

// first reads what a request begins with.
func (x *exchange) first(message any) error {
	k, payload, err := x.frames.receive()
	if err == nil && k != kindRequest {
		err = fmt.Errorf("a frame %q before the request", k)
	}
	if err == nil {
		err = json.Unmarshal(payload, message)
	}
	if err != nil {
		return &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: err}
	}
	return nil
}

// answer waits for what the api says to a question.
func (x *exchange) answer(ctx context.Context, want kind, message any) error {
	var got received
	if x.answers != nil {
		select {
		case got = <-x.answers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	} else {
		var err error
		if got.kind, got.payload, err = x.frames.receive(); err != nil {
			return err
		}
	}
	if got.kind == kindCancel {
		return &engine.Error{Op: "worker", Kind: engine.ErrCanceled, Err: context.Canceled}
	}
	if got.kind != want {
		return fmt.Errorf("a frame %q, not %q", got.kind, want)
	}
	return json.Unmarshal(got.payload, message)
}

// open gives a sandbox its inputs: from the cache, else from where the api says.
func (x *exchange) open(ctx context.Context, list []input) (inputs []engine.Input, err error) {
	defer func() {
		if err != nil {
			closeInputs(inputs)
		}
	}()
	for _, in := range list {
		file := engine.Input{Path: string(in.Path), Size: in.Blob.Size, SHA256: in.Blob.SHA256, ReadOnly: in.ReadOnly}
		for range 2 {
			file.File, err = x.worker.config.Cache.Open(ctx, in.Blob.SHA256, in.Blob.Size)
			if engine.KindOf(err) != engine.ErrNotFound || err == nil {
				break
			}
			if fetched := x.fetch(ctx, in.Blob); fetched != nil {
				return inputs, fetched
			}
		}
		if err != nil {
			return inputs, err
		}
		x.worker.config.Cache.Touch(ctx, in.Blob)
		inputs = append(inputs, file)
	}
	return inputs, nil
}

func closeInputs(list []engine.Input) {
	for _, in := range list {
		in.File.Close()
	}
}

// fetch brings a blob into the cache.
func (x *exchange) fetch(ctx context.Context, b engine.Blob) error {
	if err := x.frames.sendJSON(kindNeed, b); err != nil {
		return err
	}
	var place blobPlace
	if err := x.answer(ctx, kindBlob, &place); err != nil {
		return err
	}
	if place.Error != nil {
		return place.Error.err()
	}
	var from io.Reader = &bytesIn{frames: x.frames}
	if !place.Stream {
		body, err := x.worker.get(ctx, place)
		if err != nil {
			return err
		}
		defer body.Close()
		from = body
	}
	got, err := x.worker.config.Cache.Put(ctx, from, b.Size)
	if err != nil {
		return err
	}
	x.worker.config.Cache.Touch(ctx, got)
	x.worker.config.Cache.Unpin(got.SHA256)
	if got != b {
		return &engine.Error{Op: "stage files", Kind: engine.ErrUnavailable, ID: b.SHA256.String(),
			Err: errors.New("other bytes came than were asked for")}
	}
	return nil
}

// get reads a presigned address.
func (w *Worker) get(ctx context.Context, place blobPlace) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place.URL, nil)
	if err != nil {
		return nil, err
	}
	answer, err := w.bytes.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("the bucket answered %s", answer.Status)
	}
	if err != nil {
		return nil, &engine.Error{Op: "stage files", Kind: engine.ErrUnavailable, Err: withoutAddress(err),
			Cause: "a file could not be read from the bucket"}
	}
	return answer.Body, nil
}

// put writes to a presigned address.
func (w *Worker) put(ctx context.Context, place blobPlace, b engine.Blob, r io.ReaderAt) (err error) {
	const tries = 3
	for try := range tries {
		var request *http.Request
		request, err = http.NewRequestWithContext(ctx, http.MethodPut, place.URL, io.NewSectionReader(r, 0, b.Size))
		if err != nil {
			return err
		}
		request.ContentLength = b.Size
		for name, values := range place.Header {
			request.Header[name] = values
		}
		var answer *http.Response
		if answer, err = w.bytes.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
			answer.Body.Close()
			if answer.StatusCode/100 == 2 {
				return nil
			}
			err = fmt.Errorf("the bucket answered %s", answer.Status)
			if answer.StatusCode/100 == 4 {
				break
			}
		}
		select {
		case <-time.After(time.Duration(try+1) * 100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return withoutAddress(err)
}

// store has what programs left stored, and returns what is.
func (x *exchange) store(ctx context.Context, list []engine.Output) (stored []output, dropped []engine.DroppedFile,
	err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	drop := func(o engine.Output) {
		dropped = append(dropped, engine.DroppedFile{Path: o.Path, Reason: "it could not be stored"})
	}
	var blobs []engine.Blob
	var open []io.ReadCloser
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	cache := x.worker.config.Cache
	for _, o := range list {
		b, err := cache.Put(ctx, io.NewSectionReader(o.File, 0, o.Size), o.Size)
		if err != nil {
			drop(o)
			continue
		}
		f, err := cache.Open(ctx, b.SHA256, b.Size) // programs may go on to change theirs
		cache.Unpin(b.SHA256)
		cache.Touch(ctx, b)
		if err != nil {
			drop(o)
			continue
		}
		open, blobs = append(open, f), append(blobs, b)
		stored = append(stored, output{Path: o.Path, Blob: b, Head: engine.Head(f), Input: o.Input, Respelled: o.Respelled})
	}
	faults, err := x.hand(ctx, blobs, open)
	if err != nil {
		return nil, nil, err
	}
	kept := stored[:0]
	for i, o := range stored {
		if faults[i] != nil {
			x.worker.config.Log.Warn("a file could not be stored", "error", faults[i])
			drop(engine.Output{Path: o.Path})
			continue
		}
		kept = append(kept, o)
	}
	return kept, dropped, nil
}

// hand has blobs stored, and says of each whether it is. What the bucket was given is
// announced once more: the api looks whether it is there from this worker.
func (x *exchange) hand(ctx context.Context, blobs []engine.Blob, open []io.ReadCloser) ([]error, error) {
	faults := make([]error, len(blobs))
	left := make([]int, len(blobs))
	for i := range left {
		left[i] = i
	}
	for round := 0; len(left) > 0 && round < 2; round++ {
		list := make([]engine.Blob, len(left))
		for at, i := range left {
			list[at] = blobs[i]
		}
		if err := x.frames.sendJSON(kindOutputs, list); err != nil {
			return nil, err
		}
		var places []blobPlace
		if err := x.answer(ctx, kindPlaces, &places); err != nil {
			return nil, err
		}
		if len(places) != len(left) {
			return nil, errors.New("a place is missing")
		}
		for at, i := range left { // in this order the api reads them
			switch {
			case places[at].Error != nil:
				faults[i] = places[at].Error.err()
			case places[at].Stream:
				faults[i] = x.frames.sendBytes(open[i])
			}
		}
		atOnce(len(left), func(at int) {
			if i := left[at]; places[at].URL != "" {
				faults[i] = x.worker.put(ctx, places[at], blobs[i], open[i].(io.ReaderAt))
			}
		})
		var direct []int
		for at, i := range left {
			if places[at].URL != "" && faults[i] == nil {
				direct = append(direct, i)
			}
		}
		left = direct
	}
	return faults, nil
}

// atOnce does so many things, some of them at the same time.
func atOnce(n int, do func(i int)) {
	const most = 16
	var group sync.WaitGroup
	slots := make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}

// refuse answers a request of which nothing has been done.
func refuse(rw http.ResponseWriter, err error) {
	f := newFailure(err)
	status := http.StatusInternalServerError
	switch f.Kind {
	case engine.ErrBusy:
		status = http.StatusTooManyRequests
	case engine.ErrUnavailable:
		status = http.StatusServiceUnavailable
	case engine.ErrNotFound:
		status = http.StatusNotFound
	case engine.ErrNetwork:
		status = http.StatusForbidden
	case engine.ErrInvalid, engine.ErrConflict, engine.ErrTooLarge, engine.ErrNoLanguage:
		status = http.StatusBadRequest
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(f)
}
