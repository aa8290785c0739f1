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
func (b *bench) measureStart(ctx context.Context) {
	var first, plot lab.Sample
	for range b.full(5, 2) {
		s := b.serve(ctx, b.data(), nil)
		first = append(first, since(ctx, s, &printing))
		plot = append(plot, b.plotsWarm(ctx, s))
		lab.Check(s.Stop())
	}
	b.Row("start to the first print(1)", "airlock", first)
	b.Row("start until plots are warm", "airlock", plot)
	b.Goal("start of the service to the first print(1)", "s", 2, 0.6, first.P50()/1000)
	b.Goal("start of the service until plots are warm", "s", 2, 1, plot.P50()/1000)
	b.measureMemory(ctx)
}

// since is the time from the start of a service to its answer to a program.
func since(ctx context.Context, s *lab.Service, p *program) time.Duration {
	do, done := airlock(nameWarm, s, p).Open(ctx)
	defer done()
	lab.Must(do(ctx))
	return time.Since(s.Began)
}

// plotsWarm waits until the service says that the interpreters for plots are ready, and returns how long that took. A
// plot then takes about as long as later.
func (b *bench) plotsWarm(ctx context.Context, s *lab.Service) time.Duration {
	awaitPools(ctx, s, func(list []pool) bool {
		return slices.ContainsFunc(list, func(p pool) bool { return p.Name == tierFull && p.Ready })
	})
	ready := time.Since(s.Began)
	do, done := airlock(nameWarm, s, &b.plot).Open(ctx)
	defer done()
	var times lab.Sample
	for range 12 {
		times = append(times, lab.Must(do(ctx)))
	}
	if later := times[len(times)/2:].At(50); times[0] > 3*later {
		lab.Fail("the first plot takes %v, later ones %v", times[0], later)
	}
	return ready
}

// measureMemory looks at what the service holds at rest, with sandboxes that wait in all tiers.
func (b *bench) measureMemory(ctx context.Context) {
	s := b.service(ctx)
	lab.Turns(ctx, 1, airlock(nameWarm, s, &printing), airlock(nameWarm, s, &b.plot))
	warmed(ctx, s) // they forked again behind the answers
	at := lab.Private(s.Cmd.Process.Pid, s.Executor())
	if server := s.Server(); server != s.Cmd.Process.Pid {
		at += lab.Private(server)
	}
	b.Value("memory at rest", "service and executor", "MB", at)
	b.Goal("service and executor at rest", "MB", 80, 40, at)
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
	b.Value("memory at rest", "all zygotes", "MB", zygotes)
	b.Value("memory at rest", "a waiting sandbox with all packages", "MB", waiting)
	b.Goal("private memory of a waiting sandbox with all packages", "MB", 2, 1.5, waiting)
}

// measureFiles is what files cost.
func (b *bench) measureFiles(ctx context.Context) {
	s := b.service(ctx)
	small, large := holding(100), holding(100*mebibyte)
	took := b.compare(ctx, "a program that has an input", b.full(40, 8), airlock("of 100 bytes", s, &small),
		airlock("of 100 MiB", s, &large))
	b.Goal("100 MiB input staged", "ms", 5, 1, max(0, took[1]-took[0]))
	b.outputs(ctx, s)
	b.firstBytes(ctx, s)
}

// holding only looks at the size of its input: beside the same with a small one, the difference is what staging costs.
func holding(size int) program {
	return program{name: fmt.Sprintf("a program with an input of %d bytes", size), input: "in.bin",
		data: bytes.Repeat([]byte{7}, size), stdout: fmt.Sprintln(size),
		code: "import os\nprint(os.path.getsize('in.bin'))\n"}
}

