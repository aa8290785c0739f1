package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/airlock-run/airlock/internal/engine"
)

// written is the time of files in images.
var written = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// file, program, dir and symlink are entries of a layer.
func file(name, content string) entry {
	return entry{&tar.Header{Name: name, Mode: 0o644, ModTime: written, Typeflag: tar.TypeReg}, content}
}

func program(name, content string) entry {
	e := file(name, content)
	e.Mode = 0o755
	return e
}

func dir(name string) entry {
	return entry{&tar.Header{Name: name, Mode: 0o755, ModTime: written, Typeflag: tar.TypeDir}, ""}
}

func symlink(name, target string) entry {
	return entry{&tar.Header{Name: name, Linkname: target, Mode: 0o777, Typeflag: tar.TypeSymlink}, ""}
}

func hardlink(name, target string) entry {
	return entry{&tar.Header{Name: name, Linkname: target, Mode: 0o644, Typeflag: tar.TypeLink}, ""}
}

type entry struct {
	*tar.Header
	content string
}

// tarOf returns the archive of a layer.
func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := w.WriteHeader(e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func layerOf(t *testing.T, archive []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf returns an image of layers, for this machine.
func imageOf(t *testing.T, layers ...[]entry) v1.Image {
	t.Helper()
	var all []v1.Layer
	for _, entries := range layers {
		all = append(all, layerOf(t, tarOf(t, entries...)))
	}
	return configured(t, all, func(*v1.ConfigFile) {})
}

func configured(t *testing.T, layers []v1.Layer, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = machine.OS, machine.Architecture
	change(config)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// simple are the files of an image with Python and a shell.
func simple(content string) []entry {
	return []entry{dir("bin/"), program("bin/sh", "#"), dir("usr/"), dir("usr/bin/"), program("usr/bin/python3", "#"),
		file("etc/content", content)}
}

// serveRegistry returns the address of a registry.
func serveRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func push(t *testing.T, reference string, image v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
}

// fakeProber answers as the usual programs do.
type fakeProber struct{}

func (fakeProber) Release() {}

func (fakeProber) Run(_ context.Context, _ *engine.Image, argv []string) (Output, error) {
	switch base := path.Base(argv[0]); {
	case strings.HasPrefix(argv[len(argv)-1], "import missing"):
		return Output{Code: 1, Stderr: "Traceback\nModuleNotFoundError: No module named 'missing'"}, nil
	case strings.HasPrefix(base, "python"):
		return Output{Stdout: `{"version": [3, 13, 1], "modules": ["numpy", "a-b", "idna"]}` + "\n"}, nil
	case base == "bash":
		return Output{Stdout: "GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)\n"}, nil
	case base == "sh":
		return Output{Stdout: "0.0\n"}, nil
	default:
		return Output{Stdout: base + " v20.1.2\n"}, nil
	}
}

func newStore(t *testing.T, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{Dir: filepath.Join(t.TempDir(), "runtimes", "images"), Prober: fakeProber{}}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

func add(t *testing.T, s *Store, name, reference string) engine.Image {
	t.Helper()
	r, err := s.Add(t.Context(), name, reference, nil)
	if err != nil {
		t.Fatalf("add %s %s: %v", name, reference, err)
	}
	return r.Image
}

// contents returns what the store's folder has, without the lock and empty folders.
func contents(t *testing.T, s *Store) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"", namesFolder, layersFolder} {
		entries, err := os.ReadDir(s.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if n := e.Name(); n != lockName && n != namesFolder && n != layersFolder {
				all = append(all, path.Join(dir, n))
			}
		}
	}
	return all
}

// checkEmpty fails if an add left something.
func checkEmpty(t *testing.T, s *Store) {
	t.Helper()
	if left := contents(t, s); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// checkError fails unless an error is of a kind and has words.
func checkError(t *testing.T, err error, kind engine.Kind, words ...string) {
	t.Helper()
	if engine.KindOf(err) != kind || err == nil {
		t.Errorf("error is %v of kind %v, want %v", err, engine.KindOf(err), kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error is %q, want it to say %q", err, w)
		}
	}
}

// An image is the same from each kind of source.
func TestSources(t *testing.T) {
	image := imageOf(t, simple("one"))
	temp := t.TempDir()
	host := serveRegistry(t)
	push(t, host+"/team/image:1", image)
	docker := filepath.Join(temp, "docker:a.tar")
	tag, err := name.NewTag("team/image:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(docker, tag, image); err != nil {
		t.Fatal(err)
	}
	folder := writeLayout(t, image, "one")
	archive := filepath.Join(temp, "oci.tar")
	tarFolder(t, folder, archive)
	for _, reference := range []string{
		host + "/team/image:1", "docker-archive:" + docker, "docker-archive:" + docker + ":team/image:1",
		"docker-archive:" + docker + ":1", "oci:" + folder, "oci:" + folder + ":one", "oci-archive:" + archive,
		"oci-archive:" + archive + ":one",
	} {
		t.Run(reference[strings.LastIndexByte(reference, '/')+1:], func(t *testing.T) {
			s := newStore(t)
			i := add(t, s, "it", reference)
			got, err := os.ReadFile(s.path(i.ID, rootName, "etc/content"))
			if string(got) != "one" || err != nil {
				t.Errorf("content is %q (%v), want one", got, err)
			}
			if i.Reference != reference || i.Files != 3 || i.Size != 5 {
				t.Errorf("image is of %s with %d files, %d bytes; want %s, 3, 5", i.Reference, i.Files, i.Size, reference)
			}
			want := []engine.ImageLanguage{{Name: "python", Version: "3.13.1", Path: "/usr/bin/python3"},
				{Name: "bash", Path: "/bin/sh"}}
			if fmt.Sprint(i.Languages) != fmt.Sprint(want) {
				t.Errorf("languages are %v, want %v", i.Languages, want)
			}
			if got := strings.Join(i.Modules, " "); got != "idna numpy" {
				t.Errorf("modules are %q, want idna numpy", got)
			}
			if got := strings.Join(contents(t, s), " "); got != i.ID+" names/it.json" {
				t.Errorf("store has %q, want %s and its name", got, i.ID)
			}
			found, ok, err := s.Find("it")
			if !ok || err != nil || found.ID != i.ID || found.Name != "it" || found.AddedAt.IsZero() {
				t.Errorf("found %v %v %v, want %s", found, ok, err, i.ID)
			}
		})
	}
}

// writeLayout writes an image into a folder in the layout of OCI.
func writeLayout(t *testing.T, image v1.Image, tag string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "layout")
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AppendImage(image, layout.WithAnnotations(map[string]string{refName: tag})); err != nil {
		t.Fatal(err)
	}
	return folder
}

func tarFolder(t *testing.T, folder, to string) {
	t.Helper()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := errors.Join(w.AddFS(os.DirFS(folder)), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
