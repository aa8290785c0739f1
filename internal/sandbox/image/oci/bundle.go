package oci

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/engine"
)

// Export writes an image as one archive, tar in zstd, for another machine to Install.
func (s *Store) Export(ctx context.Context, id string, to io.Writer) error {
	if !isID(id) {
		return errNoImage(id)
	}
	hold, err := s.hold(id)
	if err != nil {
		return err
	}
	if hold == nil {
		return errNoImage(id)
	}
	defer hold.Close()
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	root, err := os.OpenRoot(s.path(id))
	if err != nil {
		return errors.Join(err, packed.Close())
	}
	defer root.Close()
	// Who installs it checks the record first.
	if err := exportFile(w, root, imageName, map[uint64]string{}); err != nil {
		return errors.Join(err, packed.Close())
	}
	linked := map[uint64]string{}
	err = fs.WalkDir(root.FS(), rootName, func(path string, _ fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return exportFile(w, root, path, linked)
	})
	if err == nil {
		err = w.Close()
	}
	return errors.Join(err, packed.Close())
}

// exportFile writes one file. Its further names are hard links, as linked knows.
func exportFile(w *tar.Writer, root *os.Root, path string, linked map[uint64]string) error {
	info, err := root.Lstat(path)
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = root.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Format = path, tar.FormatPAX // with nanoseconds
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	if header.Typeflag == tar.TypeSymlink {
		header.ModTime = time.Unix(0, 0) // which a tree does not keep
	}
	header.AccessTime, header.ChangeTime = header.ModTime, header.ModTime
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 && info.Mode().IsRegular() {
		if first, known := linked[stat.Ino]; known {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			return w.WriteHeader(header)
		}
		linked[stat.Ino] = path
	}
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := root.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// Install reads what Export wrote, into the folder of that id. It does nothing if the image is
// there. Without a name it stays until Drop, or until somebody sweeps.
func (s *Store) Install(ctx context.Context, id string, from io.Reader) error {
	if !isID(id) {
		return errNoImage(id)
	}
	if exists(s.path(id)) {
		return nil
	}
	w, err := s.newWork()
	if err != nil {
		return err
	}
	defer w.end()
	fresh := filepath.Join(w.path, "image")
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	tree, err := newTree(fresh, s.Limits, s.room)
	if err != nil {
		return err
	}
	defer tree.close()
	l := &layer{open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(from), nil }}
	if err := l.read(ctx, s.Limits, nil, tree.apply); err != nil {
		return inImage(id, err)
	}
	var record engine.Image
	if err := readJSON(filepath.Join(fresh, imageName), &record); err != nil || record.ID != id {
		return refuse(engine.ErrForbidden, "", "the archive has another image than %s", id)
	}
	if !exists(filepath.Join(fresh, rootName)) {
		return refuse(engine.ErrForbidden, "", "the archive of %s has no files", id)
	}
	hold, err := s.place(fresh, id)
	if err == nil {
		hold.Close()
	}
	return err
}

// Drop removes the files of an image, and reports whether it did: not if programs use them.
func (s *Store) Drop(id string) (dropped bool, err error) {
	if !isID(id) || !exists(s.path(id)) {
		return false, nil
	}
	var gone string
	err = s.locked(func() (err error) {
		gone, err = s.setAside(id)
		return err
	})
	if err != nil || gone == "" {
		return false, err
	}
	return true, os.RemoveAll(gone)
}
