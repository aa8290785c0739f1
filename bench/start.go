package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureStart starts the service several times, and looks at what it holds in memory.
func (b *bench) measureStart(ctx context.Context) error {
	var first, plot lab.Sample
	for range b.full(5, 2) {
		s, err := b.start(ctx)
		if err != nil {
			return err
		}
		took, err := since(ctx, s, &printing)
		if err != nil {
			return err
		}
		first = append(first, took)
		if took, err = b.plotsWarm(ctx, s); err != nil {
			return err
		}
		plot = append(plot, took)
		if err := s.Stop(); err != nil {
			return err
		}
	}
	b.row("start to the first print(1)", "airlock", first)
	b.row("start until plots are warm", "airlock", plot)
	b.goal("start of the service to the first print(1)", "s", 2, 0.6, first.P50()/1000)
	b.goal("start of the service until plots are warm", "s", 2, 1, plot.P50()/1000)
	return b.measureMemory(ctx)
}

// since is the time from the start of a service to its answer to a program.
func since(ctx context.Context, s *lab.Service, p *program) (time.Duration, error) {
	do, done, err := airlock(nameWarm, s, p).open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	_, err = do(ctx)
	return time.Since(s.Began), err
}

// plotsWarm waits until the service says that the interpreters for plots are ready, and returns how long that took. A
// plot then takes about as long as later.
func (b *bench) plotsWarm(ctx context.Context, s *lab.Service) (time.Duration, error) {
	var status pools
	c := newCaller(s.URL)
	defer c.close()
	var failed error
	if !lab.Until(ctx, lab.StartTime, func() bool {
		_, failed = c.decode(ctx, "GET", "/api/v1/status", nil, &status)
		return failed != nil || slices.ContainsFunc(status.Pools, func(p pool) bool { return p.Name == tierFull && p.Ready })
	}) {
		failed = errors.New("the interpreters for plots do not become ready")
	}
	ready := time.Since(s.Began)
	do, done, err := airlock(nameWarm, s, &b.plot).open(ctx)
	if err = errors.Join(failed, err); err != nil {
		return 0, err
	}
	defer done()
	var times lab.Sample
	for range 12 {
		took, err := do(ctx)
		if err != nil {
			return 0, err
		}
		times = append(times, took)
	}
	if later := times[len(times)/2:].At(50); times[0] > 3*later {
		return 0, fmt.Errorf("the first plot takes %v, later ones %v", times[0], later)
	}
	return ready, nil
}

// measureMemory looks at what the service holds at rest, with sandboxes that wait in all tiers.
func (b *bench) measureMemory(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	for _, p := range []*program{&printing, &b.plot} {
		if _, err := turns(ctx, 1, airlock(nameWarm, b.warm, p)); err != nil {
			return err
		}
	}
	if _, err := zygotesReady(ctx, b.warm); err != nil { // they forked again behind the answers
		return err
	}
	s := b.warm
	at := lab.Private(s.Cmd.Process.Pid, s.Executor())
	if server := s.Server(); server != s.Cmd.Process.Pid {
		at += lab.Private(server)
	}
	b.value("memory at rest", "service and executor", "MB", at)
	b.goal("service and executor at rest", "MB", 80, 40, at)
	all := lab.Processes()
	var zygotes, largest, waiting float64
	for _, z := range s.Zygotes() {
		own := lab.Private(z.PID)
		zygotes += own
		var boxes []float64
		for _, box := range all.Sandboxes(z.PID) {
			pids := []int{box.PID}
			for _, p := range all.Below(box.PID) {
				pids = append(pids, p.PID)
			}
			boxes = append(boxes, lab.Private(pids...))
		}
		if len(boxes) > 0 && own > largest {
			largest, waiting = own, lab.Median(boxes)
		}
	}
	b.value("memory at rest", "all zygotes", "MB", zygotes)
	b.value("memory at rest", "a waiting sandbox with all packages", "MB", waiting)
	b.goal("private memory of a waiting sandbox with all packages", "MB", 2, 1.5, waiting)
	return nil
}

// measureFiles is what files cost.
func (b *bench) measureFiles(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	if err := b.inputs(ctx); err != nil {
		return err
	}
	if err := b.outputs(ctx); err != nil {
		return err
	}
	return b.firstBytes(ctx)
}

// holding only looks at the size of its input: beside the same with a small one, the difference is what staging costs.
func holding(size int) program {
	return program{name: fmt.Sprintf("a program with an input of %d bytes", size), input: "in.bin",
		data: bytes.Repeat([]byte{7}, size), stdout: fmt.Sprintln(size),
		code: "import os\nprint(os.path.getsize('in.bin'))\n"}
}

func (b *bench) inputs(ctx context.Context) error {
	small, large := holding(100), holding(100*mebibyte)
	times, err := turns(ctx, b.full(40, 8), airlock("100 bytes", b.warm, &small), airlock("100 MiB", b.warm, &large))
	if err != nil {
		return err
	}
	b.row("a program that has an input", "of 100 bytes", times[0])
	b.row("a program that has an input", "of 100 MiB", times[1])
	b.goal("100 MiB input staged", "ms", 5, 1, max(0, times[1].P50()-times[0].P50()))
	return nil
}

