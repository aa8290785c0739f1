package remote

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
)

// Worker lets apis use a sandbox. It has no database, and no key of a bucket or a tenant:
// it reads and writes files at addresses that are valid for one object, or on the stream
// of the request that needs them.
type Worker struct {
	config    WorkerConfig
	admission *admission
	bytes     *http.Client

	mu        sync.Mutex
	draining  bool // Drain was called
	resting   bool // an api asked it to take nothing new
	processes map[engine.ID]engine.Process
	idle      map[*host]func() // these end the live interpreters that wait for a cell
	leases    map[engine.ID]*leased
	sweeping  bool
	runs      sync.WaitGroup

	orphanTime time.Duration
}

// WorkerConfig sets up a Worker.
type WorkerConfig struct {
	Sandbox engine.Sandbox
	Cache   *blob.Cache
	Images  *oci.Cache           // nil: it runs programs in images that it has otherwise
	Network engine.NetworkConfig // bounds what apis grant programs
	Slots   int                  // programs that compute at once
	Seats   int                  // programs at once, including those that rest
	Memory  int64                // bound for all programs, once there are more than Slots
	Room    func() error         // an error while the disk is low; nil: it is not watched
	Log     *slog.Logger
}

// Times after which a bucket that does not answer counts as unavailable, as in an api.
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
	return &Worker{config: c, bytes: outbound.Guard(http.Client{Transport: bytes}),
		processes: map[engine.ID]engine.Process{},
		idle:      map[*host]func(){}, leases: map[engine.ID]*leased{}, orphanTime: orphanTime,
		admission: &admission{slots: c.Slots, seats: max(c.Seats, c.Slots), memory: c.Memory}}
}

// Handler serves apis. The server has authenticated them.
func (w *Worker) Handler() http.Handler {
	mux := http.NewServeMux()
	handle(mux, "ask", fromBody, w.serveQuery)
	handle(mux, "run", fromFrame, w.run)
	handle(mux, "hold", fromFrame, w.hold)
	handle(mux, "changes", fromFrame, w.changes)
	handle(mux, "open", fromHeader, w.open)
	handle(mux, "write", fromHeader, w.write)
	handle(mux, "watch", fromHeader, w.watch)
	handle(mux, "dial", fromHeader, w.dial)
	handle(mux, "start", fromHeader, w.start)
	return mux
}

// handle registers a handler. read decodes its request; an error that serve returns refuses
// the request.
func handle[T any](
	mux *http.ServeMux, name string, read func(r *http.Request, request *T) error,
	serve func(rw http.ResponseWriter, r *http.Request, request *T) error,
) {
	mux.HandleFunc("POST /worker/v1/"+name, func(rw http.ResponseWriter, r *http.Request) {
		var request T
		err := read(r, &request)
		if err != nil {
			err = &engine.Error{Op: "worker", Kind: engine.ErrInvalid, Err: err}
		} else {
			err = serve(rw, r, &request)
		}
		if err != nil {
			refuse(rw, err)
		}
	})
}

// fromBody reads a request that is the whole body.
func fromBody[T any](r *http.Request, request *T) error {
	return json.NewDecoder(r.Body).Decode(request)
}

// fromFrame reads a request that is the first frame of the body.
func fromFrame[T any](r *http.Request, request *T) error {
	k, payload, err := (&frames{r: r.Body}).receive()
	if err != nil {
		return err
	}
	if k != kindRequest {
		return fmt.Errorf("a frame %q before the request", k)
	}
	return json.Unmarshal(payload, request)
}

// headRequest is the header with the request if the body is content.
const headRequest = "Airlock-Request"

// headPID is the header with the number of a process that was started.
const headPID = "Airlock-Pid"

// fromHeader reads a request from the header.
func fromHeader[T any](r *http.Request, request *T) error {
	return json.Unmarshal([]byte(r.Header.Get(headRequest)), request)
}

// Drain has the worker take nothing new, and returns when all requests have ended or ctx
// has. Interpreters that wait for cells end: their files are stored, and their sessions
// continue on other workers.
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

// admitsHeld reports whether programs in held workspaces are still admitted.
func (w *Worker) admitsHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.draining
}

// setResting has the worker take nothing new, or take requests again.
func (w *Worker) setResting(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = yes
}

// Forget releases all held workspaces, because no api knows of them any more.
func (w *Worker) Forget(ctx context.Context) {
	w.mu.Lock()
	clear(w.leases)
	w.mu.Unlock()
	held, err := w.config.Sandbox.Held(ctx)
	for id := range held {
		err = errors.Join(err, w.config.Sandbox.Release(ctx, id, 0))
	}
	if err != nil {
		w.config.Log.Error("workspaces could not be released", "error", err)
	}
}

// setIdle notes whether a live interpreter waits for a cell. Once the worker drains, such an
// interpreter ends.
func (w *Worker) setIdle(h *host, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !yes || h.ended.Load():
		delete(w.idle, h)
	case w.draining:
		h.cancel()
	default:
		w.idle[h] = h.cancel
	}
}

// enter counts a request that Drain waits for. Programs in held workspaces are admitted
// until the worker drains; then the workspaces are lost, and restored on other workers.
func (w *Worker) enter(held bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case held && w.draining:
		return noWorkspace(engine.ID{})
	case !held && (w.draining || w.resting):
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New("the worker takes nothing new")}
	}
	if err := w.room(); err != nil && !held {
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: err, RetryAfter: time.Second,
			Cause: "the disk of its worker is low"}
	}
	w.runs.Add(1)
	return nil
}