// outputs compares what the service does with 100 MiB that a program left, in two files, with what one would do by
// hand: keep a copy, and have its digest.
func (b *bench) outputs(ctx context.Context, s *lab.Service) {
	const left = 50 * mebibyte
	dir := lab.Must(os.MkdirTemp(b.scratch, "hand-"))
	defer os.RemoveAll(dir)
	for _, name := range []string{"one.bin", "two.bin"} {
		lab.Check(os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), left/len(name)), 0o600))
	}
	c := b.caller(s)
	service := func(ctx context.Context) (time.Duration, error) { return c.largeOutputs(ctx, left), nil }
	byHand := func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", "mkdir copy && cp *.bin copy && sha256sum copy/*")
		cmd.Dir = dir
		began := time.Now()
		err := cmd.Run()
		return time.Since(began), errors.Join(err, os.RemoveAll(filepath.Join(dir, "copy")))
	}
	took := b.compare(ctx, "100 MiB of outputs", b.full(12, 4), lab.Ready("cp and sha256sum", byHand),
		lab.Ready("stored, recorded and fetched", service))
	b.Goal("100 MiB output stored and sent over HTTP, against cp and sha256sum", "x", 1.3, 1, took[1]/took[0])
}

// largeOutputs runs a program that leaves two files, and fetches them. It returns how long it took to store them, by
// the service's own account, and to fetch them.
func (c *caller) largeOutputs(ctx context.Context, size int) time.Duration {
	code := fmt.Sprintf(`import os
block = os.urandom(%d)
for name in "one.bin", "two.bin":
    with open(name, "wb") as out:
        for _ in range(%d // len(block)):
            out.write(os.urandom(16) + block[16:])
`, mebibyte, size)
	var run struct{ Files []made }
	c.decode(ctx, "POST", runsPath, map[string]string{"language": "python", "code": code}, &run)
	took := stage(c.timing, "collect") + stage(c.timing, "record")
	if took == 0 || len(run.Files) != 2 {
		lab.Fail("there are %d files, stored in %v", len(run.Files), took)
	}
	for _, file := range run.Files {
		took += lab.Must(c.do(ctx, "GET", filesPath+"/"+file.ID+"/content", nil))
		if len(c.body) != size {
			lab.Fail("%d bytes came back", len(c.body))
		}
		lab.Must(c.do(ctx, "DELETE", filesPath+"/"+file.ID, nil))
	}
	return took
}

// stage returns the duration of one part in a header as W3C Server Timing defines it: "queue;dur=0.02, run;dur=1".
func stage(header, name string) time.Duration {
	_, rest, _ := strings.Cut(", "+header, ", "+name+";dur=")
	value, _, _ := strings.Cut(rest, ",")
	ms, _ := strconv.ParseFloat(value, 64) // none is 0
	return time.Duration(ms * float64(time.Millisecond))
}

// firstBytes measures the delay between a program's write and the client's read. The program prints the time at which
// it prints: outside and inside read the same clock.
func (b *bench) firstBytes(ctx context.Context, s *lab.Service) {
	const code = `{"language":"python","code":"import time\nprint(time.monotonic_ns(), flush=True)\ntime.sleep(0.05)"}`
	c := b.caller(s)
	var delays lab.Sample
	for range b.full(40, 8) {
		lab.Pause(ctx, lab.Rest)
		r := lab.Must(lab.NewRequest(ctx, http.MethodPost, s.URL+runsPath, code))
		r.Header.Set("Accept", "text/event-stream")
		resp, err := c.client.Do(r)
		lab.Check(err)
		delay := time.Duration(-1)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			_, rest, found := strings.Cut(lines.Text(), `"stream":"stdout","data":"`)
			if !found || delay >= 0 {
				continue
			}
			var now unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail for this clock
			digits := rest[:max(0, strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }))]
			delay = time.Duration(now.Nano() - lab.Must(strconv.ParseInt(digits, 10, 64)))
		}
		resp.Body.Close()
		if delay < 0 {
			lab.Fail("the stream had no output")
		}
		delays = append(delays, delay)
	}
	b.Row("a line, from its write to the client", "airlock", delays)
	b.Goal("first byte of streamed output after the program wrote it", "ms", 5, 1, delays.P50())
}
