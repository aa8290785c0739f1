package pytool

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folder is a FileStore in a directory, for applications without a store. It stores files
// under their ids; the application stores names and types.
type Folder struct {
	root *os.Root
	base string
}

// OpenFolder returns the store in a directory, which it creates if needed. Links are base, a
// slash and the file's id.
func OpenFolder(directory, base string) (*Folder, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	return &Folder{root: root, base: strings.TrimSuffix(base, "/")}, nil
}

// Close closes the directory. The files stay.
func (f *Folder) Close() error { return f.root.Close() }

// Open implements FileStore.
func (f *Folder) Open(_ context.Context, id string) (io.ReadCloser, error) {
	if !filepath.IsLocal(id) || id == "." || strings.ContainsAny(id, `/\`) {
		return nil, fs.ErrNotExist
	}
	return f.root.Open(id)
}

// Save implements FileStore. It removes an incomplete file.
func (f *Folder) Save(_ context.Context, _, _ string, content io.Reader) (string, error) {
	id := rand.Text()
	file, err := f.root.OpenFile(id, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = f.root.Remove(id)
		return "", err
	}
	return id, nil
}

// Link implements FileStore.
func (f *Folder) Link(id string) string { return f.base + "/" + id }