// room returns an error while the disk is low: what programs leave passes through it.
func (w *Worker) room() error {
	if w.config.Room == nil {
		return nil
	}
	return w.config.Room()
}

// exchange is a request whose stream carries files in both directions.
type exchange struct {
	worker  *Worker
	frames  *frames
	answers chan received // to questions of the worker; nil: answer reads the frames itself
}

type received struct {
	kind    kind
	payload []byte
}

func (w *Worker) exchange(rw http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{worker: w, frames: &frames{r: r.Body, w: rw, flush: http.NewResponseController(rw).Flush}}
}

// answer waits for the answer of the api to a question.
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

// open opens inputs in the cache, after it has fetched those that are missing.
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

// fetch reads a blob into the cache.
func (x *exchange) fetch(ctx context.Context, b engine.Blob) error {
	if err := x.frames.sendJSON(kindNeed, b); err != nil {
		return err
	}
	var address blobAddress
	if err := x.answer(ctx, kindBlob, &address); err != nil {
		return err
	}
	if address.Error != nil {
		return address.Error.err()
	}
	var from io.Reader = &blobReader{frames: x.frames}
	if !address.Stream {
		body, err := x.worker.get(ctx, address)
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

// get returns the object at a presigned address.
func (w *Worker) get(ctx context.Context, address blobAddress) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.URL, nil)
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
func (w *Worker) put(ctx context.Context, address blobAddress, b engine.Blob, r io.ReaderAt) (err error) {
	const tries = 3
	for try := range tries {
		var request *http.Request
		request, err = http.NewRequestWithContext(ctx, http.MethodPut, address.URL, io.NewSectionReader(r, 0, b.Size))
		if err != nil {
			return err
		}
		request.ContentLength = b.Size
		for name, values := range address.Header {
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

// fileOf reads a file that somebody else closes.
type fileOf struct{ *io.SectionReader }

func (fileOf) Close() error { return nil }

// digestOf returns the digest of an output.
func digestOf(o engine.Output) (engine.Blob, error) {
	hash := sha256.New()
	n, err := io.Copy(hash, io.NewSectionReader(o.File, 0, o.Size))
	if err == nil && n != o.Size {
		err = io.ErrUnexpectedEOF
	}
	return engine.Blob{SHA256: engine.Digest(hash.Sum(nil)), Size: n}, err
}

// store stores outputs, in the bucket or at the api, and returns those that it stored. Their programs have ended, or
// may change them.
func (x *exchange) store(
	ctx context.Context, list []engine.Output, ended bool,
) (stored []output, dropped []engine.DroppedFile, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	drop := func(o engine.Output) {
		dropped = append(dropped, engine.DroppedFile{Path: o.Path, Reason: engine.DropUnstored})
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
		if err != nil { // without room there, it goes straight from the program's file, which nobody writes any more
			if direct, err := digestOf(o); err == nil && ended {
				open, blobs = append(open, fileOf{io.NewSectionReader(o.File, 0, o.Size)}), append(blobs, direct)
				stored = append(stored, output{Path: o.Path, Blob: direct, Head: engine.Head(o.File), Input: o.Input,
					Respelled: o.Respelled})
				continue
			}
			x.worker.config.Log.Error("a file of a program could not be stored", "size", o.Size, "error", err)
			drop(o)
			continue
		}
		f, err := cache.Open(ctx, b.SHA256, b.Size) // a program that still runs may change its own
		cache.Unpin(b.SHA256)
		cache.Touch(ctx, b)
		if err != nil {
			drop(o)
			continue
		}
		open, blobs = append(open, f), append(blobs, b)
		stored = append(stored, output{Path: o.Path, Blob: b, Head: engine.Head(f), Input: o.Input, Respelled: o.Respelled})
	}
	faults, err := x.upload(ctx, blobs, open)
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

// upload stores blobs, and returns the error of each. Those that it has put into the bucket
// are announced again, so that the api checks that they came from this worker.
func (x *exchange) upload(ctx context.Context, blobs []engine.Blob, open []io.ReadCloser) ([]error, error) {
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
		var addresses []blobAddress
		if err := x.answer(ctx, kindAddresses, &addresses); err != nil {
			return nil, err
		}
		if len(addresses) != len(left) {
			return nil, errors.New("an address is missing")
		}
		for at, i := range left { // the api reads them in this order
			switch {
			case addresses[at].Error != nil:
				faults[i] = addresses[at].Error.err()
			case addresses[at].Stream:
				faults[i] = x.frames.sendBytes(open[i])
			}
		}
		atOnce(len(left), func(at int) {
			if i := left[at]; addresses[at].URL != "" {
				faults[i] = x.worker.put(ctx, addresses[at], blobs[i], open[i].(io.ReaderAt))
			}
		})
		var direct []int
		for at, i := range left {
			if addresses[at].URL != "" && faults[i] == nil {
				direct = append(direct, i)
			}
		}
		left = direct
	}
	return faults, nil
}

// atOnce calls do for 0 to n-1, with up to 16 calls at the same time.
func atOnce(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait()
}

// refuse answers a request that the worker has not begun.
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
