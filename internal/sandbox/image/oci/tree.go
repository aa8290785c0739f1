package oci

import (
	"archive/tar"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// tree is the folder into which the layers of an image are written, one after the other.
//
// An os.Root keeps every path inside, also where a symbolic link of the image leads elsewhere.
// Such links are resolved as they are in the image, where an absolute one begins at its root.
type tree struct {
	root   *os.Root
	limits Limits
	bytes  int64               // written
	files  int                 // made
	room   func(n int64) error // is asked before n more bytes are written
	buf    []byte
	twins  []*os.Root // other images, whose equal files are linked

	// open are the folders of the last entry, from the root to the innermost.
	open []folder

	// Of the current layer: the entries that it made, by a hash of their paths, and the times of its
	// folders, which change while files are written.
	seed  maphash.Seed
	fresh map[uint64]struct{}
	times []folderTime
}

// folder is an open folder of the tree.
type folder struct {
	name string // by which the layer calls it: "var/run/lock"
	real string // its path without symbolic links: "run/lock"; "." of the root
	at   *os.Root
}

type folderTime struct {
	real string
	time time.Time
}

func newTree(dir string, limits Limits, room func(int64) error) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, limits: limits, room: room, buf: make([]byte, 256<<10), seed: maphash.MakeSeed(),
		open: []folder{{"", ".", root}}}, nil
}

func (t *tree) close() error {
	t.leave(1)
	return t.root.Close()
}

// leave closes all open folders but the first.
func (t *tree) leave(but int) {
	for _, f := range t.open[but:] {
		f.at.Close()
	}
	t.open = t.open[:but]
}

// Whiteouts are empty files whose names say what a layer removes.
const (
	whiteout       = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// apply writes a layer.
func (t *tree) apply(layer io.Reader) error {
	t.fresh, t.times = map[uint64]struct{}{}, nil
	archive := tar.NewReader(layer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := t.entry(header, archive); err != nil {
			return inEntry(header.Name, err)
		}
	}
	// A folder's time is that of its last change, which caches of fonts and modules compare.
	t.leave(1)
	for _, f := range t.times {
		// A later entry of the layer may have replaced it.
		_ = t.root.Chtimes(f.real, f.time, f.time)
	}
	return nil
}

// inEntry adds the name of an entry to an error.
func inEntry(name string, err error) error {
	if len(name) > 100 {
		name = name[:60] + "..." + name[len(name)-30:]
	}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return refuse(e.Kind, e.Hint, "%q: %w", name, e.Err)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok { // whose path is within its folder
		err = e.Err
	}
	return refuse(kindOr(err, engine.ErrForbidden), "", "%q: %w", name, err)
}

// entry writes an entry of a layer.
func (t *tree) entry(header *tar.Header, content io.Reader) error {
	name, err := cleanName(header.Name)
	if err != nil || name == "." {
		return err
	}
	dir, base := path.Split(name)
	in, err := t.enter(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return t.remove(in, base)
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
		err = t.writeFile(in, base, header, content)
	case tar.TypeDir:
		err = t.makeFolder(in, base, header)
	case tar.TypeSymlink:
		if len(header.Linkname) > maxPath {
			return errLongPath
		}
		err = t.replace(in, base, func() error { return in.at.Symlink(header.Linkname, base) })
	case tar.TypeLink:
		err = t.link(in, base, header.Linkname)
	default: // devices, FIFOs, and headers without a file
		return nil
	}
	if err == nil {
		t.mark(path.Join(in.real, base))
	}
	return err
}

var errLongPath = refuse(engine.ErrForbidden, "", "its path is longer than %d bytes or %d folders", maxPath, maxDepth)

// cleanName returns the path of an entry, relative to the root, "." of the root itself.
func cleanName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if len(clean) > maxPath || strings.Count(clean, "/") > maxDepth {
		return "", errLongPath
	}
	if strings.ContainsRune(clean, 0) {
		return "", refuse(engine.ErrForbidden, "", "its name has a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refuse(engine.ErrForbidden, "", "its path leads out of the image with ..")
		}
	}
	return clean, nil
}

// mark remembers that the current layer made an entry.
func (t *tree) mark(real string) {
	for ; real != "."; real = path.Dir(real) {
		key := maphash.String(t.seed, real)
		if _, ok := t.fresh[key]; ok {
			return
		}
		t.fresh[key] = struct{}{}
	}
}

func (t *tree) isFresh(real string) bool {
	_, ok := t.fresh[maphash.String(t.seed, real)]
	return ok
}

// count refuses one file too many.
func (t *tree) count() error {
	if t.files++; t.files > t.limits.Files {
		return refuse(engine.ErrTooLarge, "make a smaller image", "it is one of more than %d files", t.limits.Files)
	}
	return nil
}

// replace makes an entry, in place of another one with its name.
func (t *tree) replace(in *folder, base string, create func() error) error {
	if err := t.count(); err != nil {
		return err
	}
	err := create()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := in.at.RemoveAll(base); err != nil {
		return err
	}
	return create()
}

// permissions are those of an entry: no setuid, setgid and sticky bit, and only its owner may
// write. What was not root's before is root's now, and so may be read by everybody.
func permissions(header *tar.Header) fs.FileMode {
	mode := fs.FileMode(header.Mode) & 0o755
	if header.Uid != 0 {
		owner := mode >> 6 & 0o5
		mode |= owner<<3 | owner
	}
	if header.Typeflag == tar.TypeDir {
		return mode | 0o700
	}
	return mode | 0o400
}

