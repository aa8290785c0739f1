package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Quarantine holds fetched files under their SHA-256 in a folder until the user has
// approved them. No file is executable, and no name from outside is used.
type Quarantine struct {
	root *os.Root
}

// OpenQuarantine opens the quarantine in a folder, which it creates if needed.
func OpenQuarantine(dir string) (*Quarantine, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Quarantine{root: root}, nil
}

// Close releases the folder. The files stay.
func (q *Quarantine) Close() error { return q.root.Close() }

// Open opens a file by its hash.
func (q *Quarantine) Open(sha string) (*os.File, error) {
	if !isHash(sha) {
		return nil, fs.ErrNotExist
	}
	return q.root.Open(sha)
}

// Path returns the path of a file.
func (q *Quarantine) Path(sha string) string { return filepath.Join(q.root.Name(), sha) }

// Remove deletes a file. It succeeds if the file does not exist.
func (q *Quarantine) Remove(sha string) error {
	if !isHash(sha) {
		return nil
	}
	if err := q.root.Remove(sha); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// draft is a file that is being fetched.
type draft struct {
	q    *Quarantine
	name string
	file *os.File
	sum  hash.Hash
	size int64
	head []byte // the first bytes, for detecting the type
}

const headBytes = 3072 // package mimetype reads as many

func (q *Quarantine) draft() (*draft, error) {
	name := newKey("draft-")
	f, err := q.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, full(err)
	}
	return &draft{q: q, name: name, file: f, sum: sha256.New()}, nil
}

func (d *draft) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	d.sum.Write(p[:n])
	d.size += int64(n)
	if room := headBytes - len(d.head); room > 0 {
		d.head = append(d.head, p[:min(n, room)]...)
	}
	return n, full(err)
}

// reset truncates the draft.
func (d *draft) reset() error {
	d.sum.Reset()
	d.size, d.head = 0, nil
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	_, err := d.file.Seek(0, 0)
	return err
}

// keep moves the file into the quarantine and returns its hash.
func (d *draft) keep() (string, error) {
	sha := hex.EncodeToString(d.sum.Sum(nil))
	if err := d.file.Sync(); err != nil {
		return "", errors.Join(full(err), d.drop())
	}
	if err := d.file.Close(); err != nil {
		return "", errors.Join(full(err), d.q.root.Remove(d.name))
	}
	return sha, d.q.root.Rename(d.name, sha)
}

// drop deletes the draft.
func (d *draft) drop() error {
	return errors.Join(d.file.Close(), d.q.root.Remove(d.name))
}

// full explains the error of a full disk.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf(
			"%w: the disk that holds fetched files is full; the file is still at the provider: make room and fetch again", err)
	}
	return err
}
