package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/airlock-run/airlock/internal/engine"
)

// source is where an image is from.
type source struct {
	kind string // "" of a registry
	path string // of an archive or a folder; else the name that a Docker daemon knows
	tag  string // of the image in an archive that has several
	ref  name.Reference
}

// Kinds of sources, as a prefix of their names.
const (
	dockerArchive = "docker-archive"
	dockerDaemon  = "docker-daemon"
	ociFolder     = "oci"
	ociArchive    = "oci-archive"
)

// parseSource reads the name of a source, as users write it.
func parseSource(text string) (source, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case dockerArchive, ociFolder, ociArchive:
		if rest == "" {
			return source{}, refuse(engine.ErrInvalid, kind+":FILE or "+kind+":FILE:TAG", "%s: names no file", kind)
		}
		return fileSource(kind, rest)
	case dockerDaemon:
		ref, err := name.ParseReference(rest)
		if err != nil {
			return source{}, refuse(engine.ErrInvalid, "write docker-daemon:NAME, as `docker images` lists it",
				"%.100q names no image of a Docker daemon", rest)
		}
		return source{kind: kind, path: rest, ref: ref}, nil
	}
	const forms = "write NAME:TAG for a registry's image, as python:3.13-slim or registry.example.com/team/image:1.0, " +
		"else docker-archive:FILE, oci-archive:FILE, oci:FOLDER or docker-daemon:NAME"
	if strings.Contains(text, "://") { // it may hold a password
		return source{}, refuse(engine.ErrInvalid, forms, "an image is named without https:// and without a user")
	}
	if _, err := os.Stat(text); err == nil {
		return source{}, refuse(engine.ErrInvalid, forms, "%.100q is a file, and its kind is not known", text)
	}
	ref, err := name.ParseReference(text)
	if err != nil && strings.Contains(text, "@") {
		return source{}, refuse(engine.ErrInvalid, forms, "this names no image: after @ comes a digest")
	} else if err != nil {
		return source{}, refuse(engine.ErrInvalid, forms, "%.100q names no image", text)
	}
	return source{ref: ref, path: text}, nil
}

// fileSource splits FILE:TAG. A file may have a colon in its name.
func fileSource(kind, text string) (source, error) {
	for end := len(text); end > 0; end = strings.LastIndexByte(text[:end], ':') {
		if _, err := os.Stat(text[:end]); err == nil {
			path, err := filepath.Abs(text[:end])
			return source{kind: kind, path: path, tag: strings.TrimPrefix(text[end:], ":")}, err
		}
	}
	return source{}, refuse(engine.ErrNotFound, "check the path", "there is no file %s", text)
}

// String returns the name by which the source is found again.
func (s source) String() string {
	text := s.path
	if s.kind != "" {
		text = s.kind + ":" + text
	}
	if s.tag != "" {
		text += ":" + s.tag
	}
	return text
}

// opened is an image whose layers can be read.
type opened struct {
	id     string
	config *v1.ConfigFile
	layers []*layer
	start  func() // begins to fetch the layers; nil: they are there
	close  func()
	remote bool // its layers are kept until it was added
}

// open opens the image of a source. Temporary files go to the folder work.
func (s *Store) open(ctx context.Context, from source, work string) (*opened, error) {
	switch from.kind {
	case ociFolder:
		root, err := os.OpenRoot(from.path)
		if err != nil {
			return nil, refuse(engine.ErrNotFound, "oci:FOLDER is a folder with index.json and blobs in it",
				"%s is no folder that can be read", from.path)
		}
		return openLayout(folderBlobs{root}, from)
	case ociArchive, dockerArchive:
		file, err := os.Open(from.path)
		if err != nil {
			return nil, err
		}
		archive, err := s.openArchive(ctx, file, work)
		if err != nil {
			file.Close()
			return nil, err
		}
		if from.kind == ociArchive {
			return openLayout(archive, from)
		}
		return openDocker(archive, from)
	case dockerDaemon:
		file, err := s.saveFromDaemon(ctx, from, work)
		if err != nil {
			return nil, err
		}
		archive, err := s.openArchive(ctx, file, work)
		if err != nil {
			file.Close()
			return nil, err
		}
		return openDocker(archive, source{kind: dockerDaemon, path: from.path})
	}
	return s.openRegistry(ctx, from, work)
}

