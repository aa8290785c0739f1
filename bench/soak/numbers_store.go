package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// uploads are the sizes of files that clients have been told are stored, by id.
type uploads struct {
	sync.Mutex
	acked map[string]int
}

// store uploads files, most of them small, until it fails.
func (u *uploads) store(ctx context.Context, who tenant) {
	for {
		size := 1 + rand.IntN(1<<(4+rand.IntN(15)))
		f, err := who.Upload(ctx, fmt.Sprint(size), pattern(size), 0)
		if err != nil {
			return
		}
		u.Lock()
		u.acked[f.ID] = size
		u.Unlock()
	}
}

// pattern is a content that its length tells.
func pattern(size int) *bytes.Buffer {
	return bytes.NewBuffer(bytes.Repeat(fmt.Appendf(nil, "%08d", size), size/8+1)[:size])
}

// check counts the files that are stored, which must be whole, acknowledged or not, and those that are lost.
func (u *uploads) check(ctx context.Context, who tenant) (stored, lost int, err error) {
	for f, err := range who.AllFiles(ctx) {
		var got bytes.Buffer
		if err == nil {
			_, err = who.Download(ctx, f.ID, &got)
		}
		if err == nil && (f.Name != fmt.Sprint(got.Len()) || !bytes.Equal(got.Bytes(), pattern(got.Len()).Bytes())) {
			err = fmt.Errorf("file %s is a part of an upload, of %d bytes", f.ID, got.Len())
		}
		if err != nil {
			return stored, lost, err
		}
		stored++
		delete(u.acked, f.ID)
	}
	return stored, len(u.acked), nil
}

// measureUploads kills the service again and again while clients upload, and then looks at all that is stored.
func measureUploads(ctx context.Context, o options, s *service, who tenant) (string, error) {
	u := &uploads{acked: map[string]int{}}
	var starts lab.Sample
	for range o.runs {
		time.AfterFunc(time.Duration(10+rand.IntN(100))*time.Millisecond, s.Kill)
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() { u.store(ctx, who) })
		}
		clients.Wait()
		<-s.Ended
		err := s.start(ctx, "--warm=false")
		if err == nil {
			who, err = s.as(who.key)
		}
		if err == nil {
			_, err = who.Health(ctx)
		}
		starts = append(starts, time.Since(s.Began))
		if parts, _ := filepath.Glob(filepath.Join(s.data, "files", "tmp", "*")); len(parts) > 0 {
			err = errors.Join(err, fmt.Errorf("parts of uploads are left: %v", parts))
		}
		if err != nil {
			return "", err
		}
	}
	acked := len(u.acked)
	stored, lost, err := u.check(ctx, who)
	return fmt.Sprintf("%d of %d lost in %d kills, %d files stored, each whole; ready after p50 %.0f ms, at most %.0f ms",
			lost, acked, o.runs, stored, starts.P50(), lab.Millis(starts.At(100))),
		errors.Join(err, missed(lost > 0 || acked == 0 || starts.At(100) > 5*time.Second))
}
