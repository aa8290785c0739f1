package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// archived is an image in a bucket.
type archived struct {
	engine.Image
	content []byte
}

// archiveImage returns an image with a content of some size.
func archiveImage(t *testing.T, content string) *archived {
	t.Helper()
	s := newStore(t)
	a := &archived{Image: add(t, s, "it", "oci:"+writeLayout(t, imageOf(t, simple(content)), "it"))}
	var archive bytes.Buffer
	if err := s.Export(t.Context(), a.ID, &archive); err != nil {
		t.Fatal(err)
	}
	a.content = archive.Bytes()
	a.Archive = &engine.Blob{SHA256: sha256.Sum256(a.content), Size: int64(len(a.content))}
	return a
}

// source returns the image, with other bytes if they are given.
func (a *archived) source(content ...[]byte) Source {
	return func(context.Context) (*engine.Image, io.ReadCloser, error) {
		sent := a.content
		if len(content) > 0 {
			sent, content = content[0], content[1:]
		}
		return &a.Image, io.NopCloser(bytes.NewReader(sent)), nil
	}
}

func openCache(t *testing.T, size int64) *Cache {
	t.Helper()
	c, err := OpenCache(CacheConfig{Dir: t.TempDir(), Bytes: size, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// All who want an image at once get what one of them fetches, also if the first one goes away.
func TestCacheFetchesOnce(t *testing.T) {
	a, c := archiveImage(t, "one"), openCache(t, 1<<30)
	leaving, leave := context.WithCancel(t.Context())
	began := make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := c.Use(leaving, a.ID, func(ctx context.Context) (*engine.Image, io.ReadCloser, error) {
			close(began)
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
		first <- err
	}()
	<-began
	var fetches atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := c.Use(t.Context(), a.ID, func(ctx context.Context) (*engine.Image, io.ReadCloser, error) {
				fetches.Add(1)
				return a.source()(ctx)
			})
			if err != nil {
				t.Error(err)
				return
			}
			release()
		})
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first one's error is %v, want that it was cancelled", err)
	}
	all.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	got, err := os.ReadFile(c.store.path(a.ID, rootName, "etc/content"))
	if string(got) != "one" || err != nil {
		t.Errorf("content is %q (%v), want one", got, err)
	}
}

// An archive that is cut off or altered leaves nothing, and is fetched again.
func TestCacheRefusesDamage(t *testing.T) {
	a := archiveImage(t, "one")
	cut := a.content[:len(a.content)-5]
	altered := bytes.Clone(a.content)
	altered[len(altered)/2] ^= 1
	longer := append(bytes.Clone(a.content), 0)
	other := archiveImage(t, "two")
	for _, tt := range []struct {
		name string
		sent [][]byte
		want string // words of the error; "": it is there in the end
	}{
		{"cut once", [][]byte{cut}, ""},
		{"altered twice", [][]byte{altered, altered}, ""},
		{"cut", [][]byte{cut, cut, cut}, "cut off after"},
		{"longer", [][]byte{longer, longer, longer}, "altered"},
		{"another image", [][]byte{other.content, other.content, other.content}, "its archive"},
		{"nothing", [][]byte{nil, nil, nil}, "cut off after 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := openCache(t, 1<<30)
			release, err := c.Use(t.Context(), a.ID, a.source(tt.sent...))
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				release()
				return
			}
			checkError(t, err, engine.ErrUnavailable, tt.want)
			checkEmpty(t, c.store)
		})
	}
}

// The cache removes what was used least recently and is not in use, and no more than it must.
func TestCacheBound(t *testing.T) {
	const size = 10_000
	var all []*archived
	for _, c := range "abcd" {
		all = append(all, archiveImage(t, strings.Repeat(string(c), size)))
	}
	c := openCache(t, 3*size+100)
	use := func(i int) func() {
		t.Helper()
		release, err := c.Use(t.Context(), all[i].ID, all[i].source())
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	there := func() (list string) {
		for i, name := range []string{"a", "b", "c", "d"} {
			if exists(c.store.path(all[i].ID)) {
				list += name
			}
		}
		return list
	}
	releaseA := use(0)
	for i := 1; i < 3; i++ {
		use(i)()
	}
	for i := range 3 { // a, b, c, in this order
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(c.store.path(all[i].ID), old, old); err != nil {
			t.Fatal(err)
		}
	}
	use(1)() // which is the last one now
	releaseD := use(3)
	if got := there(); got != "abd" { // a is in use
		t.Errorf("the cache has %s, want abd", got)
	}
	releaseB := use(1)
	_, err := c.Use(t.Context(), all[2].ID, all[2].source())
	checkError(t, err, engine.ErrUnavailable, "programs use the other images")
	releaseA()
	use(2)()
	if got := there(); got != "bcd" {
		t.Errorf("the cache has %s, want bcd", got)
	}
	releaseB()
	releaseD()

	// What the cluster does not have any more goes, unless it was used just now.
	old := time.Now().Add(-time.Hour)
	for _, i := range []int{1, 2} {
		if err := os.Chtimes(c.store.path(all[i].ID), old, old); err != nil {
			t.Fatal(err)
		}
	}
	c.Keep([]string{all[2].ID})
	c.Close()
	if got := there(); got != "cd" {
		t.Errorf("the cache has %s, want cd", got)
	}
	_, err = openCache(t, size/2).Use(t.Context(), all[0].ID, all[0].source())
	checkError(t, err, engine.ErrUnavailable, "image_cache is")
}

// What a process left half done when it was killed is removed, and the image is fetched again.
func TestCacheAfterKill(t *testing.T) {
	a, c := archiveImage(t, "one"), openCache(t, 1<<30)
	w, err := c.store.newWork()
	if err != nil {
		t.Fatal(err)
	}
	w.lock.Close() // as if its process had ended
	if err := os.WriteFile(w.path+"/half", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = OpenCache(c.CacheConfig); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, c.store)
	release, err := c.Use(t.Context(), a.ID, a.source())
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := c.Use(t.Context(), "../"+a.ID, nil); engine.KindOf(err) != engine.ErrInvalid {
		t.Errorf("an id that is a path: %v, want that it is invalid", err)
	}
}
