package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
)

// give tells a worker where an input is, if it is one of this request.
func (x *visit) give(ctx context.Context, b engine.Blob) error {
	if !x.isInput(b) {
		return fmt.Errorf("it asks for %s, which is no input", b.SHA256)
	}
	if signer, ok := x.sandbox.config.Blobs.(Signer); ok {
		address, err := signer.SignGet(ctx, b)
		place := blobPlace{URL: address}
		if err != nil {
			place = blobPlace{Error: newFailure(err)}
		}
		return x.frames.sendJSON(kindBlob, place)
	}
	content, err := x.sandbox.config.Blobs.Open(ctx, b.SHA256, b.Size)
	if err != nil {
		return x.frames.sendJSON(kindBlob, blobPlace{Error: newFailure(err)})
	}
	defer content.Close()
	if err := x.frames.sendJSON(kindBlob, blobPlace{Stream: true}); err != nil {
		return err
	}
	return x.frames.sendBytes(content)
}

func (x *visit) isInput(b engine.Blob) bool {
	return slices.ContainsFunc(x.inputs, func(in engine.Input) bool { return in.SHA256 == b.SHA256 && in.Size == b.Size })
}

// takeOver says where a worker is to store what it has, and stores what comes on the
// stream. A worker has bytes if it has sent them here, if it has stored them in the bucket
// with the mark of this request, or if they are an input of it: that the bucket has them
// is no proof, for they may be another tenant's.
func (x *visit) takeOver(ctx context.Context, list []engine.Blob) error {
	if x.stored == nil {
		x.stored, x.direct, x.mark = map[engine.Blob]bool{}, map[engine.Blob]bool{}, rand.Text()
	}
	places := make([]blobPlace, len(list))
	atOnce(len(list), func(i int) { places[i] = x.place(ctx, list[i], x.direct[list[i]]) })
	for i, b := range list {
		x.direct[b] = x.direct[b] || places[i].URL != ""
		x.stored[b] = x.stored[b] || places[i].there()
	}
	if err := x.frames.sendJSON(kindPlaces, places); err != nil {
		return err
	}
	for i, b := range list {
		if !places[i].Stream {
			continue
		}
		in := &bytesIn{frames: x.frames}
		got, err := x.sandbox.config.Blobs.Put(ctx, in, b.Size)
		if err != nil {
			return err
		}
		x.pinned = append(x.pinned, got.SHA256)
		if got != b {
			return fmt.Errorf("it announced %s and sent %s", b.SHA256, got.SHA256)
		}
		x.stored[b] = true
	}
	return nil
}

// place says where one blob goes. One that is announced again was to be stored by the
// worker: if somebody else has done that at the same time, its bytes are to come here.
func (x *visit) place(ctx context.Context, b engine.Blob, again bool) (p blobPlace) {
	signer, ok := x.sandbox.config.Blobs.(Signer)
	if !ok {
		return blobPlace{Stream: true}
	}
	var there bool
	var err error
	if again {
		there, err = signer.Marked(ctx, b, x.mark)
	} else {
		p.URL, p.Header, there, err = signer.SignPut(ctx, b, x.mark)
		there = there && x.isInput(b)
	}
	if err != nil {
		return blobPlace{Error: newFailure(err)}
	}
	p.Stream = p.URL == "" && !there
	return p
}

// verify refuses files of which the worker has not shown that it has them, and reads one
// back now and then that it has stored itself. All are compared with their digests when
// they are read.
func (x *visit) verify(ctx context.Context, list []output) error {
	lies := func(b engine.Blob, what string) error {
		x.sandbox.config.Log.Error("a worker lies", "worker", x.target.Name, "file", b.SHA256, "about", what)
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable,
			Cause: "its worker did not store what it said that it had",
			Err:   fmt.Errorf("worker %s: %s %s", x.target.Name, b.SHA256, what)}
	}
	var direct []engine.Blob
	for _, o := range list {
		if x.direct[o.Blob] && !x.stored[o.Blob] { // a worker of an earlier version announces nothing twice
			p := x.place(ctx, o.Blob, true)
			x.stored[o.Blob] = p.there()
		}
		if !x.stored[o.Blob] {
			return lies(o.Blob, "was not stored by it")
		}
		if x.direct[o.Blob] {
			direct = append(direct, o.Blob)
		}
	}
	if len(direct) == 0 || !x.sandbox.sampled() {
		return nil
	}
	b := direct[mathrand.IntN(len(direct))]
	f, err := x.sandbox.config.Blobs.Open(ctx, b.SHA256, b.Size)
	switch {
	case err == nil:
		return f.Close()
	case engine.KindOf(err) == engine.ErrNotFound:
		return lies(b, "is not in the bucket")
	}
	return nil // a bucket that is away is nobody's lie
}
