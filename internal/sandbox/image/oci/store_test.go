package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/airlock-run/airlock/internal/engine"
)

// A name keeps its image until it is updated, also if the tag has moved.
func TestUpdate(t *testing.T) {
	host, s := serveRegistry(t), newStore(t)
	reference := host + "/team/image:1"
	push(t, reference, imageOf(t, simple("one")))
	first := add(t, s, "it", reference)
	r, err := s.Update(t.Context(), "it")
	if err != nil || r.Changed || r.Image.ID != first.ID {
		t.Errorf("update without a change: %v, changed %v", err, r.Changed)
	}
	push(t, reference, imageOf(t, simple("two")))
	if r, err = s.Add(t.Context(), "it", reference, nil); err != nil || r.Changed || r.Image.ID != first.ID {
		t.Errorf("add again: %v, changed %v", err, r.Changed)
	}
	if r, err = s.Update(t.Context(), "it"); err != nil || !r.Changed || r.InUse {
		t.Fatalf("update: %v, changed %v, in use %v", err, r.Changed, r.InUse)
	}
	got, err := os.ReadFile(s.path(r.Image.ID, rootName, "etc/content"))
	if string(got) != "two" || err != nil {
		t.Errorf("content is %q (%v), want two", got, err)
	}
	if exists(s.path(first.ID)) {
		t.Error("the files of the old image are still there")
	}
	if _, err = s.Update(t.Context(), "other"); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("update of no image: %v", err)
	}
}

// The files of an image stay while they are used or have another name.
func TestRemove(t *testing.T) {
	s := newStore(t)
	folder := writeLayout(t, imageOf(t, simple("one")), "one")
	i := add(t, s, "a", "oci:"+folder)
	add(t, s, "b", "oci:"+folder)
	if inUse, err := s.Remove("a"); inUse || err != nil {
		t.Errorf("remove: in use %v, %v", inUse, err)
	}
	if !exists(s.path(i.ID)) {
		t.Fatal("the files of b were removed")
	}
	program, err := s.hold(i.ID)
	if err != nil {
		t.Fatal(err)
	}
	if inUse, err := s.Remove("b"); !inUse || err != nil {
		t.Errorf("remove in use: in use %v, %v", inUse, err)
	}
	if _, ok, err := s.Find("b"); ok || err != nil {
		t.Errorf("b is found: %v", err)
	}
	if !exists(s.path(i.ID, rootName, "etc/content")) {
		t.Error("the files of a running program were removed")
	}
	add(t, s, "c", "oci:"+folder)
	if inUse, err := s.Remove("c"); !inUse || err != nil {
		t.Errorf("remove in use: in use %v, %v", inUse, err)
	}
	program.Close()
	if inUse, err := s.Sweep(); inUse != 0 || err != nil {
		t.Errorf("sweep: in use %v, %v", inUse, err)
	}
	checkEmpty(t, s)
	_, err = s.Remove("b")
	checkError(t, err, engine.ErrNotFound, "there is no image b")
}

// Another process's changes are seen by a store that has read the files before.
func TestFindSeesChanges(t *testing.T) {
	s := newStore(t)
	other := New(s.Config)
	one, two := writeLayout(t, imageOf(t, simple("one")), "1"), writeLayout(t, imageOf(t, simple("two")), "2")
	find := func() string {
		i, ok, err := other.Find("it")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(ok, i.Reference, i.Preload)
	}
	if got, want := find(), "false[]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	add(t, s, "it", "oci:"+one)
	if got, want := find(), "trueoci:"+one+"[]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if r, err := s.Add(t.Context(), "it", "oci:"+one, []string{"numpy"}); err != nil || !r.Changed {
		t.Errorf("add with modules: %v, changed %v", err, r.Changed)
	}
	if got, want := find(), "trueoci:"+one+"[numpy]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if _, err := s.Remove("it"); err != nil {
		t.Fatal(err)
	}
	if got, want := find(), "false[]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	add(t, s, "it", "oci:"+two)
	if got, want := find(), "trueoci:"+two+"[]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if all, err := other.List(); err != nil || len(all) != 1 || all[0].Name != "it" {
		t.Errorf("list is %v, %v", all, err)
	}
}

