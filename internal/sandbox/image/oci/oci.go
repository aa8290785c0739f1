// Package oci keeps the images of this machine: it fetches OCI images, writes the files of each
// once into a folder, and finds them by name.
//
// Everything is in one folder, which belongs to whoever sets this machine up:
//
//	sha256-4f0c…/rootfs/      the files of an image
//	sha256-4f0c…/image.json   an engine.Image, without its name
//	names/py313.json          the reference, id and date of a name
//	.adding-…/                an image that is being written; locked while it is
//	.removing-…/              what is left of an image that was removed
//	.layers/sha256-77a1…      layers of an add that was interrupted
//	.lock                     is held while one of these gets or loses its name
//
// A folder sha256-… is complete once it has that name, and its files never change. Whoever uses
// them holds a shared flock on it; whoever removes them holds an exclusive one.
//
// An image is hostile until it has been read: its archives lead nowhere out of their folder,
// expand to no more than the limits allow, and get no rights that its files ask for.
package oci

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// Config is what a Store needs.
type Config struct {
	Dir    string // the folder of images
	Limits Limits // zero fields are DefaultLimits'

	// MinFree are the bytes that stay free on the disk.
	MinFree int64
	// Prober runs commands in an image that was just written. Only Add and Update need it.
	Prober Prober
	// Docker is the socket of the Docker daemon; empty: the usual one.
	Docker string
	// Progress is told how much was done of something; nil: nobody.
	Progress func(what, name string, done, size int64)
}

// Limits bound an image.
type Limits struct {
	Bytes  int64 // of its files, and of its layers as they are stored
	Files  int   // also those that a later layer replaces
	Layers int
	Ratio  int64 // to which a layer expands
}

// DefaultLimits are the limits of an image.
var DefaultLimits = Limits{Bytes: 6 << 30, Files: 500_000, Layers: 128, Ratio: 200}

// Limits of one file of an image.
const (
	maxPath  = 3 << 10 // bytes of its path
	maxDepth = 128     // folders that it is in
)

// Store is a folder of images.
type Store struct {
	Config

	mu    sync.Mutex
	found map[string]found
	shown sync.Mutex // Progress is called by one goroutine at a time
}

// dockerSocket is where a Docker daemon usually listens.
const dockerSocket = "/var/run/docker.sock"

// New returns the store of a folder, which need not exist yet.
func New(c Config) *Store {
	l, usual := &c.Limits, DefaultLimits
	l.Bytes, l.Files = cmp.Or(l.Bytes, usual.Bytes), cmp.Or(l.Files, usual.Files)
	l.Layers, l.Ratio = cmp.Or(l.Layers, usual.Layers), cmp.Or(l.Ratio, usual.Ratio)
	c.Docker = cmp.Or(c.Docker, dockerSocket)
	return &Store{Config: c, found: map[string]found{}}
}

func (s *Store) progress(what, name string, done, size int64) {
	if s.Progress == nil {
		return
	}
	s.shown.Lock()
	defer s.shown.Unlock()
	s.Progress(what, name, done, size)
}

// Names of entries of the folder.
const (
	namesFolder    = "names"
	layersFolder   = ".layers"
	addingPrefix   = ".adding-"
	removingPrefix = ".removing-"
	imagePrefix    = "sha256-"
	lockName       = ".lock"

	rootName  = "rootfs"
	imageName = "image.json"
)

func (s *Store) path(names ...string) string {
	return filepath.Join(append([]string{s.Dir}, names...)...)
}

// makeFolders makes the folders of the store, which everybody can read, whatever the umask is.
func (s *Store) makeFolders() error {
	for _, dir := range []string{s.Dir, s.path(namesFolder), s.path(layersFolder)} {
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// CheckName refuses a name that no image can have.
func CheckName(name string) error {
	const rule = "a name has up to 63 of the characters a-z, 0-9, dot, dash and underscore, and begins with a letter or " +
		"digit"
	switch {
	case name == engine.HostImage:
		return refuse(engine.ErrInvalid, "choose another name", "the name %s stands for the machine's own environment", name)
	case name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "",
		strings.ContainsRune("._-", rune(name[0])):
		return refuse(engine.ErrInvalid, rule, "%.80q cannot be the name of an image", name)
	}
	return nil
}

// isID reports whether a text is the id of an image.
func isID(id string) bool {
	hex, ok := strings.CutPrefix(id, imagePrefix)
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// refuse returns an error that says what is wrong, and a hint of what to do.
func refuse(kind engine.Kind, hint, format string, args ...any) error {
	return &engine.Error{Op: "image", Kind: kind, Hint: hint, Err: fmt.Errorf(format, args...)}
}
