package bucket

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// An address is good for signedFor, by the bucket's clock.
const (
	signedFor = 5 * time.Minute
	mostApart = 15 * time.Minute // clocks, after which the bucket takes no signature
)

// validity returns how long an address is valid by this machine's clock. If the clock is
// behind the bucket's, now, the validity of an address began some time ago.
func validity(now time.Time) time.Duration {
	return signedFor + min(max(time.Until(now), 0), mostApart)
}

// SignGet returns an address at which one blob can be read for a while.
func (s *Store) SignGet(ctx context.Context, b engine.Blob) (string, error) {
	u, err := s.client.PresignedGetObject(ctx, s.address.Bucket, s.name(b.SHA256), validity(s.now()), nil)
	if err != nil {
		return "", failed("open file", b.SHA256.String(), err)
	}
	return u.String(), nil
}

// markHeader is the metadata with the mark of an object stored through SignPut.
const markHeader = "X-Amz-Meta-Airlock"

// SignPut returns an address at which one blob can be stored for a while, with the
// header to send. The header makes the bucket compare the bytes with their digest, and
// marks the object. SignPut reports whether the bucket has the blob, for long enough to
// record it. If it returns neither, the caller uses Put: the blob must be renewed under
// its lock, or is large.
func (s *Store) SignPut(
	ctx context.Context, b engine.Blob, mark string,
) (address string, header http.Header, there bool, err error) {
	const op = "store file"
	known, err := s.stat(ctx, b.SHA256)
	switch {
	case err != nil:
		return "", nil, false, failed(op, b.SHA256.String(), err)
	case known.Size == b.Size:
		return "", nil, s.now().Sub(known.LastModified) < renewal, nil
	case b.Size > onePart:
		return "", nil, false, nil
	}
	header = http.Header{"X-Amz-Checksum-Sha256": {base64.StdEncoding.EncodeToString(b.SHA256[:])}, markHeader: {mark}}
	u, err := s.client.PresignHeader(ctx, http.MethodPut, s.address.Bucket, s.name(b.SHA256), validity(s.now()), nil,
		header)
	if err != nil {
		return "", nil, false, failed(op, b.SHA256.String(), err)
	}
	return u.String(), header, false, nil
}

// Marked reports whether the bucket has a blob that was stored at an address from
// SignPut with that mark.
func (s *Store) Marked(ctx context.Context, b engine.Blob, mark string) (bool, error) {
	known, err := s.stat(ctx, b.SHA256)
	return err == nil && known.Size == b.Size && known.Metadata.Get(markHeader) == mark,
		failed("store file", b.SHA256.String(), err)
}
