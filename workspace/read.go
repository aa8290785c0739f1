package workspace

import (
	"context"
	"errors"
	"io"
	"os"
)

// readContent reads an open file. One that is no larger than limit is kept in
// memory, with no other reader's writes in between: if the file changes while
// it is read, its hash is just that of what was read.
func readContent(
	ctx context.Context, f *os.File, n node, limit int64, reopen func(context.Context) (*os.File, error),
) (*Content, error) {
	if n.fact.Size <= limit {
		data, err := io.ReadAll(&contextReader{ctx, io.LimitReader(f, limit+1)})
		if err != nil {
			return nil, err
		}
		if int64(len(data)) <= limit {
			return Bytes(data), nil
		}
	}
	hash, size, err := hashFile(ctx, f)
	if err != nil {
		return nil, err
	}
	return &Content{hash: hash, size: size, kept: func(ctx context.Context) (io.ReadCloser, error) {
		f, err := reopen(ctx)
		if err != nil {
			return nil, err
		}
		return VerifyReader(f, hash), nil
	}}, nil
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

// reopen opens a file of the folder again.
func (w *Workspace) reopen(parent, name string) (*os.File, error) {
	t, err := newTree(w.root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	d, err := t.dir(parent)
	if err != nil {
		return nil, err
	}
	f, _, err := d.open(name)
	return f, err
}

// hashAt looks at a file and hashes it.
func (d *folder) hashAt(ctx context.Context, name string) (node, error) {
	f, n, err := d.open(name)
	if err != nil {
		return n, err
	}
	n.fact.Hash, n.fact.Size, err = hashFile(ctx, f)
	return n, errors.Join(err, f.Close())
}