func (t *tree) writeFile(in *folder, base string, header *tar.Header, content io.Reader) (err error) {
	if header.Size < 0 || header.Size > t.limits.Bytes-t.bytes {
		return tooLarge(t.limits)
	}
	if err := t.room(header.Size); err != nil {
		return err
	}
	if twin := t.twin(path.Join(in.real, base), header); twin != nil {
		defer twin.Close()
		if content, err = t.linkTwin(in, base, twin, content); err != nil || content == nil {
			return err
		}
	}
	var file *os.File
	err = t.replace(in, base, func() (err error) {
		file, err = in.at.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// A file's own ReadFrom would copy in smaller pieces.
	n, err := io.CopyBuffer(struct{ io.Writer }{file}, content, t.buf)
	if t.bytes += n; err != nil {
		return err
	}
	if err := file.Chmod(permissions(header)); err != nil {
		return err
	}
	return in.at.Chtimes(base, header.ModTime, header.ModTime)
}

func tooLarge(limits Limits) error {
	return refuse(engine.ErrTooLarge, "make a smaller image, or allow more with --max-size",
		"the image has more than the %s that an image may have", sizeText(limits.Bytes))
}

func (t *tree) makeFolder(in *folder, base string, header *tar.Header) error {
	info, err := in.at.Lstat(base)
	if err != nil || !info.IsDir() {
		if err := t.replace(in, base, func() error { return in.at.Mkdir(base, 0o700) }); err != nil {
			return err
		}
	}
	if err := chmodFolder(in.at, base, permissions(header)); err != nil {
		return err
	}
	t.times = append(t.times, folderTime{path.Join(in.real, base), header.ModTime})
	return nil
}

func chmodFolder(in *os.Root, base string, mode fs.FileMode) error {
	f, err := in.OpenFile(base, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}

// link makes a hard link to a file that is there already.
func (t *tree) link(in *folder, base, target string) error {
	target, err := cleanName(target)
	if err != nil {
		return refuse(engine.ErrForbidden, "", "it is a hard link that leads out of the image, or too far")
	}
	dir, file := path.Split(target)
	real, err := t.follow(".", dir, new(int), false)
	if err != nil {
		return refuse(engine.ErrForbidden, "", "it is a hard link to %.100q, which is not there", target)
	}
	real = path.Join(real, file)
	own := path.Join(in.real, base)
	info, err := t.root.Lstat(real)
	switch {
	case err != nil:
		return refuse(engine.ErrForbidden, "", "it is a hard link to %.100q, which is not there", target)
	case info.IsDir():
		return refuse(engine.ErrForbidden, "", "it is a hard link to %.100q, which is a folder", target)
	case real == own:
		return nil
	}
	err = t.replace(in, base, func() error { return t.root.Link(real, own) })
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return err
}

// remove removes what a whiteout names, unless the same layer made it.
func (t *tree) remove(in *folder, base string) error {
	if base == whiteoutOpaque {
		return t.removeStale(in.real)
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return nil // a file of the storage that made the layer
	}
	base = strings.TrimPrefix(base, whiteout)
	if base == "" || base == "." || base == ".." {
		return refuse(engine.ErrForbidden, "", "it removes no file")
	}
	if real := path.Join(in.real, base); t.isFresh(real) {
		return t.removeStale(real)
	}
	return in.at.RemoveAll(base)
}

// removeStale removes what earlier layers left in a folder.
func (t *tree) removeStale(real string) error {
	info, err := t.root.Lstat(real)
	if err != nil || !info.IsDir() {
		return nil
	}
	dir, err := t.root.Open(real)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1000)
		for _, e := range entries {
			switch inner := path.Join(real, e.Name()); {
			case !t.isFresh(inner):
				err = errors.Join(err, t.root.RemoveAll(inner))
			case e.IsDir():
				err = errors.Join(err, t.removeStale(inner))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// enter returns a folder, which it makes if it is missing.
func (t *tree) enter(name string) (*folder, error) {
	common := 1
	for common < len(t.open) && (name == t.open[common].name || strings.HasPrefix(name, t.open[common].name+"/")) {
		common++
	}
	t.leave(common)
	for last := &t.open[common-1]; last.name != name; last = &t.open[len(t.open)-1] {
		rest := strings.TrimPrefix(name[len(last.name):], "/")
		next, _, _ := strings.Cut(rest, "/")
		real, err := t.follow(last.real, next, new(int), true)
		if err != nil {
			return nil, err
		}
		var at *os.Root
		if real == path.Join(last.real, next) {
			at, err = last.at.OpenRoot(next)
		} else {
			at, err = t.root.OpenRoot(real)
		}
		if err != nil {
			return nil, err
		}
		t.open = append(t.open, folder{path.Join(last.name, next), real, at})
	}
	return &t.open[len(t.open)-1], nil
}

// maxLinks bounds the symbolic links that a path may lead through, as the kernel does.
const maxLinks = 40

// follow returns the path without symbolic links of a folder, named relative to another one as in
// the image. It makes what is missing of it if it is told so.
func (t *tree) follow(from, name string, links *int, create bool) (string, error) {
	real := from
	if strings.HasPrefix(name, "/") {
		real = "."
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			real = path.Dir(real)
			continue
		}
		next := path.Join(real, part)
		info, err := t.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			if err = t.count(); err == nil {
				err = t.root.Mkdir(next, 0o755)
			}
			if err == nil {
				err = chmodFolder(t.root, next, 0o755)
			}
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			var target string
			if *links++; *links > maxLinks {
				return "", refuse(engine.ErrForbidden, "", "it is behind symbolic links that lead in a circle")
			}
			if target, err = t.root.Readlink(next); err == nil {
				next, err = t.follow(real, target, links, create)
			}
		case !info.IsDir():
			err = refuse(engine.ErrForbidden, "", "%.100q is a file, and no folder", next)
		}
		if err != nil {
			return "", err
		}
		real = next
	}
	return real, nil
}
