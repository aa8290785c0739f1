package volume

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Pack writes all volumes to an archive, below a folder, and returns how many files they have. What is no
// file, folder or link is left out. A program that writes meanwhile may have its files half written there.
func (s *Store) Pack(ctx context.Context, to *tar.Writer, below string) (files int, bytes int64, err error) {
	volumes, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return 0, 0, err
	}
	for _, v := range volumes {
		id, err := engine.ParseID(v.Name())
		if err != nil {
			continue
		}
		p := &packing{to: to, below: path.Join(below, v.Name(), Files)}
		if err := p.header(&tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, ""); err != nil {
			return files, bytes, err
		}
		err = s.walk(ctx, id, p.add)
		files, bytes = files+p.files, bytes+p.bytes
		if err != nil {
			return files, bytes, fmt.Errorf("the volume %s: %w", id, err)
		}
	}
	return files, bytes, nil
}

type packing struct {
	to    *tar.Writer
	below string
	files int
	bytes int64
}

func (p *packing) header(h *tar.Header, name string) error {
	h.Name = path.Join(p.below, name)
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	return p.to.WriteHeader(h)
}

func (p *packing) add(name string, folder int, st *unix.Stat_t) error {
	h := &tar.Header{Mode: int64(st.Mode & 0o777), ModTime: time.Unix(st.Mtim.Unix())}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
		return p.header(h, name)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(folder, path.Base(name), target)
		if err != nil {
			return nil //nolint:nilerr // it was replaced or removed
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(target[:n])
		return p.header(h, name)
	case unix.S_IFREG:
		return p.file(name, folder, h)
	}
	return nil
}

func (p *packing) file(name string, folder int, h *tar.Header) error {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(folder, path.Base(name), flags, 0)
	if errors.Is(err, unix.EACCES) { // its owner gets back the right to read it; the archive has the mode as it was
		if err = allowOwner(folder, path.Base(name), 0o400); err == nil {
			fd, err = unix.Openat(folder, path.Base(name), flags, 0)
		}
	}
	if err != nil { // it was replaced or removed
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.header(h, name); err != nil {
		return err
	}
	n, err := io.Copy(p.to, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size { // it became shorter
		_, err = io.CopyN(p.to, zeros{}, h.Size-n)
	}
	p.files++
	p.bytes += n
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Unpacking puts volumes of an archive into a folder.
type Unpacking struct {
	Root  *os.Root
	links map[string]string // made at the end, so that no entry is put where one leads
	made  map[string]bool   // folders of volumes
}

// ErrForeign reports an entry that Pack does not write.
var ErrForeign = errors.New("nothing of this kind is in a volume")

// Add puts an entry of the archive at a path below Root, which ends in the name that it has in a folder of volumes.
func (u *Unpacking) Add(at, name string, h *tar.Header, from io.Reader) (int64, error) {
	name = strings.TrimSuffix(name, "/")
	volume, inside, _ := strings.Cut(name, "/")
	if _, err := engine.ParseID(volume); err != nil || !fs.ValidPath(name) ||
		inside != Files && !strings.HasPrefix(inside, Files+"/") {
		return 0, ErrForeign
	}
	folder := path.Join(at, volume)
	if !u.made[folder] {
		if u.made == nil {
			u.made, u.links = map[string]bool{}, map[string]string{}
		}
		u.made[folder] = true
		err := u.Root.MkdirAll(folder, 0o700)
		if err == nil {
			err = u.Root.WriteFile(path.Join(folder, lock), nil, 0o600)
		}
		if err != nil {
			return 0, err
		}
	}
	to, mode := path.Join(at, name), fs.FileMode(h.Mode&0o777)
	switch h.Typeflag {
	case tar.TypeDir:
		err := u.Root.MkdirAll(to, 0o700)
		if err == nil {
			err = u.Root.Chmod(to, mode|0o700)
		}
		return 0, err
	case tar.TypeSymlink:
		u.links[to] = h.Linkname
		return 0, nil
	case tar.TypeReg:
		f, err := u.Root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(f, from)
		return n, errors.Join(err, f.Chmod(mode), f.Close())
	}
	return 0, ErrForeign
}

// End makes the links.
func (u *Unpacking) End() error {
	for name, target := range u.links {
		if err := u.Root.Symlink(target, name); err != nil {
			return err
		}
	}
	return nil
}
