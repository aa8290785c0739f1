package oci

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Equal files of two images are one file, and others are not, however alike they look.
func TestTwins(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20_000) // more than is compared at once
	base := append(simple("base"), file("large", large), file("early", large), file("late", large), file("mode", large),
		file("time", large), file("size", large), file("empty", ""), hardlink("name", "large"))
	other := append(simple("base"), file("large", large), file("early", "x"+large[1:]),
		file("late", large[:len(large)-1]+"x"), program("mode", large), file("time", large), file("size", large+"x"),
		file("empty", ""), hardlink("name", "large"))
	for i := range other {
		if other[i].Name == "time" {
			other[i].ModTime = written.Add(time.Second)
		}
	}
	s := newStore(t)
	a := add(t, s, "a", "oci:"+writeLayout(t, imageOf(t, base), "a"))
	before := listing(t, s.path(a.ID, rootName))
	b := add(t, s, "b", "oci:"+writeLayout(t, imageOf(t, other), "b"))
	alone := newStore(t)
	add(t, alone, "b", "oci:"+writeLayout(t, imageOf(t, other), "b"))
	if diff := cmp.Diff(listing(t, alone.path(b.ID, rootName)), listing(t, s.path(b.ID, rootName))); diff != "" {
		t.Errorf("-alone +with another image\n%s", diff)
	}
	if diff := cmp.Diff(before, listing(t, s.path(a.ID, rootName))); diff != "" {
		t.Errorf("the first image has changed: -before +after\n%s", diff)
	}
	inode := func(id, name string) (n uint64, mode os.FileMode) {
		info, err := os.Lstat(s.path(id, rootName, name))
		if err != nil {
			t.Fatal(err)
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		return stat.Ino, info.Mode()
	}
	for name, same := range map[string]bool{"large": true, "name": true, "bin/sh": true, "etc/content": true,
		"early": false, "late": false, "mode": false, "time": false, "size": false, "empty": false} {
		in, _ := inode(a.ID, name)
		if of, _ := inode(b.ID, name); (in == of) != same {
			t.Errorf("%s is one file: %v, want %v", name, in == of, same)
		}
	}
	if _, mode := inode(a.ID, "mode"); mode != 0o644 {
		t.Errorf("the mode of the first image's file is %v, want 0644", mode)
	}
	if _, err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(s.path(b.ID, rootName, "large")); string(got) != large || err != nil {
		t.Errorf("%d bytes are left of a file of both (%v), want %d", len(got), err, len(large))
	}
}
