package remote

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/airlock-run/airlock/internal/engine"
)

// give tells a worker where an input is, if it is one of this request.
func (x *visit) give(ctx context.Context, b engine.Blob) error {
	there := false
	for _, in := range x.inputs {
		there = there || in.SHA256 == b.SHA256 && in.Size == b.Size
	}
	if !there {
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

// takeOver says where a worker is to store what it has, and stores what comes on the
// stream.
func (x *visit) takeOver(ctx context.Context, list []engine.Blob) error {
	places := make([]blobPlace, len(list))
	if x.told == nil {
		x.told = map[engine.Blob]bool{}
	}
	signer, direct := x.sandbox.config.Blobs.(Signer)
	for i, b := range list {
		p := blobPlace{Stream: true}
		if direct {
			address, header, there, err := signer.SignPut(ctx, b)
			p = blobPlace{URL: address, Header: header, Stream: address == "" && !there}
			if err != nil {
				p = blobPlace{Error: newFailure(err)}
			}
		}
		places[i] = p
		x.told[b] = p.URL != ""
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
	}
	return nil
}

// verify refuses files that were not announced, and reads one back now and then that the
// worker says it has stored itself. All are compared with their digests when they are read.
func (x *visit) verify(ctx context.Context, list []output) error {
	lies := func(b engine.Blob, what string) error {
		x.sandbox.config.Log.Error("a worker lies", "worker", x.target.Name, "file", b.SHA256, "about", what)
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable,
			Cause: "its worker did not store what it said that it had",
			Err:   fmt.Errorf("worker %s: %s %s", x.target.Name, b.SHA256, what)}
	}
	var direct []engine.Blob
	for _, o := range list {
		own, known := x.told[o.Blob]
		if !known {
			return lies(o.Blob, "was not announced")
		}
		if own {
			direct = append(direct, o.Blob)
		}
	}
	if len(direct) == 0 || !x.sandbox.sampled() {
		return nil
	}
	b := direct[rand.IntN(len(direct))]
	f, err := x.sandbox.config.Blobs.Open(ctx, b.SHA256, b.Size)
	switch {
	case err == nil:
		return f.Close()
	case engine.KindOf(err) == engine.ErrNotFound:
		return lies(b, "is not in the bucket")
	}
	return nil // a bucket that is away is nobody's lie
}