// outputs compares what the service does with 100 MiB that a program left, in two files, with what one would do by
// hand: keep a copy, and have its digest.
func (b *bench) outputs(ctx context.Context) error {
	const left = 50 * mebibyte
	dir, err := os.MkdirTemp(b.scratch, "hand-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"one.bin", "two.bin"} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), left/len(name)), 0o600); err != nil {
			return err
		}
	}
	c := newCaller(b.warm.URL)
	defer c.close()
	service := func(ctx context.Context) (time.Duration, error) { return c.largeOutputs(ctx, left) }
	byHand := func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", "mkdir copy && cp *.bin copy && sha256sum copy/*")
		cmd.Dir = dir
		began := time.Now()
		err := cmd.Run()
		return time.Since(began), errors.Join(err, os.RemoveAll(filepath.Join(dir, "copy")))
	}
	took, err := b.compare(ctx, "100 MiB of outputs", b.full(12, 4), ready("cp and sha256sum", byHand),
		ready("stored, recorded and fetched", service))
	b.goal("100 MiB output stored and sent over HTTP, against cp and sha256sum", "x", 1.3, 1, took[1]/took[0])
	return err
}

// largeOutputs runs a program that leaves two files, and fetches them. It returns how long it took to store them, by
// the service's own account, and to fetch them.
func (c *caller) largeOutputs(ctx context.Context, size int) (took time.Duration, err error) {
	code := fmt.Sprintf(`import os
block = os.urandom(%d)
for name in "one.bin", "two.bin":
    with open(name, "wb") as out:
        for _ in range(%d // len(block)):
            out.write(os.urandom(16) + block[16:])
`, mebibyte, size)
	var run struct{ Files []made }
	if _, err := c.decode(ctx, "POST", runsPath, map[string]string{"language": "python", "code": code}, &run); err != nil {
		return 0, err
	}
	for name, ms := range stages(c.timing) {
		if name == "collect" || name == "record" {
			took += time.Duration(ms * float64(time.Millisecond))
		}
	}
	if took == 0 || len(run.Files) != 2 {
		return 0, fmt.Errorf("there are %d files, stored in %v", len(run.Files), took)
	}
	for _, file := range run.Files {
		fetched, err := c.do(ctx, "GET", filesPath+"/"+file.ID+"/content", nil)
		if err == nil && len(c.body) != size {
			err = fmt.Errorf("%d bytes came back", len(c.body))
		}
		if err != nil {
			return 0, err
		}
		took += fetched
		if _, err := c.do(ctx, "DELETE", filesPath+"/"+file.ID, nil); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// firstBytes measures the delay between a program's write and the client's read. The program prints the time at which
// it prints: outside and inside read the same clock.
func (b *bench) firstBytes(ctx context.Context) error {
	const code = `{"language":"python","code":"import time\nprint(time.monotonic_ns(), flush=True)\ntime.sleep(0.05)"}`
	c := newCaller(b.warm.URL)
	defer c.close()
	var delays lab.Sample
	for range b.full(40, 8) {
		lab.Pause(ctx, rest)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.warm.URL+runsPath, strings.NewReader(code))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		resp, err := c.client.Do(r)
		if err != nil {
			return err
		}
		delay := time.Duration(-1)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			_, rest, found := strings.Cut(lines.Text(), `"stream":"stdout","data":"`)
			if !found || delay >= 0 {
				continue
			}
			var now unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail for this clock
			digits := rest[:max(0, strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }))]
			written, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return fmt.Errorf("the stream has %q", lines.Text())
			}
			delay = time.Duration(now.Nano() - written)
		}
		resp.Body.Close()
		if delay < 0 {
			return errors.New("the stream had no output")
		}
		delays = append(delays, delay)
	}
	b.row("a line, from its write to the client", "airlock", delays)
	b.goal("first byte of streamed output after the program wrote it", "ms", 5, 1, delays.P50())
	return nil
}

// measureStages measures the parts of one print(1): those that the service names in its Server-Timing header, and the
// rest. A request that runs nothing shows what HTTP takes.
func (b *bench) measureStages(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	c := newCaller(b.warm.URL)
	defer c.close()
	parts, order := map[string]lab.Sample{}, []string{}
	run := func(ctx context.Context) (time.Duration, error) {
		took, err := c.do(ctx, "POST", runsPath, `{"language":"python","code":"print(1)"}`, `"status":"ok"`)
		outside := took
		for name, ms := range stages(c.timing) {
			if _, known := parts[name]; !known {
				order = append(order, name)
			}
			part := time.Duration(ms * float64(time.Millisecond))
			parts[name] = append(parts[name], part)
			outside -= part
		}
		parts["outside of that: HTTP, the kernel, the client"] = append(
			parts["outside of that: HTTP, the kernel, the client"], outside)
		return took, err
	}
	times, err := turns(ctx, b.full(150, 60), ready("the whole", run),
		ready("a request that runs nothing", newCaller(b.warm.URL).again("GET", "/api/v1/limits", nil)))
	if err != nil {
		return err
	}
	if len(order) == 0 {
		return errors.New("this service says nothing of its stages")
	}
	for _, name := range append(order, "outside of that: HTTP, the kernel, the client") {
		b.row("one print(1)", name, parts[name])
	}
	b.row("one print(1)", "the whole", times[0])
	b.row("one print(1)", "a request that runs nothing", times[1])
	return nil
}

// stages reads a header as W3C Server Timing defines it, in its order: "queue;dur=0.02, run;dur=1".
func stages(header string) func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		for metric := range strings.SplitSeq(header, ",") {
			name, parameters, _ := strings.Cut(strings.TrimSpace(metric), ";")
			for parameter := range strings.SplitSeq(parameters, ";") {
				key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
				if ms, err := strconv.ParseFloat(value, 64); key == "dur" && err == nil && !yield(name, ms) {
					return
				}
			}
		}
	}
}