func BenchmarkFind(b *testing.B) {
	s := New(Config{Dir: b.TempDir()})
	i := engine.Image{ID: imagePrefix + strings.Repeat("0", 64)}
	err := errors.Join(s.makeFolders(), os.Mkdir(s.path(i.ID), 0o755), writeJSON(s.path(i.ID, imageName), i),
		writeJSON(s.path(namesFolder, "it.json"), record{ID: i.ID}))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok, err := s.Find("it"); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// An image that cannot be used is refused with its reason, and leaves nothing.
func TestBadImages(t *testing.T) {
	platform := func(arch string) v1.Image {
		layers := []v1.Layer{layerOf(t, tarOf(t, simple("x")...))}
		return configured(t, layers, func(c *v1.ConfigFile) { c.Architecture = arch })
	}
	many := make([][]entry, 130)
	for i := range many {
		many[i] = []entry{file(fmt.Sprintf("f%d", i), "")}
	}
	for _, tt := range []struct {
		name  string
		image v1.Image
		kind  engine.Kind
		want  []string
	}{
		{"other architecture", platform("s390x"), engine.ErrForbidden, []string{"linux/s390x", machine.String()}},
		{"no program", imageOf(t, []entry{file("hello", "x")}), engine.ErrForbidden, []string{"no shell in it"}},
		{"no layer", imageOf(t), engine.ErrForbidden, []string{"no shell"}},
		{"not executable", imageOf(t, []entry{file("bin/sh", "x")}), engine.ErrForbidden, []string{"no shell"}},
		{"many layers", imageOf(t, many...), engine.ErrTooLarge, []string{"130 layers", "128"}},
		{"dots", imageOf(t, []entry{file("../x", "")}), engine.ErrForbidden, []string{"layer 1 of 1", `"../x"`, "leads out"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			_, err := s.Add(t.Context(), "it", "oci:"+writeLayout(t, tt.image, "it"), nil)
			checkError(t, err, tt.kind, append(tt.want, "image it")...)
			checkEmpty(t, s)
			add(t, s, "it", "oci:"+writeLayout(t, imageOf(t, simple("good")), "it"))
		})
	}
}

// editManifest changes the manifest of a layout's only image.
func editManifest(t *testing.T, folder string, change func(*v1.Manifest)) {
	t.Helper()
	var index v1.IndexManifest
	var manifest v1.Manifest
	if err := readJSON(filepath.Join(folder, "index.json"), &index); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(filepath.Join(folder, blobName(index.Manifests[0].Digest)), &manifest); err != nil {
		t.Fatal(err)
	}
	change(&manifest)
	content, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	index.Manifests[0].Digest, index.Manifests[0].Size = digestOf(content), int64(len(content))
	err = errors.Join(os.WriteFile(filepath.Join(folder, blobName(digestOf(content))), content, 0o644),
		writeJSON(filepath.Join(folder, "index.json"), index))
	if err != nil {
		t.Fatal(err)
	}
}

// A damaged archive is refused, and leaves nothing.
func TestDamagedArchives(t *testing.T) {
	layerFile := func(folder string) (path string) {
		editManifest(t, folder, func(m *v1.Manifest) { path = filepath.Join(folder, blobName(m.Layers[0].Digest)) })
		return path
	}
	for _, tt := range []struct {
		name   string
		damage func(folder string) error
		kind   engine.Kind
		want   string
	}{
		{"declared size", func(folder string) error {
			editManifest(t, folder, func(m *v1.Manifest) { m.Layers[0].Size = 8 << 30 })
			return nil
		}, engine.ErrTooLarge, "more than the 6.0 GiB"},
		{"negative size", func(folder string) error {
			editManifest(t, folder, func(m *v1.Manifest) { m.Layers[0].Size = -1 })
			return nil
		}, engine.ErrTooLarge, "more than"},
		{"layer cut off", func(folder string) error { return os.Truncate(layerFile(folder), 150) }, engine.ErrForbidden,
			"layer 1 of 1: it is cut off"},
		{"empty layer", func(folder string) error { return os.Truncate(layerFile(folder), 0) }, engine.ErrForbidden,
			"its digest is"},
		{"other layer", func(folder string) error {
			return os.WriteFile(layerFile(folder), gzipped(t, tarOf(t, file("x", "1"))), 0o644)
		}, engine.ErrForbidden, "its digest is"},
		{"no layer", func(folder string) error { return os.Remove(layerFile(folder)) }, engine.ErrForbidden, "is missing"},
		{"layer as a link", func(folder string) error {
			path := layerFile(folder)
			return errors.Join(os.Rename(path, folder+"-outside"), os.Symlink(folder+"-outside", path))
		}, engine.ErrForbidden, "is missing"},
		{"other manifest", func(folder string) error {
			var index v1.IndexManifest
			err := readJSON(filepath.Join(folder, "index.json"), &index)
			path := filepath.Join(folder, blobName(index.Manifests[0].Digest))
			return errors.Join(err, os.WriteFile(path, []byte("{}"), 0o644))
		}, engine.ErrForbidden, "has the digest"},
		{"no index", func(folder string) error { return os.Remove(filepath.Join(folder, "index.json")) },
			engine.ErrForbidden, "index.json is missing"},
		{"broken index", func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "index.json"), []byte("{"), 0o644)
		}, engine.ErrForbidden, "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder, s := writeLayout(t, imageOf(t, simple("x")), "it"), newStore(t)
			if err := tt.damage(folder); err != nil {
				t.Fatal(err)
			}
			_, err := s.Add(t.Context(), "it", "oci:"+folder, nil)
			checkError(t, err, tt.kind, tt.want)
			checkEmpty(t, s)
			add(t, s, "it", "oci:"+writeLayout(t, imageOf(t, simple("good")), "it"))
		})
	}
}

