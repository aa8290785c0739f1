package bucket

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.Blobs = (*Store)(nil)

const (
	// grace is how long an unreferenced object stays: its writer may be about
	// to record it. renewal is the age from which it is stored anew for that.
	grace   = time.Hour
	renewal = grace / 2

	// onePart is the most that is sent in one request.
	onePart = 32 << 20
)

// Store keeps blobs in a bucket. Its methods may be called at once from many
// goroutines.
type Store struct {
	address Address
	client  *minio.Client
	cache   *blob.Cache
	lock    Locker
	now     func() time.Time

	hits, misses atomic.Uint64 // of the cache
}

// CacheUse returns how many blobs were opened that the cache had, and that it did not have.
func (s *Store) CacheUse() (hits, misses uint64) { return s.hits.Load(), s.misses.Load() }

// Locker lets one replica at a time do something with a blob.
type Locker interface {
	Lock(ctx context.Context, digest engine.Digest, do func() error) error
}

// Config sets up a Store.
type Config struct {
	Address Address
	Dir     string // of the cache, the store's own
	Cache   int64  // bytes that the cache may take
	Locker  Locker
	Room    func() error                              // see blob.WithRoom
	Wrap    func(http.RoundTripper) http.RoundTripper // sees each request, for spans and counts; nil: nothing does
	Now     func() time.Time                          // as the bucket counts; nil: its own time
}

// Open opens a bucket that exists, and finds out whether it can be written to.
func Open(ctx context.Context, c Config) (*Store, error) {
	clock := &serverTime{}
	through := clock.through
	if c.Wrap != nil {
		through = func(next http.RoundTripper) http.RoundTripper { return c.Wrap(clock.through(next)) }
	}
	client, err := c.Address.client(through)
	if err != nil {
		return nil, failed("open bucket", "", err)
	}
	var options []blob.Option
	if c.Room != nil {
		options = append(options, blob.WithRoom(c.Room))
	}
	cache, err := blob.OpenCache(ctx, c.Dir, c.Cache, options...)
	if err != nil {
		return nil, err
	}
	s := &Store{address: c.Address, client: client, lock: c.Locker, now: c.Now, cache: cache}
	if s.now == nil {
		s.now = clock.now
	}
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	return s, nil
}

// probe writes an object, reads it and removes it.
func (s *Store) probe(ctx context.Context) error {
	const op = "open bucket"
	name, text := path.Join(s.address.Prefix, "probe", engine.NewID().String()), "airlock"
	_, err := s.client.PutObject(ctx, s.address.Bucket, name, strings.NewReader(text), int64(len(text)),
		minio.PutObjectOptions{})
	if err != nil {
		return failed(op, "", err)
	}
	o, err := s.client.GetObject(ctx, s.address.Bucket, name, minio.GetObjectOptions{})
	if err == nil {
		_, err = io.Copy(io.Discard, o)
		err = errors.Join(err, o.Close())
	}
	removed := s.client.RemoveObject(ctx, s.address.Bucket, name, minio.RemoveObjectOptions{})
	return failed(op, "", errors.Join(err, removed))
}

