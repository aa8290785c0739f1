package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// hostilePreviews are small files of which a careless preview makes much.
var hostilePreviews = map[string]string{
	"table.md": strings.Repeat("a|", 2000) + "\n" + strings.Repeat("-|", 2000) + "\n" + strings.Repeat("a\n", 4000),
	"wide.md": strings.Repeat("a|", 20_000) + "\n" + strings.Repeat("-|", 20_000) + "\n" +
		strings.Repeat("a\n", 24_000),
	"quotes.md":   strings.Repeat(">", 128<<10),
	"tabs.md":     strings.Repeat(">\t", 64<<10),
	"emphasis.md": strings.Repeat("*a_", 40<<10),
	"links.md":    "[a]: /" + strings.Repeat("x", 60<<10) + "\n\n" + strings.Repeat("[a]\n\n", 10_000),
	"array.json":  strings.Repeat("[", 9990) + strings.Repeat("]", 9990),
	"object.json": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
	"escapes.txt": strings.Repeat("\x1b[31m", 20<<10),
}

// measurePreviews looks at hostile files, 16 at a time, and at an honest one
// meanwhile, and watches the memory of the service.
func measurePreviews(ctx context.Context, o options) (figure, error) {
	const atOnce, most = 16, 256 << 20
	looks := cmp.Or(o.runs, 1000)
	return with(ctx, o, func(s *service, who tenant) (figure, error) {
		var hostile []string
		for name, content := range hostilePreviews {
			f, err := who.Upload(ctx, name, strings.NewReader(content), 0)
			if err != nil {
				return figure{}, err
			}
			hostile = append(hostile, f.ID)
		}
		honest, err := who.Upload(ctx, "honest.md", strings.NewReader("# Title\n\n*text*\n"), 0)
		if err != nil {
			return figure{}, err
		}
		look := func(id, want string) error {
			text, err := s.do(ctx, http.MethodGet, "/ui/files/"+id+"/preview", who.key, http.NoBody)
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("the preview of %s: %.200s", id, text)
			}
			return err
		}
		before := private(s.pid)
		peak := before
		work, done := make(chan string), make(chan struct{})
		var mu sync.Mutex
		var failed error
		var group sync.WaitGroup
		for range atOnce {
			group.Go(func() {
				for id := range work {
					if err := look(id, ""); err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
					}
				}
			})
		}
		go func() {
			defer close(done)
			for i := range looks {
				work <- hostile[i%len(hostile)]
			}
			close(work)
			group.Wait()
		}()
		var slowest time.Duration
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(10 * time.Millisecond):
				peak = max(peak, private(s.pid))
				began := time.Now()
				if err := look(honest.ID, "<em>text</em>"); err != nil {
					return figure{}, err
				}
				slowest = max(slowest, time.Since(began))
			}
		}
		return figure{fmt.Sprintf(
			"+%d MiB at most; the slowest of the honest previews beside them took %v (%d hostile ones, %d at a time)",
			(peak-before)>>20, slowest.Round(time.Millisecond), looks, atOnce), peak-before >= most}, failed
	}, "--owner-rate", "100000")
}
