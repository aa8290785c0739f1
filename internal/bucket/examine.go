package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/airlock-run/airlock/internal/engine"
)

// Examine tests the permissions of a service in a bucket: it puts an object there, reads,
// lists and removes it.
func Examine(ctx context.Context, a Address) []engine.Layer {
	const name, text = "bucket", "airlock"
	clock := &serverTime{}
	client, err := a.client(clock.through)
	if err != nil {
		return []engine.Layer{{Name: name, State: engine.LayerMissing, Detail: err.Error()}}
	}
	folder := path.Join(a.Prefix, "probe")
	key := path.Join(folder, engine.NewID().String())
	place := "of " + a.Bucket + " at " + a.Endpoint
	found := []engine.Layer{}
	for _, step := range []struct {
		right string
		try   func() error
	}{
		{"s3:PutObject", func() error {
			_, err := client.PutObject(ctx, a.Bucket, key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
			return err
		}},
		{"s3:GetObject", func() error {
			o, err := client.GetObject(ctx, a.Bucket, key, minio.GetObjectOptions{})
			if err != nil {
				return err
			}
			defer o.Close()
			read, err := io.ReadAll(o)
			if err == nil && string(read) != text {
				err = errors.New("other bytes came back")
			}
			return err
		}},
		{"s3:ListBucket", func() error {
			for o := range client.ListObjectsIter(ctx, a.Bucket, minio.ListObjectsOptions{Prefix: folder + "/"}) {
				if o.Err != nil || o.Key == key {
					return o.Err
				}
			}
			return errors.New("what is there is not listed")
		}},
		{"s3:DeleteObject", func() error {
			return client.RemoveObject(ctx, a.Bucket, key, minio.RemoveObjectOptions{})
		}},
	} {
		if err := step.try(); err != nil {
			hint := ""
			if own, ok := errors.AsType[*engine.Error](failed("", "", err)); ok {
				hint = own.Hint
			}
			found = append(found, engine.Layer{Name: name, State: engine.LayerMissing,
				Detail: fmt.Sprintf("%s %s: %v", step.right, place, err), Cure: hint})
		}
		if len(found) > 0 && step.right == "s3:PutObject" {
			return found // the others have nothing to try with
		}
	}
	if len(found) == 0 {
		found = append(found, engine.Layer{Name: name, State: engine.LayerEnforced,
			Detail: "objects " + place + " can be put, read, listed and removed"})
	}
	return append(found, bucketClock(time.Duration(clock.ahead.Load())))
}

// maxSkew is how far the clocks may be apart: from 15 minutes on a bucket refuses.
const maxSkew = 5 * time.Minute

func bucketClock(ahead time.Duration) engine.Layer {
	layer := engine.Layer{Name: "bucket clock", State: engine.LayerEnforced,
		Detail: fmt.Sprintf("%v ahead of this machine's, to the second", ahead.Round(time.Second))}
	if ahead.Abs() > maxSkew {
		layer.State = engine.LayerWeaker
		layer.Cure = "keep this machine's with a time server: from 15 minutes on a bucket refuses"
	}
	return layer
}
