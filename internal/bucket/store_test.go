package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/bucket/buckettest"
	"github.com/airlock-run/airlock/internal/engine"
)

var (
	server = sync.OnceValues(func() (*buckettest.Server, error) {
		s, err := buckettest.Start(context.Background())
		if err == nil {
			stop = s.Stop
		}
		return s, err
	})
	stop = func() error { return nil }
)

func TestMain(m *testing.M) {
	os.Setenv("AWS_ACCESS_KEY_ID", buckettest.AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", buckettest.SecretKey)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func startServer(t *testing.T) *buckettest.Server {
	t.Helper()
	s, err := server()
	if errors.Is(err, buckettest.ErrMissing) && os.Getenv("AIRLOCK_NO_SKIP") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// place is a bucket, and what a replica sees of it.
type place struct {
	*testing.T
	server *buckettest.Server
	client *minio.Client
	bucket string
	locks  *locks

	mu    sync.Mutex
	shift time.Duration // of the clock
}

type locks struct {
	mu     sync.Mutex
	before func() // runs as the next lock was taken
}

func (l *locks) Lock(_ context.Context, _ engine.Digest, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		l.before()
		l.before = nil
	}
	return do()
}

func newPlace(t *testing.T) *place {
	t.Helper()
	s := startServer(t)
	address, err := s.NewBucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	return &place{T: t, server: s, client: client, bucket: buckettest.Name(address), locks: &locks{}}
}

func (p *place) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.shift)
}

func (p *place) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shift += d
}

// replica opens the bucket with a cache of its own.
func (p *place) replica(size int64) *Store {
	p.Helper()
	address, err := ParseAddress(strings.Replace(p.server.URL(p.bucket), "/?", "/a/b?", 1))
	if err != nil {
		p.Fatal(err)
	}
	s, err := Open(p.Context(), Config{Address: address, Dir: p.TempDir(), Cache: size, Locker: p.locks, Now: p.now})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := s.Close(); err != nil {
			p.Error(err)
		}
	})
	return s
}

func (p *place) put(s *Store, text []byte) engine.Blob {
	p.Helper()
	b, err := s.Put(p.Context(), bytes.NewReader(text), int64(len(text)))
	if err != nil {
		p.Fatal(err)
	}
	return b
}

func (p *place) read(s *Store, b engine.Blob) []byte {
	p.Helper()
	f, err := s.Open(p.Context(), b.SHA256, b.Size)
	if err != nil {
		p.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		p.Fatal(err)
	}
	return text
}

func (p *place) objects() (names []string) {
	p.Helper()
	for o := range p.client.ListObjectsIter(p.Context(), p.bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			p.Fatal(o.Err)
		}
		names = append(names, o.Key)
	}
	return names
}

func (p *place) overwrite(s *Store, d engine.Digest, text []byte) {
	p.Helper()
	if _, err := p.client.PutObject(p.Context(), p.bucket, s.name(d), bytes.NewReader(text), int64(len(text)),
		minio.PutObjectOptions{}); err != nil {
		p.Fatal(err)
	}
}

func some(size int) []byte {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)}).Read(text)
	return text
}

// A replica reads what another replica stored, whatever its size.
func TestLargeRoundTrip(t *testing.T) {
	p := newPlace(t)
	a, b := p.replica(1<<30), p.replica(1<<30)
	for _, size := range []int{0, 1, 1000, onePart, onePart + 1, 3*onePart + 7} {
		text := some(size)
		stored := p.put(a, text)
		if stored.SHA256 != sha256.Sum256(text) || stored.Size != int64(size) {
			t.Errorf("%d bytes: %+v", size, stored)
		}
		for _, s := range []*Store{a, b} {
			if !s.Has(t.Context(), stored.SHA256, stored.Size) {
				t.Errorf("%d bytes are not there", size)
			}
			if !bytes.Equal(p.read(s, stored), text) {
				t.Errorf("%d bytes came back as others", size)
			}
			c, err := s.Read(t.Context(), stored.SHA256, stored.Size)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes: %v", size, err)
			}
			c.Close()
		}
	}
	if list := p.objects(); len(list) != 6 || !strings.HasPrefix(list[0], "a/b/sha256/") {
		t.Errorf("the bucket has %v", list)
	}
	if _, err := a.Put(t.Context(), bytes.NewReader(some(11)), 10); engine.KindOf(err) != engine.ErrTooLarge {
		t.Errorf("%v", err)
	}
	if _, err := a.Open(t.Context(), engine.Digest{1}, 1); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("%v", err)
	}
}

