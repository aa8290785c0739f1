package oci

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/airlock-run/airlock/internal/engine"
)

// altered is a registry that does something else with some requests.
type altered struct {
	http.Handler
	host string
	mu   sync.Mutex
	// instead answers a request in place of the registry, and reports whether it has; nil: never.
	instead func(w http.ResponseWriter, r *http.Request) bool
	asked   []string // paths of blobs
}

func (a *altered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	instead := a.instead
	if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
		a.asked = append(a.asked, r.URL.Path)
	}
	a.mu.Unlock()
	if instead == nil || !instead(w, r) {
		a.Handler.ServeHTTP(w, r)
	}
}

func (a *altered) set(instead func(http.ResponseWriter, *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.instead, a.asked = instead, nil
}

// requests returns how often a blob was asked for.
func (a *altered) requests(d v1.Hash) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range a.asked {
		if strings.HasSuffix(path, d.Hex) {
			n++
		}
	}
	return n
}

// serveAltered serves a registry that has an image of two layers, and returns their digests.
func serveAltered(t *testing.T) (a *altered, reference string, layers []v1.Hash) {
	t.Helper()
	a = &altered{Handler: fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.host = strings.TrimPrefix(server.URL, "http://")
	reference = a.host + "/team/image:1"
	image := imageOf(t, simple("one"), []entry{file("large", strings.Repeat("a layer ", 10_000))})
	push(t, reference, image)
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		layers = append(layers, l.Digest)
	}
	return a, reference, layers
}

// ofBlob answers the requests for one blob.
func ofBlob(d v1.Hash, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) || r.Method != http.MethodGet {
			return false
		}
		answer(w, r)
		return true
	}
}

// A registry that does not deliver what it promised is found out, and whole layers are not fetched
// twice.
func TestBadRegistries(t *testing.T) {
	registry, reference, layers := serveAltered(t)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer other.Close()
	to := func(address string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, address, http.StatusTemporaryRedirect)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		kind   engine.Kind
		want   string
	}{
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			w.Write(make([]byte, 100))
		}, engine.ErrUnavailable, "did not deliver: unexpected EOF"},
		{"shorter", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100)) }, engine.ErrUnavailable,
			"did not deliver: error verifying"},
		{"other bytes", func(w http.ResponseWriter, r *http.Request) {
			rest := httptest.NewRecorder()
			registry.Handler.ServeHTTP(rest, r)
			rest.Body.Bytes()[20] ^= 1
			w.Write(rest.Body.Bytes())
		}, engine.ErrUnavailable, "did not deliver: error verifying"},
		{"longer", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100_000)) }, engine.ErrForbidden,
			"larger than the image says"},
		{"missing", http.NotFound, engine.ErrNotFound, "has no team/image 1"},
		{"failing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, engine.ErrUnavailable,
			"answers with status 418"},
		{"redirect to this machine", to(other.URL + "/x"), engine.ErrForbidden, "is not a public address"},
		{"redirect to localhost", to(strings.Replace(other.URL, "127.0.0.1", "localhost", 1)), engine.ErrForbidden,
			"is not a public address"},
		{"redirect to a private address", to("https://10.1.2.3/x"), engine.ErrUnavailable,
			`private/link-local host "10.1.2.3"`},
		{"redirect to metadata", to("https://169.254.169.254/latest"), engine.ErrUnavailable,
			`private/link-local host "169.254.169.254"`},
		{"redirect to plain HTTP", to("http://example.com/x"), engine.ErrForbidden, "without encryption"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			registry.set(ofBlob(layers[1], tt.answer))
			_, err := s.Add(t.Context(), "it", reference, nil)
			checkError(t, err, tt.kind, tt.want)
			got, want := fmt.Sprint(contents(t, s)), fmt.Sprintf("[.layers/sha256-%s]", layers[0].Hex)
			if got != want && got != "[]" {
				t.Errorf("it left %s, want %s", got, want)
			}
			whole := len(contents(t, s))
			registry.set(nil)
			add(t, s, "it", reference)
			if n := registry.requests(layers[0]); n+whole != 1 {
				t.Errorf("the first layer was fetched %d times again, and kept %d times", n, whole)
			}
			if got := contents(t, s); len(got) != 2 {
				t.Errorf("the store has %q", got)
			}
		})
	}
}