// Holds reports whether a bucket has a blob.
func Holds(ctx context.Context, a Address) (bool, error) {
	const op = "look into bucket"
	client, err := a.client((&serverTime{}).through)
	if err != nil {
		return false, failed(op, "", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := minio.ListObjectsOptions{Prefix: path.Join(a.Prefix, "sha256") + "/", MaxKeys: 1}
	for object := range client.ListObjectsIter(ctx, a.Bucket, list) {
		return object.Err == nil, failed(op, "", object.Err)
	}
	return false, nil
}

// Close closes the cache. Files that Open returned stay readable.
func (s *Store) Close() error { return s.cache.Close() }

func (s *Store) name(d engine.Digest) string {
	return path.Join(s.address.Prefix, "sha256", d.String())
}

// Put stores all that r gives, in the cache and in the bucket.
func (s *Store) Put(ctx context.Context, r io.Reader, limit int64) (engine.Blob, error) {
	b, err := s.cache.Put(ctx, r, limit)
	if err != nil {
		return engine.Blob{}, err
	}
	defer s.cache.Unpin(b.SHA256)
	s.cache.Touch(ctx, b)
	if err := s.upload(ctx, b); err != nil {
		return engine.Blob{}, failed("store file", b.SHA256.String(), err)
	}
	return b, nil
}

// upload makes sure that the bucket has a blob, and will have it until its writer has
// recorded it.
func (s *Store) upload(ctx context.Context, b engine.Blob) error {
	there, err := s.stat(ctx, b.SHA256)
	switch {
	case err != nil:
		return err
	case there.Size != b.Size: // it is absent or damaged
		return s.send(ctx, b)
	case s.now().Sub(there.LastModified) < renewal:
		return nil
	}
	return s.lock.Lock(ctx, b.SHA256, func() error { return s.send(ctx, b) })
}

// absent is the size of an object that does not exist.
const absent = -1

func (s *Store) stat(ctx context.Context, d engine.Digest) (minio.ObjectInfo, error) {
	info, err := s.client.StatObject(ctx, s.address.Bucket, s.name(d), minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound && !isNoBucket(err) {
		return minio.ObjectInfo{Size: absent}, nil
	}
	return info, err
}

func (s *Store) send(ctx context.Context, b engine.Blob) error {
	f, err := s.cache.Open(ctx, b.SHA256, b.Size)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.sendFrom(ctx, b, f)
}

func (s *Store) sendFrom(ctx context.Context, b engine.Blob, f *os.File) error {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: onePart, SendContentMd5: true}
	if b.Size <= onePart {
		options.DisableMultipart = true
		options.UserMetadata = map[string]string{
			"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(b.SHA256[:]),
		}
	}
	_, err := s.client.PutObject(ctx, s.address.Bucket, s.name(b.SHA256), f, b.Size, options)
	return err
}

// fetch brings a blob into the cache: engine.ErrNotFound when the bucket does not have
// those bytes.
func (s *Store) fetch(ctx context.Context, d engine.Digest, size int64) error {
	const op = "open file"
	o, err := s.client.GetObject(ctx, s.address.Bucket, s.name(d), minio.GetObjectOptions{})
	if err != nil {
		return failed(op, d.String(), err)
	}
	defer o.Close()
	other := &engine.Error{Op: op, Kind: engine.ErrNotFound, ID: d.String(),
		Err: errors.New("the bucket holds other bytes")}
	if info, err := o.Stat(); err != nil {
		return failed(op, d.String(), err)
	} else if info.Size != size {
		return other
	}
	from := &noted{Reader: o}
	b, err := s.cache.Put(ctx, from, size)
	if from.err != nil {
		return failed(op, d.String(), from.err)
	}
	if err != nil {
		return err
	}
	s.cache.Unpin(b.SHA256)
	if b.SHA256 != d || b.Size != size {
		return errors.Join(other, s.cache.Delete(ctx, b.SHA256))
	}
	s.cache.Touch(ctx, b)
	return nil
}

// noted is a reader whose errors are not the cache's.
type noted struct {
	io.Reader
	err error
}

func (n *noted) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}

// Open returns the bytes in a file of the cache.
func (s *Store) Open(ctx context.Context, d engine.Digest, size int64) (f *os.File, err error) {
	err = s.cached(ctx, d, size, func() error {
		f, err = s.cache.Open(ctx, d, size)
		return err
	})
	return f, err
}

// Read returns the bytes, small ones out of memory.
func (s *Store) Read(ctx context.Context, d engine.Digest, size int64) (c engine.Content, err error) {
	err = s.cached(ctx, d, size, func() error {
		c, err = s.cache.Read(ctx, d, size)
		return err
	})
	return c, err
}

// cached runs open on the cache, and again once the blob is there.
func (s *Store) cached(ctx context.Context, d engine.Digest, size int64, open func() error) error {
	for i := range 2 {
		if err := open(); engine.KindOf(err) != engine.ErrNotFound {
			if i == 0 && err == nil {
				s.hits.Add(1)
			}
			s.cache.Touch(ctx, engine.Blob{SHA256: d, Size: size})
			return err
		}
		s.misses.Add(1)
		if err := s.fetch(ctx, d, size); err != nil {
			return err
		}
	}
	return open() // it was evicted at once
}

// Has reports whether Open would find the bytes. A bucket that cannot be asked has
// them.
func (s *Store) Has(ctx context.Context, d engine.Digest, size int64) bool {
	if s.cache.Has(ctx, d, size) {
		return true
	}
	there, err := s.stat(ctx, d)
	return err != nil || there.Size == size
}

// Unpin does nothing: an object is safe for an hour.
func (s *Store) Unpin(engine.Digest) {}

// Delete removes a blob from the cache; the bucket's is left to Sweep.
func (s *Store) Delete(ctx context.Context, d engine.Digest) error { return s.cache.Delete(ctx, d) }

// Sweep removes objects that keep refuses and that are older than an hour.
func (s *Store) Sweep(ctx context.Context, keep func(engine.Digest) bool) (gone int, err error) {
	const op = "sweep bucket"
	prefix := path.Join(s.address.Prefix, "sha256") + "/"
	for object := range s.client.ListObjectsIter(ctx, s.address.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if object.Err != nil {
			return gone, failed(op, "", object.Err)
		}
		d, err := engine.ParseDigest(strings.TrimPrefix(object.Key, prefix))
		if err != nil || s.now().Sub(object.LastModified) < grace || keep(d) {
			continue
		}
		err = s.lock.Lock(ctx, d, func() error {
			there, err := s.stat(ctx, d)
			if err != nil || there.Size == absent || s.now().Sub(there.LastModified) < grace {
				return err
			}
			gone++
			return s.client.RemoveObject(ctx, s.address.Bucket, object.Key, minio.RemoveObjectOptions{})
		})
		if err != nil {
			return gone, failed(op, d.String(), err)
		}
	}
	return gone, nil
}