// Bytes that do not match their digest count as absent. Storing the blob again replaces
// them.
func TestDamage(t *testing.T) {
	p := newPlace(t)
	a := p.replica(1 << 20)
	for name, damaged := range map[string][]byte{"others": some(1000), "fewer": some(999), "more": some(1001)} {
		t.Run(name, func(t *testing.T) {
			text := append(some(999), name[0])
			stored := p.put(a, text)
			p.overwrite(a, stored.SHA256, damaged)
			b := p.replica(1 << 20)
			if _, err := b.Open(t.Context(), stored.SHA256, stored.Size); engine.KindOf(err) != engine.ErrNotFound {
				t.Errorf("%v", err)
			}
			if files, _ := filepath.Glob(filepath.Join(b.cache.Dir(), "??", "*")); len(files) > 0 {
				t.Errorf("the cache has kept %v", files)
			}
			if len(damaged) != len(text) { // a writer sees the length only
				p.put(b, text)
				if got := p.read(p.replica(1<<20), stored); !bytes.Equal(got, text) {
					t.Error("it is not mended")
				}
			}
		})
	}
}

// The cache keeps what was used last, within its bound, and across processes.
func TestCache(t *testing.T) {
	p := newPlace(t)
	s := p.replica(10_000)
	var blobs []engine.Blob
	for i := range 20 {
		blobs = append(blobs, p.put(s, some(1000+i)))
	}
	first := p.put(s, []byte("first"))
	for _, b := range append(blobs, first) {
		p.read(s, b)
		p.read(s, first)
	}
	if s.cache.Size() > 10_000 || !s.cache.Has(t.Context(), first.SHA256, first.Size) {
		t.Errorf("the cache has %d bytes; what is used most is there: %v", s.cache.Size(),
			s.cache.Has(t.Context(), first.SHA256, first.Size))
	}
	again, err := blob.OpenCache(t.Context(), s.cache.Dir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Size() != s.cache.Size() {
		t.Errorf("another process finds %d bytes, not %d", again.Size(), s.cache.Size())
	}
	if err := s.Delete(t.Context(), first.SHA256); err != nil {
		t.Error(err)
	}
	hits, misses := s.CacheUse()
	for range 3 {
		if got := p.read(s, first); string(got) != "first" {
			t.Errorf("the bucket has %q", got)
		}
	}
	if h, m := s.CacheUse(); h != hits+2 || m != misses+1 {
		t.Errorf("%d hits and %d misses, of three reads of which the cache missed one", h-hits, m-misses)
	}
}

// Sweep removes objects that have no reference and are old enough. It spares an object
// that a replica stores meanwhile.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	s := p.replica(1 << 20)
	kept, waste, renewed := p.put(s, []byte("kept")), p.put(s, []byte("waste")), p.put(s, []byte("renewed"))
	keep := func(d engine.Digest) bool { return d == kept.SHA256 }
	sweep := func(want int) {
		t.Helper()
		if gone, err := s.Sweep(t.Context(), keep); err != nil || gone != want {
			t.Errorf("%d are gone, %v, want %d", gone, err, want)
		}
	}
	sweep(0) // they are new
	p.later(grace + time.Minute)
	foreign := path.Join("a/b/sha256", "somebody's")
	if _, err := p.client.PutObject(t.Context(), p.bucket, foreign, strings.NewReader("x"), 1,
		minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	// Another replica stores one of them again, before Sweep has its lock, and after.
	p.mu.Lock()
	p.shift = 0
	p.mu.Unlock()
	p.overwrite(s, renewed.SHA256, []byte("renewed"))
	p.later(grace + time.Minute)
	p.locks.before = func() { p.mu.Lock(); p.shift = 0; p.mu.Unlock() } // as if it had just been stored
	sweep(0)
	p.later(grace + time.Minute)
	sweep(2)
	if got := p.read(p.replica(1<<20), kept); string(got) != "kept" {
		t.Errorf("%q", got)
	}
	if s.Has(t.Context(), waste.SHA256, 5) && s.cache.Delete(t.Context(), waste.SHA256) == nil &&
		s.Has(t.Context(), waste.SHA256, 5) {
		t.Error("the waste is still there")
	}
	if list := p.objects(); len(list) != 2 {
		t.Errorf("the bucket has %v", list)
	}
}

// Who stores bytes that are there, but old, makes them new.
func TestRenewal(t *testing.T) {
	p := newPlace(t)
	s := p.replica(1 << 20)
	b := p.put(s, []byte("text"))
	before, err := s.stat(t.Context(), b.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	p.later(renewal + time.Minute)
	locked := false
	p.locks.before = func() { locked = true }
	p.put(s, []byte("text"))
	after, err := s.stat(t.Context(), b.SHA256)
	if err != nil || !locked || !after.LastModified.After(before.LastModified) && after.ETag != before.ETag {
		t.Errorf("locked %v, %v, then %v, %v", locked, before.LastModified, after.LastModified, err)
	}
}

// An unreachable bucket is reported, and cached blobs stay readable. The bucket is used
// again once it is back.
func TestAway(t *testing.T) {
	startServer(t) // or skip
	own, err := buckettest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Stop() })
	p := &place{T: t, server: own, locks: &locks{}}
	address, err := own.NewBucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.bucket = buckettest.Name(address)
	s := p.replica(1 << 20)
	b := p.put(s, []byte("cached"))
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	if got := p.read(s, b); string(got) != "cached" {
		t.Errorf("%q", got)
	}
	if _, err := s.Put(t.Context(), strings.NewReader("new"), 9); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("%v", err)
	}
	if _, err := s.Open(t.Context(), engine.Digest{1}, 9); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("%v", err)
	}
	if err := own.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.put(s, []byte("new"))
}