// A registry that leads to a private address for its tokens gets no request there.
func TestTokensElsewhere(t *testing.T) {
	registry, reference, _ := serveAltered(t)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it was asked for a token")
	}))
	defer other.Close()
	address := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	registry.set(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+address+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := newStore(t)
	_, err := s.Add(t.Context(), "it", reference, nil)
	checkError(t, err, engine.ErrForbidden, "is not a public address")
	checkEmpty(t, s)
}

// The credentials of docker login are used, and no error has them.
func TestCredentials(t *testing.T) {
	registry, reference, _ := serveAltered(t)
	const password = "hunter2-hunter2"
	var wanted string
	registry.set(func(w http.ResponseWriter, r *http.Request) bool {
		if _, given, _ := r.BasicAuth(); given == wanted {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		// A hostile registry repeats what it was told.
		fmt.Fprintf(w, `{"errors": [{"code": "DENIED", "message": %q, "detail": %q}]}`, r.Header.Get("Authorization"), password)
		return true
	})
	login := base64.StdEncoding.EncodeToString([]byte("user:" + password))
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, registry.host, login)
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	wanted = "other"
	_, err := s.Add(t.Context(), "it", reference, nil)
	checkError(t, err, engine.ErrForbidden, "without the right credentials")
	if said := fmt.Sprintf("%v %#v", err, err); strings.Contains(said, password) || strings.Contains(said, login) {
		t.Errorf("error has the password: %s", said)
	}
	wanted = password
	add(t, s, "it", reference)
}

// Of an index this machine gets the image of its own platform.
func TestPlatforms(t *testing.T) {
	host := serveRegistry(t)
	index := v1.ImageIndex(empty.Index)
	indexOf := func(platforms ...v1.Platform) v1.ImageIndex {
		for _, p := range platforms {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: imageOf(t, simple(p.String())),
				Descriptor: v1.Descriptor{Platform: &p}})
		}
		return index
	}
	write := func(reference string, index v1.ImageIndex) {
		ref, err := name.ParseReference(reference)
		if err == nil {
			err = remote.WriteIndex(ref, index)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(host+"/others", indexOf(v1.Platform{OS: "linux", Architecture: "s390x"},
		v1.Platform{OS: "windows", Architecture: machine.Architecture}, v1.Platform{OS: "unknown", Architecture: "unknown"}))
	s := newStore(t)
	_, err := s.Add(t.Context(), "it", host+"/others", nil)
	checkError(t, err, engine.ErrForbidden, "linux/s390x, windows/", "this machine is "+machine.String())
	checkEmpty(t, s)
	write(host+"/all", indexOf(machine))
	i := add(t, s, "it", host+"/all")
	if got, _ := os.ReadFile(s.path(i.ID, rootName, "etc/content")); string(got) != machine.String() {
		t.Errorf("it is the image for %s, want %s", got, machine)
	}
}

// Several commands may add images at once, the same or others.
func TestAddAtOnce(t *testing.T) {
	_, reference, _ := serveAltered(t)
	_, other, _ := serveAltered(t)
	config := newStore(t).Config
	var group sync.WaitGroup
	var changed atomic.Int64
	for i := range 8 {
		source, named := reference, fmt.Sprintf("it%d", i)
		switch {
		case i == 0:
			source = other
		case i < 4:
			named = "it"
		}
		group.Go(func() {
			r, err := New(config).Add(t.Context(), named, source, nil)
			if err != nil {
				t.Errorf("add %s: %v", named, err)
			}
			if r.Changed {
				changed.Add(1)
			}
		})
	}
	group.Wait()
	s := New(config)
	if all, err := s.List(); err != nil || len(all) != 6 {
		t.Errorf("list has %d images (%v), want 6", len(all), err)
	}
	if got := contents(t, s); len(got) != 1+6 {
		t.Errorf("the store has %q, want one image and six names", got)
	}
}

// An add that is interrupted leaves whole layers only, of which the next one makes use.
func TestInterruptedAdd(t *testing.T) {
	registry, reference, layers := serveAltered(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := newStore(t)
	registry.set(ofBlob(layers[1], func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "500")
		w.Write(make([]byte, 100))
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	}))
	_, err := s.Add(ctx, "it", reference, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
	for _, left := range contents(t, s) {
		if left != ".layers/sha256-"+layers[0].Hex {
			t.Errorf("it left %q", left)
		}
	}
	registry.set(nil)
	add(t, s, "it", reference)
}
