package oci

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/engine"
)

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var to bytes.Buffer
	w := gzip.NewWriter(&to)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func zstandard(t *testing.T, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func digestOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// A layer is read whatever its compression, and refused if one of its bytes differs or is missing.
func TestReadLayer(t *testing.T) {
	plain := bytes.Repeat([]byte("a layer of an image\n"), 100_000)
	read := func(stored []byte, digest, diffID v1.Hash) (string, error) {
		l := &layer{digest: digest, diffID: diffID, open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(stored)), nil
		}}
		var got bytes.Buffer
		err := l.read(t.Context(), New(Config{}).Limits, nil, func(r io.Reader) error {
			_, err := got.ReadFrom(r)
			return err
		})
		return got.String(), err
	}
	for name, stored := range map[string][]byte{"plain": plain, "gzip": gzipped(t, plain), "zstd": zstandard(t, plain)} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(stored, digestOf(stored), digestOf(plain)); err != nil || got != string(plain) {
				t.Errorf("%d bytes and %v, want %d", len(got), err, len(plain))
			}
			_, err := read(stored, digestOf([]byte("other")), digestOf(plain))
			checkError(t, err, engine.ErrForbidden, "its digest is")
			_, err = read(stored, digestOf(stored), digestOf([]byte("other")))
			checkError(t, err, engine.ErrForbidden, "its digest is")
			cut := stored[:len(stored)-len(stored)/3]
			if _, err = read(cut, digestOf(stored), digestOf(plain)); err == nil {
				t.Error("a layer that was cut off was read")
			}
			if name != "plain" {
				checkError(t, err, engine.ErrForbidden, "cut off")
			}
		})
	}
}

// A layer that expands without end is refused early.
func TestBomb(t *testing.T) {
	zeros := make([]byte, 80<<20)
	for name, stored := range map[string][]byte{"gzip": gzipped(t, zeros), "zstd": zstandard(t, zeros)} {
		t.Run(name, func(t *testing.T) {
			l := &layer{open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(stored)), nil }}
			var n int64
			err := l.read(t.Context(), New(Config{}).Limits, nil, func(r io.Reader) (err error) {
				n, err = io.Copy(io.Discard, r)
				return err
			})
			checkError(t, err, engine.ErrForbidden, "expands to more than 200 times")
			if n > ratioFree+4<<20 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
	l := &layer{open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(strings.NewReader(strings.Repeat("x", 3000)), 3000)), nil
	}}
	limits := New(Config{Limits: Limits{Bytes: 1000}}).Limits
	err := l.read(t.Context(), limits, nil, func(io.Reader) error { return nil })
	checkError(t, err, engine.ErrTooLarge, "more than the 1000 B")
}

// Reading ends when it is cancelled.
func TestReadLayerCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &layer{open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(endless{cancel}), nil }}
	err := l.read(ctx, New(Config{}).Limits, nil, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err != context.Canceled { //nolint:errorlint // it is that error itself
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

// endless is a reader that cancels at its first byte.
type endless struct{ cancel func() }

func (e endless) Read(p []byte) (int, error) {
	e.cancel()
	return len(p), nil
}
