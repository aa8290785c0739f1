package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
)

// provide tells a worker where to read a blob, if it is an input of this request.
func (x *visit) provide(ctx context.Context, b engine.Blob) error {
	if !x.isInput(b) {
		return fmt.Errorf("it asks for %s, which is no input", b.SHA256)
	}
	if signer := x.sandbox.config.Signer; signer != nil {
		address, err := signer.SignGet(ctx, b)
		if err != nil {
			return x.frames.sendJSON(kindBlob, blobAddress{Error: newFailure(err)})
		}
		return x.frames.sendJSON(kindBlob, blobAddress{URL: address})
	}
	content, err := x.sandbox.config.Blobs.Open(ctx, b.SHA256, b.Size)
	if err != nil {
		return x.frames.sendJSON(kindBlob, blobAddress{Error: newFailure(err)})
	}
	defer content.Close()
	if err := x.frames.sendJSON(kindBlob, blobAddress{Stream: true}); err != nil {
		return err
	}
	return x.frames.sendBytes(content)
}

// provideImage tells a worker where to read the archive of the program's image.
func (x *visit) provideImage(ctx context.Context) error {
	sign := x.sandbox.config.SignImage
	if x.image == nil || x.started {
		return errors.New("it asks for the image of a program that has none, or runs")
	}
	a := imageAddress{Image: *x.image}
	var err error
	if sign == nil || x.image.Archive == nil {
		err = &engine.Error{Op: "run", Kind: engine.ErrUnavailable, ID: x.image.Name,
			Err:   errors.New("the worker does not have this image, and workers get images from a bucket alone"),
			Cause: "its worker does not have its image", Hint: "set blobs, and add the image again"}
	} else {
		a.URL, err = sign(ctx, x.image.ID)
	}
	if err != nil {
		a.Error = newFailure(err)
	}
	x.fetches.Store(err == nil)
	return x.frames.sendJSON(kindArchive, a)
}

func (x *visit) isInput(b engine.Blob) bool {
	return slices.ContainsFunc(x.inputs, func(in engine.Input) bool { return in.SHA256 == b.SHA256 && in.Size == b.Size })
}

// accept tells a worker where to store blobs, and stores those that it sends on the stream.
// A worker has proved that it has a blob if it has sent it here, if it has stored it in the
// bucket with the mark of this request, or if it is an input of the request. That the bucket
// has the blob is no proof: it may be another tenant's.
func (x *visit) accept(ctx context.Context, list []engine.Blob) error {
	if x.stored == nil {
		x.stored, x.direct, x.mark = map[engine.Blob]bool{}, map[engine.Blob]bool{}, rand.Text()
	}
	addresses := make([]blobAddress, len(list))
	atOnce(len(list), func(i int) { addresses[i] = x.addressOf(ctx, list[i], x.direct[list[i]]) })
	for i, b := range list {
		x.direct[b] = x.direct[b] || addresses[i].URL != ""
		x.stored[b] = x.stored[b] || addresses[i].isStored()
	}
	if err := x.frames.sendJSON(kindAddresses, addresses); err != nil {
		return err
	}
	for i, b := range list {
		if !addresses[i].Stream {
			continue
		}
		in := &blobReader{frames: x.frames}
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

// addressOf returns where a worker is to store a blob. If the blob is announced again, the worker
// was to store it in the bucket: if another one has done that at the same time, the worker
// sends the bytes here.
func (x *visit) addressOf(ctx context.Context, b engine.Blob, again bool) (p blobAddress) {
	signer := x.sandbox.config.Signer
	if signer == nil {
		return blobAddress{Stream: true}
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
		return blobAddress{Error: newFailure(err)}
	}
	p.Stream = p.URL == "" && !there
	return p
}

// verify refuses outputs that the worker has not proved to have, and reads one that the
// worker has stored back now and then. Digests of all files are checked when they are read.
func (x *visit) verify(ctx context.Context, list []output) error {
	lies := func(b engine.Blob, what string) error {
		x.sandbox.config.Log.Error("a worker lies", "worker", x.target.name, "file", b.SHA256, "about", what)
		return &engine.Error{Op: "run", Kind: engine.ErrUnavailable,
			Cause: "its worker did not store what it said that it had",
			Err:   fmt.Errorf("worker %s: %s %s", x.target.name, b.SHA256, what)}
	}
	var direct []engine.Blob
	for _, o := range list {
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
	return nil // the worker is not to blame for a bucket that does not answer
}