// blobs are the files of an image that lie on this machine.
type blobs interface {
	// Open returns a file and its size.
	Open(name string) (io.ReadCloser, int64, error)
	Close() error
}

type folderBlobs struct{ *os.Root }

func (f folderBlobs) Open(name string) (io.ReadCloser, int64, error) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", name)
	}
	file, err := f.Root.Open(name)
	return file, info.Size(), err
}

// maxDocument bounds a manifest, an index and a configuration.
const maxDocument = 4 << 20

// document reads a small file.
func document(b blobs, name string) ([]byte, error) {
	file, size, err := b.Open(name)
	if err != nil {
		return nil, refuse(engine.ErrForbidden, "is it the right kind of archive?", "%s is missing in it", name)
	}
	defer file.Close()
	if size > maxDocument {
		return nil, refuse(engine.ErrTooLarge, "", "%s in it has %s", name, sizeText(size))
	}
	return io.ReadAll(io.LimitReader(file, maxDocument))
}

// blob reads a small file and compares it with its digest.
func blob(b blobs, d v1.Hash) ([]byte, error) {
	content, err := document(b, blobName(d))
	if err != nil {
		return nil, err
	}
	got, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if got != d {
		return nil, refuse(engine.ErrForbidden, "make the archive again: it is damaged",
			"%s in it has the digest %.19s...", blobName(d), got)
	}
	return content, nil
}

func blobName(d v1.Hash) string { return "blobs/" + d.Algorithm + "/" + d.Hex }

// openLayout opens an image in the layout of OCI.
func openLayout(b blobs, from source) (_ *opened, err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	content, err := document(b, "index.json")
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(content))
	if err != nil {
		return nil, unreadable("index.json", err)
	}
	all, err := tagged(index.Manifests, from.tag)
	if err != nil {
		return nil, err
	}
	chosen, content, err := choose(all, from.String(), 0, func(d v1.Hash) ([]byte, error) { return blob(b, d) })
	if err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return nil, unreadable("its manifest", err)
	}
	content, err = blob(b, manifest.Config.Digest)
	if err != nil {
		return nil, err
	}
	o := &opened{id: imageID(chosen), close: func() { b.Close() }}
	for _, d := range manifest.Layers {
		l := &layer{digest: d.Digest, size: d.Size}
		l.open = func(context.Context) (io.ReadCloser, error) {
			file, _, err := b.Open(blobName(d.Digest))
			if err != nil {
				return nil, refuse(engine.ErrForbidden, "make the archive again", "%s is missing in it", blobName(d.Digest))
			}
			return file, nil
		}
		o.layers = append(o.layers, l)
	}
	return o, o.configure(content, from)
}

func imageID(d v1.Hash) string { return imagePrefix + d.Hex }

func unreadable(what string, err error) error {
	return refuse(engine.ErrForbidden, "is it the right kind of archive?", "%s cannot be read: %w", what, err)
}

