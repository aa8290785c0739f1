package oci

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// CacheConfig is what a Cache needs.
type CacheConfig struct {
	Dir     string // the folder of its images, which no Store has
	Bytes   int64  // that their files may have together
	MinFree int64  // bytes that stay free on the disk
	Log     *slog.Logger
}

// Cache keeps the images of a cluster that programs of this machine use. It fetches an image when
// the first program wants it, and removes those that were used least recently when they do
// not fit any more. One process at a time has a Cache on a folder.
type Cache struct {
	CacheConfig
	store *Store

	mu       sync.Mutex
	fetches  map[string]*flight
	reserved int64 // bytes of images that are being fetched

	keeping    atomic.Bool
	background sync.WaitGroup
}

// flight is a fetch in progress.
type flight struct {
	done chan struct{}
	err  error
}

// OpenCache opens the cache in a folder, and removes what was left there half done.
func OpenCache(c CacheConfig) (*Cache, error) {
	cache := &Cache{CacheConfig: c, fetches: map[string]*flight{}}
	cache.store = New(Config{Dir: c.Dir, MinFree: c.MinFree})
	if err := cache.store.makeFolders(); err != nil {
		return nil, err
	}
	return cache, cache.removeLeft()
}

// removeLeft removes what processes that were killed left.
func (c *Cache) removeLeft() error {
	var gone []string
	err := c.store.locked(func() error {
		entries, err := os.ReadDir(c.Dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), addingPrefix) && !strings.HasPrefix(e.Name(), removingPrefix) {
				continue
			}
			path, failed := c.store.setAside(e.Name())
			if err = errors.Join(err, failed); path != "" {
				gone = append(gone, path)
			}
		}
		return err
	})
	for _, path := range gone {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// A Source opens the archive of an image, and returns what is known of the image.
type Source func(ctx context.Context) (*engine.Image, io.ReadCloser, error)

// Use keeps the files of an image until release is called. It fetches them if they are missing,
// once for all who wait for them.
func (c *Cache) Use(ctx context.Context, id string, from Source) (release func(), err error) {
	if !isID(id) {
		return nil, refuse(engine.ErrInvalid, "", "%.100q is not the id of an image", id)
	}
	for {
		hold, err := c.hold(id)
		if err != nil {
			return nil, err
		}
		if hold != nil {
			return func() { hold.Close() }, nil
		}
		running, first := c.join(id)
		if first {
			hold, err := c.fetch(ctx, id, from)
			c.finish(id, running, err)
			if err != nil {
				return nil, err
			}
			return func() { hold.Close() }, nil
		}
		select {
		case <-running.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if running.err != nil && !errors.Is(running.err, errAbandoned) {
			return nil, running.err
		}
	}
}

// errAbandoned says that the one who fetched an image does not want it any more. Others may.
var errAbandoned = errors.New("the fetch of the image was abandoned")

func (c *Cache) join(id string) (running *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running = c.fetches[id]; running != nil {
		return running, false
	}
	running = &flight{done: make(chan struct{})}
	c.fetches[id] = running
	return running, true
}

func (c *Cache) finish(id string, running *flight, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetches, id)
	running.err = err
	close(running.done)
}

// usedEvery is how precisely the time of an image's last use is known.
const usedEvery = time.Minute

// hold locks an image that is there, and notes that it is used. The time of its folder says when
// it was used last.
func (c *Cache) hold(id string) (*os.File, error) {
	var hold *os.File
	err := c.store.locked(func() (err error) {
		hold, err = c.store.hold(id)
		return err
	})
	if hold == nil || err != nil {
		return nil, err
	}
	if info, err := hold.Stat(); err == nil && time.Since(info.ModTime()) > usedEvery {
		now := time.Now()
		_ = os.Chtimes(c.store.path(id), now, now) // it goes earlier then
	}
	return hold, nil
}

var errGone = errors.New("it was removed as soon as it was there")

// fetchTries is how often an image is fetched that comes damaged, or not to its end.
const fetchTries = 3

func (c *Cache) fetch(ctx context.Context, id string, from Source) (hold *os.File, err error) {
	began := time.Now()
	for try := range fetchTries {
		if hold, err = c.fetchOnce(ctx, id, from); hold != nil {
			c.Log.Info("fetched an image", "image", id, "took", time.Since(began).Round(time.Millisecond))
			return hold, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(errAbandoned, context.Cause(ctx))
		}
		c.Log.Warn("an image could not be fetched", "image", id, "try", try+1, "error", err)
		if kind := engine.KindOf(err); kind != engine.ErrForbidden { // it came whole, or nothing came
			break
		}
	}
	err = cmp.Or(err, errGone)
	own, told := errors.AsType[*engine.Error](err)
	if told && own.Kind == engine.ErrNotFound {
		return nil, err
	}
	return nil, &engine.Error{Op: "image", Kind: engine.ErrUnavailable, ID: id, Err: err,
		Cause: "the files of its image could not be fetched"}
}

func (c *Cache) fetchOnce(ctx context.Context, id string, from Source) (*os.File, error) {
	image, archive, err := from(ctx)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	if image.ID != id || image.Archive == nil {
		return nil, fmt.Errorf("another image came: %.100q", image.ID)
	}
	free, err := c.makeRoom(image.Size)
	if err != nil {
		return nil, err
	}
	defer free()
	c.Log.Info("fetching an image", "image", id, "name", image.Name, "bytes", image.Archive.Size)
	// Whoever added it has decided how large it may be.
	store := New(Config{Dir: c.Dir, MinFree: c.MinFree, Limits: Limits{Bytes: image.Size + maxRecord,
		Files: DefaultLimits.Files + 2*image.Files, Ratio: 1 << 20}})
	checked := &checkedReader{from: archive, want: *image.Archive, hash: sha256.New(), told: time.Now(),
		tell: func(done int64) {
			c.Log.Info("fetching an image", "image", id, "done", done, "bytes", image.Archive.Size)
		}}
	if err := store.Install(ctx, id, checked); err != nil {
		return nil, err
	}
	return c.hold(id)
}

// maxRecord bounds what is known of an image, which is in its archive.
const maxRecord = 1 << 20

// progressEvery is how often the log tells how far a fetch is.
const progressEvery = 5 * time.Second

// checkedReader reads an archive to its end, unless its bytes are others than were stored.
type checkedReader struct {
	from io.Reader
	want engine.Blob
	hash hash.Hash
	n    int64
	told time.Time
	tell func(done int64)
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n += int64(n)
	r.hash.Write(p[:n])
	if time.Since(r.told) > progressEvery {
		r.told = time.Now()
		r.tell(r.n)
	}
	switch whole := errors.Is(err, io.EOF); {
	case err != nil && !whole:
		err = refuse(engine.ErrForbidden, "", "its archive is cut off: %w", err)
	case whole && r.n < r.want.Size:
		err = refuse(engine.ErrForbidden, "", "its archive is cut off after %d of %d bytes", r.n, r.want.Size)
	case r.n > r.want.Size, whole && engine.Digest(r.hash.Sum(nil)) != r.want.SHA256:
		err = refuse(engine.ErrForbidden, "`airlock images update` stores it again", "its archive in the bucket was altered")
	}
	return n, err
}

// cached is an image in the cache.
type cached struct {
	id   string
	size int64
	used time.Time
}

// list returns the images of the cache, the one that was used least recently first.
func (c *Cache) list() (list []cached, err error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isID(e.Name()) {
			image, _ := c.store.image(e.Name()) // one that cannot be read goes like the others
			list = append(list, cached{e.Name(), image.Size, info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b cached) int { return a.used.Compare(b.used) })
	return list, nil
}

// makeRoom removes images until another one of a size fits, and reserves its bytes until free is
// called.
func (c *Cache) makeRoom(size int64) (free func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.Bytes {
		return nil, refuse(engine.ErrFull, "set image_cache to more", "the image has %s, and image_cache is %s",
			sizeText(size), sizeText(c.Bytes))
	}
	list, err := c.list()
	if err != nil {
		return nil, err
	}
	taken := c.reserved
	for _, i := range list {
		taken += i.size
	}
	fits := func() bool { return taken+size <= c.Bytes && c.store.room(c.reserved+size) == nil }
	for _, i := range list {
		if fits() {
			break
		}
		if gone, err := c.remove(i.id); err != nil {
			return nil, err
		} else if gone {
			taken -= i.size
		}
	}
	if !fits() {
		return nil, refuse(engine.ErrFull, "set image_cache to more, or make room on its disk",
			"the image has %s, and programs use the other images", sizeText(size))
	}
	c.reserved += size
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reserved -= size
	}, nil
}

// remove removes an image unless its files are in use.
func (c *Cache) remove(id string) (gone bool, err error) {
	if gone, err = c.store.Drop(id); gone {
		c.Log.Info("removed an image from the cache", "image", id)
	}
	return gone, err
}

// unusedTime is how long an image was not used that Keep removes: one that was just added is not
// on every list.
const unusedTime = 2 * time.Minute

// Keep removes the images that the cluster does not have any more, unless they are in use. It
// does not wait for that.
func (c *Cache) Keep(ids []string) {
	if !c.keeping.CompareAndSwap(false, true) {
		return
	}
	c.background.Go(func() {
		defer c.keeping.Store(false)
		list, err := c.list()
		for _, i := range list {
			if !slices.Contains(ids, i.id) && time.Since(i.used) > unusedTime {
				_, failed := c.remove(i.id)
				err = errors.Join(err, failed)
			}
		}
		if err != nil {
			c.Log.Warn("images could not be removed from the cache", "error", err)
		}
	})
}

// Close waits for what goes on in the background.
func (c *Cache) Close() error {
	c.background.Wait()
	return nil
}
