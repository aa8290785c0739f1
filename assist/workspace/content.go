package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Content is the bytes of a file: in memory, in an open file, or in a store. A
// Content does not change, and several readers can read it at once.
type Content struct {
	hash Hash
	size int64
	data []byte                                       // in memory
	file io.ReaderAt                                  // or in a file
	kept func(context.Context) (io.ReadCloser, error) // or in a store
}

// Bytes returns data as a Content. The caller must not change data afterwards.
func Bytes(data []byte) *Content {
	if data == nil {
		data = []byte{}
	}
	return &Content{hash: Sum(data), size: int64(len(data)), data: data}
}

// File returns the first size bytes of an open file as a Content. hash is
// their SHA-256, such as the approved one; if it is zero, File reads the file to
// compute it. The bytes are checked against the hash when they are written, so a
// file that changes in between is never saved. The caller keeps the file open
// until the commit has returned, and closes it.
func File(ctx context.Context, file io.ReaderAt, size int64, hash Hash) (*Content, error) {
	c := &Content{hash: hash, size: size, file: file}
	if !hash.IsZero() {
		return c, nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, &contextReader{ctx, io.NewSectionReader(file, 0, size)})
	if err != nil {
		return nil, err
	}
	if n != size {
		return nil, fmt.Errorf("the file ends after %d bytes, %d were announced", n, size)
	}
	sum.Sum(c.hash[:0])
	return c, nil
}

// keptContent returns a content in a store.
func keptContent(store Store, hash Hash, size int64) *Content {
	return &Content{hash: hash, size: size, kept: func(ctx context.Context) (io.ReadCloser, error) {
		return store.Open(ctx, hash)
	}}
}

// Hash returns the SHA-256 of the bytes.
func (c *Content) Hash() Hash { return c.hash }

// Size returns how many bytes there are.
func (c *Content) Size() int64 { return c.size }

// Open returns a new reader from the first byte on. It ends with an error, and
// not with io.EOF, if the bytes are not those of the hash.
func (c *Content) Open(ctx context.Context) (io.ReadCloser, error) {
	switch {
	case c.kept != nil:
		return c.kept(ctx) // the store checks
	case c.file != nil:
		return VerifyReader(io.NopCloser(&contextReader{ctx, io.NewSectionReader(c.file, 0, c.size)}), c.hash), nil
	default:
		return io.NopCloser(bytes.NewReader(c.data)), nil
	}
}

// Bytes returns all of the bytes, if they are no more than limit.
func (c *Content) Bytes(ctx context.Context, limit int64) ([]byte, error) {
	if c.size > limit {
		return nil, fmt.Errorf("%d bytes are more than %d", c.size, limit)
	}
	if c.data != nil {
		return c.data, nil
	}
	r, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// sniffLength is the length of the part of a file that tells its type.
const sniffLength = 64 << 10

// head returns the first bytes.
func (c *Content) head(ctx context.Context) ([]byte, error) {
	if c.data != nil {
		return c.data[:min(len(c.data), sniffLength)], nil
	}
	r, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(c.size, sniffLength))
	_, err = io.ReadFull(r, data)
	return data, errors.Join(err, r.Close())
}

// at returns the bytes of a content in memory or in a file. Of one in a store it returns none.
func (c *Content) at() io.ReaderAt {
	if c.file != nil {
		return c.file
	}
	return bytes.NewReader(c.data)
}

// writeTo copies the bytes, and fails unless they are those of the hash.
func (c *Content) writeTo(ctx context.Context, w io.Writer) error {
	if c.data != nil {
		_, err := w.Write(c.data)
		return err
	}
	r, err := c.Open(ctx)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, r)
	if err == nil && n != c.size {
		err = fmt.Errorf("content %s: %w: %d bytes in place of %d", c.hash, ErrDamaged, n, c.size)
	}
	return errors.Join(err, r.Close())
}

// contextReader stops reading once the context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