// Annotations with the name of an image in a layout.
const (
	refName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// tagged returns the entries of a layout's index that have a tag, all of them if it is empty.
func tagged(all []v1.Descriptor, tag string) ([]v1.Descriptor, error) {
	var tags []string
	var chosen []v1.Descriptor
	for _, d := range all {
		short, full := d.Annotations[refName], d.Annotations[containerdName]
		if tag != "" && (tag == short || tag == full) {
			chosen = append(chosen, d)
		}
		if short != "" && !slices.Contains(tags, short) {
			tags = append(tags, short)
		}
	}
	switch {
	case tag == "" && len(tags) > 1:
		return nil, refuse(engine.ErrInvalid, "add one of them, with :TAG after the file",
			"there are several images in it: %.200s", strings.Join(tags, ", "))
	case tag == "":
		return all, nil
	case len(chosen) == 0 && len(tags) > 0:
		return nil, refuse(engine.ErrNotFound, "", "it has no image %.100q, but %.200s", tag, strings.Join(tags, ", "))
	case len(chosen) == 0:
		return nil, refuse(engine.ErrNotFound, "leave the tag out", "it has no image %.100q: its image has no tag", tag)
	}
	return chosen, nil
}

// maxIndexes bounds indexes in indexes.
const maxIndexes = 4

// choose returns the manifest of this machine's platform.
func choose(
	all []v1.Descriptor, name string, depth int, read func(v1.Hash) ([]byte, error),
) (digest v1.Hash, manifest []byte, err error) {
	var others []string
	for _, d := range all {
		if d.Platform != nil && (d.Platform.OS != machine.OS || d.Platform.Architecture != machine.Architecture) {
			if d.Platform.OS != "unknown" { // an attestation
				others = append(others, d.Platform.String())
			}
			continue
		}
		switch {
		case d.MediaType.IsImage():
			manifest, err := read(d.Digest)
			return d.Digest, manifest, err
		case d.MediaType.IsIndex() && depth < maxIndexes:
			content, err := read(d.Digest)
			if err != nil {
				return v1.Hash{}, nil, err
			}
			index, err := v1.ParseIndexManifest(bytes.NewReader(content))
			if err != nil {
				return v1.Hash{}, nil, unreadable("its index", err)
			}
			return choose(index.Manifests, name, depth+1, read)
		}
	}
	if len(others) > 0 {
		return v1.Hash{}, nil, otherPlatform(name, others...)
	}
	return v1.Hash{}, nil, refuse(engine.ErrForbidden, "", "%s has no image", name)
}

// machine is the platform whose programs run here.
var machine = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

func otherPlatform(name string, has ...string) error {
	slices.Sort(has)
	return refuse(engine.ErrForbidden, "build or pull the image for "+machine.String()+
		" (docker build --platform "+machine.String()+")",
		"%s is an image for %.200s, and this machine is %s", name, strings.Join(slices.Compact(has), ", "), machine)
}

// configure reads the configuration of an image, which names the digests of its layers' archives.
func (o *opened) configure(content []byte, from source) error {
	config, err := v1.ParseConfigFile(bytes.NewReader(content))
	if err != nil {
		o.close()
		return unreadable("its configuration", err)
	}
	o.config = config
	switch p := config.Platform(); {
	case p != nil && (p.OS != "" && p.OS != machine.OS || p.Architecture != "" && p.Architecture != machine.Architecture):
		err = otherPlatform(from.String(), p.String())
	case len(config.RootFS.DiffIDs) != len(o.layers):
		err = refuse(engine.ErrForbidden, "", "its configuration names %d layers, and its manifest %d",
			len(config.RootFS.DiffIDs), len(o.layers))
	}
	for i, d := range config.RootFS.DiffIDs {
		if err == nil && d.Algorithm != "sha256" {
			err = refuse(engine.ErrForbidden, "", "layer %d has a digest of the kind %.20q", i+1, d.Algorithm)
		}
		if err == nil {
			o.layers[i].diffID = d
		}
	}
	if err != nil {
		o.close()
	}
	return err
}

// check refuses an image that is over a limit as it declares itself.
func (o *opened) check(limits Limits) error {
	if len(o.layers) > limits.Layers {
		return refuse(engine.ErrTooLarge, "build it with fewer layers (docker build --squash, or one COPY --from)",
			"it has %d layers, and at most %d are allowed", len(o.layers), limits.Layers)
	}
	var sum int64
	for _, l := range o.layers {
		if l.size < 0 || l.size > limits.Bytes-sum {
			return tooLarge(limits)
		}
		sum += l.size
	}
	return nil
}
