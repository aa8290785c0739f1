package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// imageOf returns an image, and its archive as a bucket has it.
func imageOf(t *testing.T) (*engine.Image, []byte) {
	t.Helper()
	id := "sha256-" + hex.EncodeToString(make([]byte, 32))
	var archive bytes.Buffer
	z, err := zstd.NewWriter(&archive)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, f := range []struct{ name, content string }{
		{"image.json", `{"id": "` + id + `"}`}, {"rootfs/etc/content", strings.Repeat("x", 100_000)},
	} {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), Typeflag: tar.TypeReg})
		if _, failed := w.Write([]byte(f.content)); errors.Join(err, failed) != nil {
			t.Fatal(err, failed)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	content := archive.Bytes()
	return &engine.Image{Name: "py", ID: id, Size: 100_000, Files: 1, Modules: []string{"numpy"},
		Archive: &engine.Blob{SHA256: sha256.Sum256(content), Size: int64(len(content))}}, content
}

// caches gives a worker a cache of images.
func caches(t *testing.T, w *Worker) *oci.Cache {
	t.Helper()
	c, err := oci.OpenCache(oci.CacheConfig{Dir: t.TempDir(), Bytes: 1 << 30, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w.config.Images = c
	return c
}

// bucketOf serves an archive, and counts how often. answer may spoil an answer.
func bucketOf(t *testing.T, content []byte, answer func(n int32, w http.ResponseWriter) bool) (
	url string, count *atomic.Int32,
) {
	t.Helper()
	count = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := count.Add(1)
		if answer == nil || answer(n, w) {
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, count
}

func inImage(image *engine.Image) *engine.Spec {
	spec := sandboxtest.Python("1")
	spec.Image = image
	return spec
}

// Workers fetch the image of a program once each, before the program starts.
func TestImageFetch(t *testing.T) {
	image, content := imageOf(t)
	address, count := bucketOf(t, content, nil)
	var began atomic.Int32
	first, one := serve(t, counted(&began, nil, open), "")
	second, two := serve(t, counted(&began, nil, open), "")
	two.Epoch = 2
	caches(t, first)
	caches(t, second)
	for _, node := range []Node{one, two} {
		s := api(t, "", node)
		s.config.SignImage = func(_ context.Context, id string) (string, error) {
			if id != image.ID {
				t.Errorf("the address of %s, want that of %s", id, image.ID)
			}
			return address, nil
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := s.Run(t.Context(), inImage(image), &sink{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if n := count.Load(); n != 2 || began.Load() != 8 {
		t.Errorf("%d fetches and %d programs, want 2 and 8", n, began.Load())
	}
}

// A fetch that is cut off or damaged is repeated. An image that cannot be had is said, and the next
// program runs.
func TestImageFaults(t *testing.T) {
	image, content := imageOf(t)
	damaged := bytes.Clone(content)
	damaged[len(damaged)/2] ^= 1
	cut := func(_ int32, w http.ResponseWriter) bool {
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	removed := &engine.Error{Op: "fetch image", Kind: engine.ErrNotFound, Err: errors.New("the image was removed")}
	for _, tt := range []struct {
		name   string
		answer func(n int32, w http.ResponseWriter) bool
		sign   error
		kind   engine.Kind
		want   string // words of the error; "": the program runs
	}{
		{name: "cut once", answer: func(n int32, w http.ResponseWriter) bool { return n > 1 || cut(n, w) }},
		{name: "damaged once", answer: func(n int32, w http.ResponseWriter) bool {
			if n == 1 {
				_, _ = w.Write(damaged)
			}
			return n > 1
		}},
		{"cut", cut, nil, engine.ErrUnavailable, "cut off"},
		{"removed", nil, removed, engine.ErrNotFound, "the image was removed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address, _ := bucketOf(t, content, tt.answer)
			var began atomic.Int32
			worker, node := serve(t, counted(&began, nil, open), "")
			caches(t, worker)
			s := api(t, "", node)
			s.config.QueueTime = 1
			s.config.SignImage = func(context.Context, string) (string, error) { return address, tt.sign }
			_, err := s.Run(t.Context(), inImage(image), &sink{})
			if tt.want == "" {
				if err != nil || began.Load() != 1 {
					t.Errorf("%v, %d programs; want one", err, began.Load())
				}
				return
			}
			if engine.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) || began.Load() != 0 {
				t.Errorf("%v, %d programs; want %v with %q", err, began.Load(), tt.kind, tt.want)
			}
			if free := s.scheduler.all()[0].free(); free != 16 {
				t.Errorf("the api knows of %d free slots, want 16", free)
			}
			s.config.QueueTime = 10e9
			if _, err := s.Run(t.Context(), sandboxtest.Python("1"), &sink{}); err != nil {
				t.Errorf("the next program: %v", err)
			}
			if free := worker.admission.free(); free != 16 {
				t.Errorf("%d slots are free, want 16", free)
			}
		})
	}
}

// A program that is cancelled while its image is fetched ends at once. Another one that waits for the
// image gets it.
func TestImageCancel(t *testing.T) {
	image, content := imageOf(t)
	arrived := make(chan struct{})
	address, _ := bucketOf(t, content, func(n int32, w http.ResponseWriter) bool {
		if n > 1 {
			return true
		}
		_, _ = w.Write(content[:100])
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-t.Context().Done()
		return false
	})
	var began atomic.Int32
	worker, node := serve(t, counted(&began, nil, open), "")
	caches(t, worker)
	s := api(t, "", node)
	s.config.SignImage = func(context.Context, string) (string, error) { return address, nil }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		o, err := s.Run(ctx, inImage(image), &sink{})
		if err == nil && !o.Cancelled {
			err = errors.New("it was not cancelled")
		}
		ended <- err
	}()
	<-arrived
	other := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), inImage(image), &sink{})
		other <- err
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-other; err != nil || began.Load() != 1 {
		t.Errorf("the other one: %v, %d programs; want one", err, began.Load())
	}
}
