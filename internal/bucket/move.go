package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/engine"
)

// List returns the blobs that the bucket has, with their sizes.
func (s *Store) List(ctx context.Context) (map[engine.Digest]int64, error) {
	all := map[engine.Digest]int64{}
	prefix := path.Join(s.address.Prefix, "sha256") + "/"
	for object := range s.client.ListObjectsIter(ctx, s.address.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if object.Err != nil {
			return nil, failed("list bucket", "", object.Err)
		}
		if d, err := engine.ParseDigest(strings.TrimPrefix(object.Key, prefix)); err == nil {
			all[d] = object.Size
		}
	}
	return all, nil
}

// Send stores a blob from a file, past the cache.
func (s *Store) Send(ctx context.Context, b engine.Blob, f *os.File) error {
	return failed("store file", b.SHA256.String(), s.sendFrom(ctx, b, f))
}

// Check reads a blob back and compares it with its digest, past the cache:
// engine.ErrNotFound when the bucket does not have those bytes.
func (s *Store) Check(ctx context.Context, b engine.Blob) error {
	const op = "check file"
	o, err := s.client.GetObject(ctx, s.address.Bucket, s.name(b.SHA256), minio.GetObjectOptions{})
	if err != nil {
		return failed(op, b.SHA256.String(), err)
	}
	defer o.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, o); err != nil {
		return failed(op, b.SHA256.String(), err)
	}
	if engine.Digest(sum.Sum(nil)) != b.SHA256 {
		return &engine.Error{Op: op, Kind: engine.ErrNotFound, ID: b.SHA256.String(),
			Err: errors.New("the bucket holds other bytes")}
	}
	return nil
}

// Owner returns the owner that Claim has recorded for the files here, or "" for none.
func (s *Store) Owner(ctx context.Context) (string, error) {
	o, err := s.client.GetObject(ctx, s.address.Bucket, s.claim(), minio.GetObjectOptions{})
	if err != nil {
		return "", failed("read claim", "", err)
	}
	defer o.Close()
	text, err := io.ReadAll(io.LimitReader(o, 1<<10))
	if err := failed("read claim", "", err); engine.KindOf(err) != engine.ErrNotFound {
		return string(text), err
	}
	return "", nil
}

// Claim records the owner of the files here.
func (s *Store) Claim(ctx context.Context, owner string) error {
	_, err := s.client.PutObject(ctx, s.address.Bucket, s.claim(), strings.NewReader(owner), int64(len(owner)),
		minio.PutObjectOptions{})
	return failed("claim bucket", "", err)
}

func (s *Store) claim() string { return path.Join(s.address.Prefix, "moved-from") }
