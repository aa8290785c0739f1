package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/client"
)

// measureUploads kills the service again and again while clients upload.
func measureUploads(ctx context.Context, o options) (figure, error) {
	kills := cmp.Or(o.runs, 1000)
	s, err := startService(ctx, o, "--warm=false")
	if err != nil {
		return figure{}, err
	}
	defer func() { _ = s.remove() }()
	u := &uploads{acked: map[string]int{}}
	var total, lost, whole int
	for kill := range kills {
		c, err := client.New(client.Options{Server: s.URL, Key: s.admin, HTTP: s.http})
		if err != nil {
			return figure{}, err
		}
		if err := u.until(ctx, c, s, time.Duration(10+rand.IntN(100))*time.Millisecond); err != nil {
			return figure{}, err
		}
		if err := s.start(ctx, "--warm=false"); err != nil {
			return figure{}, err
		}
		if kill%50 != 49 && kill != kills-1 {
			continue
		}
		if c, err = client.New(client.Options{Server: s.URL, Key: s.admin, HTTP: s.http}); err != nil {
			return figure{}, err
		}
		total += len(u.acked)
		l, w, err := u.check(ctx, c)
		if err != nil {
			return figure{}, err
		}
		lost, whole = lost+l, whole+w
		if parts, _ := filepath.Glob(filepath.Join(s.data, "files", "tmp", "*")); len(parts) > 0 {
			return figure{}, fmt.Errorf("parts of uploads are left: %v", parts)
		}
		fmt.Fprintf(o.say, "  %d kills: %d acknowledged, %d of them lost; %d more that nobody was told of, all whole\n",
			kill+1, total, lost, whole)
	}
	f := figure{fmt.Sprintf("%d of %d lost in %d kills; %d more had been stored and not acknowledged, each whole", lost,
		total, kills, whole), lost > 0}
	return f, s.stop()
}

// uploads are what clients have been told is stored.
type uploads struct {
	mu    sync.Mutex
	acked map[string]int // id to size
}

// until uploads with six clients until the service is killed, after that time.
func (u *uploads) until(ctx context.Context, c *client.Client, s *service, moment time.Duration) error {
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
			for {
				size := 1 + rand.IntN(512<<10)
				f, err := c.Upload(ctx, fmt.Sprint(size), pattern(size), 0)
				if err != nil {
					return
				}
				u.mu.Lock()
				u.acked[f.ID] = size
				u.mu.Unlock()
			}
		})
	}
	timer := time.NewTimer(moment)
	<-timer.C
	err := s.kill()
	clients.Wait()
	return err
}

// check looks at all that is stored, and deletes it. What was acknowledged must
// be there; what is there must be whole, told or not.
func (u *uploads) check(ctx context.Context, c *client.Client) (lost, untold int, err error) {
	there := map[string]bool{}
	for page := (client.Page{}); ; {
		files, next, err := c.ListFiles(ctx, page)
		if err != nil {
			return 0, 0, err
		}
		for _, f := range files {
			there[f.ID] = true
		}
		if page.After = next; next == "" {
			break
		}
	}
	for id := range there {
		size, told := u.acked[id]
		var got bytes.Buffer
		if _, err := c.Download(ctx, id, &got); err != nil {
			return lost, untold, fmt.Errorf("a stored file cannot be read: %w", err)
		}
		if !told {
			size = got.Len()
			untold++
		}
		if size == 0 || !bytes.Equal(got.Bytes(), pattern(size).Bytes()) {
			if !told {
				return lost, untold, fmt.Errorf("file %s is a part of an upload, of %d bytes", id, size)
			}
			lost++
		}
		if err := c.DeleteFile(ctx, id); err != nil {
			return lost, untold, err
		}
	}
	for id := range u.acked {
		if !there[id] {
			lost++
		}
	}
	u.acked = map[string]int{}
	return lost, untold, nil
}

// pattern is a content that its length tells.
func pattern(size int) *bytes.Buffer {
	return bytes.NewBuffer(bytes.Repeat(fmt.Appendf(nil, "%08d", size), size/8+1)[:size])
}

// measureRecovery starts a service on a directory with many files.
func measureRecovery(ctx context.Context, o options) (figure, error) {
	files := cmp.Or(o.runs, 100_000)
	s, err := startService(ctx, o)
	if err != nil {
		return figure{}, err
	}
	defer func() { _ = s.remove() }()
	c, _, err := s.as(ctx, "alice")
	if err != nil {
		return figure{}, err
	}
	began := time.Now()
	var clients sync.WaitGroup
	failed := make(chan error, 32)
	for i := range 32 {
		clients.Go(func() {
			for n := i; n < files; n += 32 {
				if _, err := c.Upload(ctx, "file", strings.NewReader(fmt.Sprint("content ", n)), 0); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	clients.Wait()
	select {
	case err := <-failed:
		return figure{}, err
	default:
	}
	fmt.Fprintf(o.say, "  %d files stored in %v\n", files, time.Since(began).Round(time.Second))
	if err := s.kill(); err != nil {
		return figure{}, err
	}
	syscall.Sync() // what is still to be written is not the start's to wait for
	began = time.Now()
	if err := s.start(ctx); err != nil {
		return figure{}, err
	}
	operator, err := client.New(client.Options{Server: s.URL, Key: s.admin})
	if err != nil {
		return figure{}, err
	}
	if err := until(ctx, "ready", func() bool { _, err := operator.Health(ctx); return err == nil }); err != nil {
		return figure{}, err
	}
	took := time.Since(began)
	return figure{fmt.Sprintf("%v after kill -9, with %d files", took.Round(time.Millisecond), files),
		took > 5*time.Second}, s.stop()
}
