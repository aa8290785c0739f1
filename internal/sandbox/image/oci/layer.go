package oci

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/engine"
)

// layer is one layer of an image.
type layer struct {
	digest v1.Hash // of its stored bytes; zero: only those of its archive are known
	diffID v1.Hash // of its archive
	size   int64   // of its stored bytes
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// layerName is what the layer with an index is called: "layer 2 of 5".
func layerName(i, all int) string { return fmt.Sprintf("layer %d of %d", i+1, all) }

// ratioFree is how much a layer may expand to whatever it expands from.
const ratioFree = 64 << 20

// maxWindow bounds the memory that reading a zstd layer takes.
const maxWindow = 64 << 20

// Magic numbers at the beginning of compressed layers.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// read calls use with the archive of a layer, and verifies it. An error says what is wrong with it.
func (l *layer) read(ctx context.Context, limits Limits, progress func(done int64), use func(io.Reader) error) error {
	stored, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer stored.Close()
	raw := &measured{Reader: stored, ctx: ctx, hash: sha256.New(), progress: progress}
	begin := bufio.NewReaderSize(raw, 256<<10)
	plain, end, err := decompress(begin)
	if err != nil {
		return damaged(err)
	}
	defer end()
	archive := &measured{Reader: plain, ctx: ctx, limit: func(n int64) error {
		switch {
		case n > 2*limits.Bytes: // with its headers
			return tooLarge(limits)
		case n > ratioFree && n/limits.Ratio > raw.n:
			return refuse(engine.ErrForbidden, "", "it expands to more than %d times its size", limits.Ratio)
		}
		return nil
	}}
	if plain != io.Reader(begin) {
		archive.hash = sha256.New()
	}
	ahead := readAhead(archive)
	err = use(ahead)
	if err == nil {
		_, err = io.Copy(io.Discard, ahead)
	}
	ahead.close()
	if err == nil {
		_, err = io.Copy(io.Discard, begin)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case archive.err != nil:
		return damaged(archive.err)
	case err != nil:
		return damaged(err)
	}
	return l.verify(raw, archive)
}

// verify compares what was read with the digests.
func (l *layer) verify(raw, archive *measured) error {
	stored := raw.sum()
	plain := stored
	if archive.hash != nil {
		plain = archive.sum()
	}
	for _, d := range []struct {
		want v1.Hash
		got  string
	}{{l.digest, stored}, {l.diffID, plain}} {
		if d.want != (v1.Hash{}) && d.want.Hex != d.got {
			return refuse(engine.ErrForbidden, "fetch the image again: it was altered or damaged on its way",
				"its digest is sha256:%.12s..., and the image names %.19s...", d.got, d.want)
		}
	}
	return nil
}

// damaged explains an error of reading a layer, unless it has its words already.
func damaged(err error) error {
	const again = "fetch the image again: it was cut off or damaged on its way"
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(engine.ErrForbidden, again, "it is cut off")
	}
	return refuse(kindOr(err, engine.ErrForbidden), again, "it cannot be read: %w", err)
}

// decompress returns the archive of a layer, and a function that ends its reading.
func decompress(r *bufio.Reader) (plain io.Reader, end func(), err error) {
	begin, err := r.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(begin, gzipMagic):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case bytes.HasPrefix(begin, zstdMagic):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// measured counts and hashes what is read.
type measured struct {
	io.Reader
	ctx      context.Context //nolint:containedctx // of the reading
	hash     hash.Hash
	n        int64
	limit    func(n int64) error
	progress func(n int64)
	err      error // other than the end
}

func (m *measured) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.Reader.Read(p)
	m.n += int64(n)
	if m.hash != nil {
		m.hash.Write(p[:n])
	}
	if m.progress != nil && n > 0 {
		m.progress(m.n)
	}
	if m.limit != nil {
		if refused := m.limit(m.n); refused != nil {
			n, err = 0, refused
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

func (m *measured) sum() string { return hex.EncodeToString(m.hash.Sum(nil)) }

// ahead reads in a goroutine, so that one processor decompresses while another writes files.
type ahead struct {
	chunks chan chunk
	free   chan []byte
	stop   chan struct{}
	now    chunk
	rest   []byte
}

type chunk struct {
	data []byte
	err  error
}

const (
	aheadChunks = 4
	aheadBytes  = 512 << 10
)

func readAhead(r io.Reader) *ahead {
	a := &ahead{chunks: make(chan chunk, aheadChunks), free: make(chan []byte, aheadChunks), stop: make(chan struct{})}
	for range aheadChunks {
		a.free <- make([]byte, aheadBytes)
	}
	go func() {
		defer close(a.chunks)
		for {
			var buf []byte
			select {
			case buf = <-a.free:
			case <-a.stop:
				return
			}
			n, err := io.ReadFull(r, buf)
			if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
				err = nil // the next call tells what it was
			}
			a.chunks <- chunk{buf[:n], err} // as many as there are buffers
			if err != nil {
				return
			}
		}
	}()
	return a
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.data != nil {
			a.free <- a.now.data[:aheadBytes]
		}
		a.now = <-a.chunks
		a.rest = a.now.data
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// close waits until the goroutine has ended.
func (a *ahead) close() {
	close(a.stop)
	for range a.chunks { // it may be sending the last one
	}
}