// A source that cannot be found is said in words.
func TestBadSources(t *testing.T) {
	temp := t.TempDir()
	text := filepath.Join(temp, "text.tar")
	if err := os.WriteFile(text, []byte(strings.Repeat("no archive", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(temp, "two")
	l, err := layout.Write(two, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"one", "two"} {
		err := l.AppendImage(imageOf(t, simple(tag)), layout.WithAnnotations(map[string]string{refName: tag}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		source string
		kind   engine.Kind
		want   string
	}{
		{"docker-archive:", engine.ErrInvalid, "names no file"},
		{"docker-archive:" + temp + "/none.tar", engine.ErrNotFound, "there is no file"},
		{"docker-archive:" + text, engine.ErrForbidden, "the archive is cut off or damaged"},
		{"oci-archive:" + text, engine.ErrForbidden, "the archive is cut off or damaged"},
		{"oci:" + text, engine.ErrNotFound, "no folder"},
		{"oci:" + temp, engine.ErrForbidden, "index.json is missing"},
		{"oci:" + two, engine.ErrInvalid, "several images in it: one, two"},
		{"oci:" + two + ":three", engine.ErrNotFound, "but one, two"},
		{text, engine.ErrInvalid, "is a file"},
		{"Python:3", engine.ErrInvalid, "names no image"},
		{"https://user:hunter2@example.com/x", engine.ErrInvalid, "without https://"},
		{"user:hunter2@example.com/x", engine.ErrInvalid, "names no image"},
		{"docker-daemon:UP", engine.ErrInvalid, "names no image"},
		{"docker-daemon:up", engine.ErrUnavailable, "does not answer"},
		{serveRegistry(t) + "/none", engine.ErrNotFound, "has no none latest"},
	} {
		t.Run(tt.source, func(t *testing.T) {
			s := newStore(t, func(c *Config) { c.Docker = temp + "/docker.sock" })
			_, err := s.Add(t.Context(), "it", tt.source, nil)
			checkError(t, err, tt.kind, tt.want)
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("error has the password: %v", err)
			}
			checkEmpty(t, s)
		})
	}
}

// Names that mean something else, or are no names, are refused.
func TestNames(t *testing.T) {
	s := newStore(t)
	folder := writeLayout(t, imageOf(t, simple("one")), "one")
	for _, name := range []string{"", "host", "Py", "a/b", "..", ".x", "-x", "_x", "a b", strings.Repeat("x", 64), "ä"} {
		if _, err := s.Add(t.Context(), name, "oci:"+folder, nil); engine.KindOf(err) != engine.ErrInvalid {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "py3.13-slim_x", strings.Repeat("x", 63), "0"} {
		add(t, s, name, "oci:"+folder)
	}
	_, err := s.Add(t.Context(), "a", "oci:"+writeLayout(t, imageOf(t, simple("two")), "two"), nil)
	checkError(t, err, engine.ErrConflict, "there is an image a already")
}
