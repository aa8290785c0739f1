package linux

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// watchFiles watches a folder until the test ends. It returns a function that waits for
// an event.
func watchFiles(t *testing.T, f engine.Files, path string) (await func(want string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, ready := make(chan engine.FileEvent, 1<<16), make(chan struct{}) // more than the test causes
	var watching sync.WaitGroup
	watching.Go(func() {
		err := f.Watch(ctx, path, true, func() { close(ready) }, func(list []engine.FileEvent) {
			for _, e := range list {
				events <- e
			}
		})
		if err != nil {
			t.Error(err)
		}
		close(events)
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	<-ready
	return func(want string) {
		t.Helper()
		var seen []string
		for late := time.After(5 * time.Minute); ; {
			select {
			case e, ok := <-events:
				got := strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Kind, e.Path, e.From))
				if seen = append(seen, got); got == want {
					return
				}
				if ok {
					continue
				}
			case <-late:
			}
			t.Fatalf("%q is not among %q", want, seen)
		}
	}
}

func TestWatchFiles(t *testing.T) {
	s := start(t)
	held, end := standingProgram(t, s, nil)
	f := s.Files(held)
	await := watchFiles(t, f, ".")
	run := func(script string) {
		t.Helper()
		if _, errs, end := inside(t, s, held, shell(script)); end.ExitCode != 0 {
			t.Fatalf("%s: %s", script, errs)
		}
	}
	run("mkdir -p a/b && echo x > a/b/c")
	await("created a/b/c")
	run("echo y >> a/b/c")
	await("modified a/b/c")
	run("chmod 600 a/b/c")
	await("attributes a/b/c")
	run("mv a/b z")
	await("moved z a/b")
	run("echo y >> z/c")
	await("modified z/c")
	run("rm z/c")
	await("deleted z/c")
	if _, err := f.Write(t.Context(), "z/w", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	await("created z/w")
	if _, err := f.Write(t.Context(), "z/w", strings.NewReader("y")); err != nil {
		t.Fatal(err)
	}
	await("modified z/w")
	run("echo x > z/#12")
	await("modified z/#12")
	run(`touch "$(printf 'bad\377name')"`)
	await("created bad\xffname")
	deep := "deep" + strings.Repeat("/d", executor.MaxDepth)
	run("mkdir -p " + deep)
	await("overflow " + deep)
	run(`for i in $(seq 900); do rm -rf d; mkdir d; done 2>/dev/null; touch last`)
	await("created last")
	end()
	if err := s.Release(t.Context(), held, 0); err != nil { // ends the watch
		t.Error(err)
	}
}
