package oci

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// An image is the same on the machine that installs what another one exports.
func TestExport(t *testing.T) {
	s, other := newStore(t), newStore(t)
	files := append(simple("one"), hardlink("etc/twin", "etc/content"), symlink("l", "/etc"))
	folder := writeLayout(t, imageOf(t, files), "it")
	i := add(t, s, "it", "oci:"+folder)
	var archive, again bytes.Buffer
	if err := s.Export(t.Context(), i.ID, &archive); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := other.Install(t.Context(), i.ID, bytes.NewReader(archive.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Export(t.Context(), i.ID, &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Error("what was installed is exported in other bytes")
	}
	if diff := cmp.Diff(listing(t, s.path(i.ID)), listing(t, other.path(i.ID))); diff != "" {
		t.Errorf("-exported +installed\n%s", diff)
	}
	var stat syscall.Stat_t
	if err := syscall.Lstat(other.path(i.ID, rootName, "etc/twin"), &stat); err != nil || stat.Nlink != 2 {
		t.Errorf("the twin has %d names (%v), want 2", stat.Nlink, err)
	}
	if info, err := os.Stat(other.path(i.ID, rootName, "etc/content")); err != nil || !info.ModTime().Equal(written) {
		t.Errorf("its time is %v (%v), want %v", info.ModTime(), err, written)
	}
	hold, err := other.hold(i.ID)
	if err != nil {
		t.Fatal(err)
	}
	if dropped, err := other.Drop(i.ID); dropped || err != nil {
		t.Errorf("drop in use: %v, %v", dropped, err)
	}
	hold.Close()
	if dropped, err := other.Drop(i.ID); !dropped || err != nil {
		t.Errorf("drop: %v, %v", dropped, err)
	}
	checkEmpty(t, other)
}

// What is no image of that id is not installed.
func TestBadInstall(t *testing.T) {
	s, other := newStore(t), newStore(t)
	i := add(t, s, "it", "oci:"+writeLayout(t, imageOf(t, simple("one")), "it"))
	var archive bytes.Buffer
	if err := s.Export(t.Context(), i.ID, &archive); err != nil {
		t.Fatal(err)
	}
	id := imagePrefix + strings.Repeat("0", 64)
	for _, tt := range []struct {
		id      string
		archive []byte
		want    string
	}{
		{id, archive.Bytes(), "has another image"},
		{i.ID, archive.Bytes()[:archive.Len()-20], "cut off"},
		{i.ID, zstandard(t, tarOf(t, file("image.json", `{"id": "`+i.ID+`"}`))), "has no files"},
		{i.ID, zstandard(t, tarOf(t, file("../x", ""))), "leads out"},
		{i.ID, nil, "has another image"},
	} {
		checkError(t, other.Install(t.Context(), tt.id, bytes.NewReader(tt.archive)), engine.ErrForbidden, tt.want)
		checkEmpty(t, other)
	}
	for _, id := range []string{"../x", "sha256-", filepath.Base(s.Dir)} {
		checkError(t, other.Install(t.Context(), id, nil), engine.ErrNotFound)
		checkError(t, s.Export(t.Context(), id, nil), engine.ErrNotFound)
	}
}