func TestRefused(t *testing.T) {
	server := startServer(t)
	for name, test := range map[string]struct {
		address string
		secret  string
		says    string
	}{
		"no bucket":        {server.URL("nobody"), buckettest.SecretKey, "no such bucket"},
		"wrong secret":     {server.URL("nobody"), "wrong", "may not do this"},
		"nobody there":     {"s3://b?endpoint=http://127.0.0.1:1&region=x", "x", "cannot use its bucket"},
		"no authorities":   {"s3://b?endpoint=https://127.0.0.1:1&region=x&ca=/dev/null", "x", "no certificate"},
		"no S3":            {"http://b", "x", "is not s3://"},
		"no bucket's name": {"s3:///x", "x", "is not s3://"},
		"a password in it": {"s3://u:geheim@b", "x", "is not s3://"},
		"unknown":          {"s3://b?regoin=x", "x", "regoin"},
		"endpoint":         {"s3://b?endpoint=127.0.0.1:9000", "x", "endpoint"},
		"style":            {"s3://b?path_style=1", "x", "path_style"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_SECRET_ACCESS_KEY", test.secret)
			address, err := ParseAddress(test.address)
			if err == nil {
				_, err = Open(t.Context(), Config{Address: address, Dir: t.TempDir(), Cache: 1 << 20, Locker: &locks{}})
			}
			if err == nil {
				t.Fatal("it was taken")
			}
			text := err.Error()
			if own, ok := errors.AsType[*engine.Error](err); ok {
				text += own.Hint
			}
			if !strings.Contains(text, test.says) || strings.Contains(text, "geheim") {
				t.Error(text)
			}
		})
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"s3://b": {Bucket: "b", Endpoint: "s3.amazonaws.com", Secure: true},
		"s3://b/x/y/?region=eu-central-1": {Bucket: "b", Prefix: "x/y", Endpoint: "s3.amazonaws.com", Secure: true,
			Region: "eu-central-1"},
		"s3://b/?endpoint=http://h:7070&region=r":           {Bucket: "b", Endpoint: "h:7070", Region: "r", Path: true},
		"s3://b?endpoint=https://h/&path_style=false&ca=/x": {Bucket: "b", Endpoint: "h", Secure: true, CA: "/x"},
	} {
		if got, err := ParseAddress(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
