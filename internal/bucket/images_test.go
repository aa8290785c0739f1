package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/engine"
)

func openImages(p *place) *Images {
	p.Helper()
	i := NewImages(p.server.URL(p.bucket) + "&path_style=true")
	if i.fault != nil {
		p.Fatal(i.fault)
	}
	return i
}

func packed(content []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
}

// keys returns what the bucket has.
func (p *place) keys() (keys []string) {
	p.Helper()
	for o := range p.client.ListObjectsIter(p.Context(), p.bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			p.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// An image that one node adds is found by the others, with its archive, until one removes it.
func TestImages(t *testing.T) {
	p := newPlace(t)
	one, two := openImages(p), openImages(p)
	if list, err := two.List(); len(list) != 0 || err != nil {
		t.Fatalf("an empty bucket has %v, %v", list, err)
	}
	content := bytes.Repeat([]byte("files of an image "), 2<<20) // several parts
	image := engine.Image{Name: "py", Reference: "python:3", ID: "sha256-a", Size: 7, Modules: []string{"numpy"},
		AddedAt:   time.Now().UTC().Truncate(time.Second),
		Languages: []engine.ImageLanguage{{Name: "python", Version: "3.13.1"}}}
	if err := one.Put(t.Context(), image, []string{"numpy"}, packed(content)); err != nil {
		t.Fatal(err)
	}
	image.Archive = &engine.Blob{SHA256: sha256.Sum256(content), Size: int64(len(content))}
	again := image
	again.Name = "py2"
	if err := one.Put(t.Context(), again, nil, func(io.Writer) error { return errors.New("it is there") }); err != nil {
		t.Fatalf("another name for the same image: %v", err)
	}
	two.looked = time.Now().Add(-staleTime - 1)
	got, ok, err := two.Find("py")
	if diff := cmp.Diff(image, got); !ok || err != nil || diff != "" {
		t.Fatalf("found %v, %v: -want +got\n%s", ok, err, diff)
	}
	if _, asked, err := two.Get(t.Context(), "py"); len(asked) != 1 || err != nil {
		t.Errorf("asked for %v, %v; want numpy", asked, err)
	}
	address, err := two.Sign(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(address) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); !bytes.Equal(got, content) || err != nil {
		t.Errorf("the archive has %d bytes (%v), want %d", len(got), err, len(content))
	}

	for _, name := range []string{"py", "py2"} {
		if err := one.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	two.looked = time.Now().Add(-staleTime - 1)
	if _, ok, err := two.Find("py"); ok || err != nil {
		t.Errorf("what was removed is found: %v", err)
	}
	if err := one.Remove(t.Context(), "py"); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("removed again: %v, want that it is not found", err)
	}
	if diff := cmp.Diff([]string{"images/sha256-a.tar.zst"}, p.keys()); diff != "" { // another add may be about to use it
		t.Errorf("-want +got\n%s", diff)
	}
	one.clock.ahead.Store(int64(2 * grace))
	one.clock.RoundTripper = fixedDate{one.clock.RoundTripper}
	if err := one.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.keys(); len(got) != 0 {
		t.Errorf("the bucket has %q, want nothing", got)
	}
	if _, err := two.Sign(t.Context(), image.ID); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("the address of what was removed: %v, want that it is not found", err)
	}
}

// fixedDate takes the date out of answers, so that the clock stays as it is set.
type fixedDate struct{ http.RoundTripper }

func (f fixedDate) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := f.RoundTripper.RoundTrip(request)
	if err == nil {
		answer.Header.Del("Date")
	}
	return answer, err
}

// An upload that is cut off leaves no archive and no name.
func TestImageCut(t *testing.T) {
	p := newPlace(t)
	cut := errors.New("cut off")
	for _, before := range []int{0, 100, archivePart + 100} {
		err := openImages(p).Put(t.Context(), engine.Image{Name: "py", ID: "sha256-a"}, nil, func(w io.Writer) error {
			_, err := w.Write(make([]byte, before))
			return errors.Join(err, cut)
		})
		if err == nil || !strings.Contains(err.Error(), cut.Error()) {
			t.Errorf("after %d bytes: %v, want %v", before, err, cut)
		}
		if got := p.keys(); len(got) != 0 {
			t.Errorf("after %d bytes the bucket has %q, want nothing", before, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := openImages(p).Put(ctx, engine.Image{Name: "py", ID: "sha256-a"}, nil, func(w io.Writer) error {
		cancel()
		_, err := w.Write(make([]byte, 2*archivePart))
		return err
	})
	if err == nil || len(p.keys()) != 0 {
		t.Errorf("cancelled: %v, the bucket has %q", err, p.keys())
	}
}

// While the bucket is away a name that is known goes on, and one that is not is refused.
func TestImagesAway(t *testing.T) {
	p := newPlace(t)
	i := openImages(p)
	if err := i.Put(t.Context(), engine.Image{Name: "py", ID: "sha256-a"}, nil, packed([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := i.Find("py"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	i.address.Bucket = "none-such"
	i.looked = time.Now().Add(-time.Hour)
	if _, ok, err := i.Find("py"); !ok || err != nil {
		t.Errorf("found %v, %v; want it as it was", ok, err)
	}
	cold := openImages(p)
	cold.address.Bucket = "none-such"
	if _, _, err := cold.Find("py"); engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("without the bucket from the start: %v, want that it is unavailable", err)
	}
	if _, known := cold.IDs(); known {
		t.Error("ids are known that nobody has read")
	}
}
