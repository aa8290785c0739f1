package workspace

import (
	"context"
	"errors"
	"io"
	"os"
)

// read opens and reads a file. A content that is no larger than limit is kept in
// memory: if the file changes while it is read, its hash is that of what was
// read. Of a larger one only the hash is found, and the bytes are read again, by
// a tree of their own, when they are needed.
func (t *tree) read(ctx context.Context, path string, limit int64) (*Content, node, error) {
	f, n, err := t.openFile(path)
	if err != nil {
		return nil, n, err
	}
	defer f.Close()
	if n.fact.Size <= limit {
		data, err := io.ReadAll(&contextReader{ctx, io.LimitReader(f, limit+1)})
		if err != nil {
			return nil, n, err
		}
		if int64(len(data)) <= limit {
			return Bytes(data), n, nil
		}
	}
	hash, size, err := hashFile(ctx, f)
	if err != nil {
		return nil, n, err
	}
	root := t.root.f.Name()
	return &Content{hash: hash, size: size, kept: func(context.Context) (io.ReadCloser, error) {
		again, err := newTree(root)
		if err != nil {
			return nil, err
		}
		defer again.close()
		f, _, err := again.openFile(path)
		if err != nil {
			return nil, err
		}
		return VerifyReader(f, hash), nil
	}}, n, nil
}

// openFile opens a regular file for reading.
func (t *tree) openFile(path string) (*os.File, node, error) {
	parent, name := splitPath(path)
	d, err := t.dir(parent)
	if err != nil {
		return nil, node{}, err
	}
	return d.open(name)
}

// hashFile hashes an open file from its beginning.
func hashFile(ctx context.Context, f *os.File) (Hash, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return Hash{}, 0, err
	}
	c, err := File(ctx, f, info.Size(), Hash{})
	if err != nil {
		return Hash{}, 0, err
	}
	return c.hash, c.size, nil
}

// hashAt returns a file's node with its hash.
func (d *folder) hashAt(ctx context.Context, name string) (node, error) {
	f, n, err := d.open(name)
	if err != nil {
		return n, err
	}
	n.fact.Hash, n.fact.Size, err = hashFile(ctx, f)
	return n, errors.Join(err, f.Close())
}
