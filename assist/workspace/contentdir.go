package workspace

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// ContentDir stores contents under their hash in a directory, compressed if that
// saves space. It is the part of a Store for large files; Dir stores all of its
// contents in one.
type ContentDir struct {
	dir  *os.Root
	pack *zstd.Encoder // for what is in memory
}

// zstdSuffix marks a compressed content.
const zstdSuffix = ".zst"

func zstdOptions() []zstd.EOption {
	return []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true)}
}

// OpenContentDir opens a directory of contents, and makes it if it is missing.
func OpenContentDir(dir string) (*ContentDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	pack, err := zstd.NewWriter(nil, zstdOptions()...)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &ContentDir{dir: root, pack: pack}, nil
}

// Close releases the directory.
func (d *ContentDir) Close() error { return d.dir.Close() }

// Has reports whether the content is stored.
func (d *ContentDir) Has(h Hash) bool {
	_, _, err := d.stat(h)
	return err == nil
}

// stat returns the name and the size of the file with a content.
func (d *ContentDir) stat(h Hash) (name string, stored int64, err error) {
	for _, name := range []string{h.String() + zstdSuffix, h.String()} {
		info, err := d.dir.Lstat(name)
		if err == nil {
			return name, info.Size(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", 0, err
		}
	}
	return "", 0, fmt.Errorf("content %s: %w", h, ErrNotFound)
}

// Put stores contents durably and returns how many bytes each of them takes.
func (d *ContentDir) Put(ctx context.Context, contents ...*Content) (stored []int64, err error) {
	stored = make([]int64, len(contents))
	put := make([]bool, len(contents))
	err = parallel(len(contents), func(i int) (err error) {
		if _, stored[i], err = d.stat(contents[i].Hash()); err == nil {
			return nil
		}
		put[i] = true
		stored[i], err = d.put(ctx, contents[i])
		return err
	})
	if err == nil && slices.Contains(put, true) {
		err = syncDir(d.dir, ".")
	}
	return stored, err
}

// put writes one content. Its name is not durable yet.
func (d *ContentDir) put(ctx context.Context, c *Content) (stored int64, err error) {
	head, err := c.head(ctx)
	if err != nil {
		return 0, err
	}
	name := c.Hash().String()
	packed := len(head) >= 128 && len(d.pack.EncodeAll(head, nil)) < len(head)*9/10
	if packed {
		name += zstdSuffix
	}
	draft := name + "." + newID() + ".new"
	f, err := d.dir.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = d.dir.Remove(draft) // the first error matters more
		}
	}()
	if stored, err = d.fill(ctx, f, c, packed); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return stored, d.dir.Rename(draft, name)
}

// fill writes a content to its file and returns the file's size.
func (d *ContentDir) fill(ctx context.Context, f *os.File, c *Content, packed bool) (int64, error) {
	switch {
	case packed && c.data != nil:
		if _, err := f.Write(d.pack.EncodeAll(c.data, nil)); err != nil {
			return 0, err
		}
	case packed:
		z, err := zstd.NewWriter(f, zstdOptions()...)
		if err != nil {
			return 0, err
		}
		if err := errors.Join(c.writeTo(ctx, z), z.Close()); err != nil {
			return 0, err
		}
	default:
		if err := c.writeTo(ctx, f); err != nil {
			return 0, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Open opens a content. Reading it to the end fails if its bytes are not
// those of the hash.
func (d *ContentDir) Open(h Hash) (io.ReadCloser, error) {
	name, _, err := d.stat(h)
	if err != nil {
		return nil, err
	}
	f, err := d.dir.Open(name)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, zstdSuffix) {
		return VerifyReader(f, h), nil
	}
	z, err := zstd.NewReader(bufio.NewReaderSize(f, 1<<16), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return VerifyReader(&unpacked{z, f}, h), nil
}

type unpacked struct {
	*zstd.Decoder
	f *os.File
}

func (u *unpacked) Close() error {
	u.Decoder.Close()
	return u.f.Close()
}

// Remove removes a content.
func (d *ContentDir) Remove(h Hash) error {
	name, _, err := d.stat(h)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.dir.Remove(name)
}

// abandoned is the age from which an unfinished file has no writer any more.
const abandoned = 24 * time.Hour

// List calls visit for each stored content. It removes unfinished files that a
// crash has left.
func (d *ContentDir) List(visit func(h Hash, stored int64) error) error {
	return fs.WalkDir(d.dir.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		h, err := ParseHash(strings.TrimSuffix(entry.Name(), zstdSuffix))
		switch {
		case err == nil:
			return visit(h, info.Size())
		case time.Since(info.ModTime()) > abandoned:
			return ignoreMissing(d.dir.Remove(path))
		}
		return nil
	})
}

// ErrDamaged is returned if stored bytes do not match their hash.
var ErrDamaged = errors.New("kept content is damaged")

// VerifyReader returns a reader that ends with ErrDamaged, in place of io.EOF,
// if the bytes that it read are not those of the hash.
func VerifyReader(r io.ReadCloser, h Hash) io.ReadCloser {
	return &verifyReader{r: r, want: h, sum: sha256.New()}
}

type verifyReader struct {
	r    io.ReadCloser
	want Hash
	sum  hash.Hash
}

func (v *verifyReader) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF) && Hash(v.sum.Sum(nil)) != v.want:
		err = fmt.Errorf("content %s: %w", v.want, ErrDamaged)
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("content %s: %w: %w", v.want, ErrDamaged, err)
	}
	return n, err
}

func (v *verifyReader) Close() error { return v.r.Close() }

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
