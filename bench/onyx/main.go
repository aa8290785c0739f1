// Command onyx measures what the Onyx dialect costs on top of the engine: the
// same program through /onyx and through the native API in turn, a printed last
// expression, a stream's first word, downloads against net/http with the bytes in memory, and the
// memory that a large file takes on its way in.
//
//	go run ./bench/onyx -airlock bin/airlock -runtimes .cache/data/runtimes
//
// Everything is measured in one run, and what is compared takes turns, so that
// what disturbs the machine disturbs both.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "onyx:", err)
		os.Exit(1)
	}
}

type bench struct {
	out    io.Writer
	server *server
	client *http.Client
	missed int // goals
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 1 && args[0] == memoryServer {
		return serveMemory(ctx, out)
	}
	flags := flag.NewFlagSet("onyx", flag.ContinueOnError)
	binary := flags.String("airlock", "bin/airlock", "the airlock to measure")
	runtimes := flags.String("runtimes", ".cache/data/runtimes", "the languages' packages, as airlock setup installs them")
	pairs := flags.Int("pairs", 2000, "runs through each of the two APIs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := start(ctx, *binary, *runtimes)
	if err != nil {
		return err
	}
	defer s.stop()
	b := &bench{out: out, server: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer b.client.CloseIdleConnections()
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return b.overhead(ctx, *pairs) },
		b.lastLine, b.firstWord, b.downloads, b.memory,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if b.missed > 0 {
		return fmt.Errorf("%d goals are missed", b.missed)
	}
	return nil
}

func (b *bench) report(reached bool, format string, args ...any) {
	verdict := "reached"
	if !reached {
		verdict = "MISSED"
		b.missed++
	}
	fmt.Fprintf(b.out, format+": %s\n", append(args, verdict)...)
}

// send makes a request and reads the answer to its end.
func (b *bench) send(
	ctx context.Context, method, path, contentType string, body io.Reader, status int,
) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.server.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s %s: %d: %.300s", method, path, resp.StatusCode, text)
	}
	return text, err
}

func (b *bench) json(ctx context.Context, path, body string) ([]byte, error) {
	return b.send(ctx, http.MethodPost, path, "application/json", strings.NewReader(body), http.StatusOK)
}

// overhead runs the same program through both APIs, one after the other, each
// first in every second pair.
func (b *bench) overhead(ctx context.Context, pairs int) error {
	apis := []struct{ path, body string }{
		{"/api/v1/runs", `{"language":"python","code":"print(1)","timeout_ms":10000}`},
		{"/onyx/v1/execute", `{"code":"print(1)","timeout_ms":10000}`},
	}
	took := [2][]time.Duration{}
	for i := range pairs + 20 {
		for j := range apis {
			at := (i + j) % 2
			began := time.Now()
			if _, err := b.json(ctx, apis[at].path, apis[at].body); err != nil {
				return err
			}
			if i >= 20 { // the first ones warm everything up
				took[at] = append(took[at], time.Since(began))
			}
		}
	}
	native, onyx := median(took[0]), median(took[1])
	allowed := max(native/10, 200*time.Microsecond)
	b.report(onyx-native <= allowed, "execute, median of %d pairs: native %v, onyx %v, difference %v of %v", pairs, native,
		onyx, onyx-native, allowed)
	return nil
}

// lastLine runs a script of 500 lines with its last expression printed and
// without, in turn, and compares pair by pair.
func (b *bench) lastLine(ctx context.Context) error {
	var script strings.Builder
	for i := range 100 {
		fmt.Fprintf(&script, "def f%[1]d(a, b=%[1]d):\n    x = [a * k + b for k in range(3)]\n"+
			"    if a > %[1]d: return sum(x)\n    return {'k': x, 'n': 'text %[1]d'}\nv%[1]d = f%[1]d(%[1]d)['k'][0]\n", i)
	}
	script.WriteString("v7 + 1\n")
	var bodies [2]string
	for i, printed := range []bool{false, true} {
		body, err := json.Marshal(map[string]any{"code": script.String(), "timeout_ms": 10000,
			"last_line_interactive": printed})
		if err != nil {
			return err
		}
		bodies[i] = string(body)
	}
	const pairs = 500
	var took [2][]time.Duration
	var more []time.Duration
	for i := range pairs + 20 {
		var pair [2]time.Duration
		for j := range bodies {
			at := (i + j) % 2
			began := time.Now()
			if _, err := b.json(ctx, "/onyx/v1/execute", bodies[at]); err != nil {
				return err
			}
			pair[at] = time.Since(began)
		}
		if i < 20 {
			continue
		}
		took[0], took[1], more = append(took[0], pair[0]), append(took[1], pair[1]), append(more, pair[1]-pair[0])
	}
	plain, printed, difference := median(took[0]), median(took[1]), median(more)
	allowed := max(plain/10, 200*time.Microsecond)
	b.report(difference <= allowed,
		"501 lines, median of %d pairs: %v, with the last expression printed %v, median difference %v of %v", pairs, plain,
		printed, difference, allowed)
	return nil
}

// firstWord is the time from a request to the first event with output.
func (b *bench) firstWord(ctx context.Context) error {
	var took []time.Duration
	for range 200 {
		one, err := b.oneFirstWord(ctx)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	slices.Sort(took)
	b.report(took[len(took)/2] <= 15*time.Millisecond,
		"stream, first output of 200: median %v, 95%% within %v, at most 15ms", took[len(took)/2], took[len(took)*95/100])
	return nil
}

func (b *bench) oneFirstWord(ctx context.Context) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.url+"/onyx/v1/execute/stream",
		strings.NewReader(`{"code":"print(1)","timeout_ms":10000}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var seen []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(seen, []byte("event: output")) {
		n, err := resp.Body.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil && !bytes.Contains(seen, []byte("event: output")) {
			return 0, fmt.Errorf("the stream has no output: %w: %q", err, seen)
		}
	}
	took := time.Since(began)
	_, err = io.Copy(io.Discard, resp.Body)
	return took, err
}

const (
	downloadSize = 100 << 10
	hammerTime   = 2 * time.Second
)

func downloadContent() []byte { return bytes.Repeat([]byte("airlock "), downloadSize/8) }

// downloads compares requests a second with net/http, which has the same bytes
// in memory and nothing else to do, in a process of its own like the service.
func (b *bench) downloads(ctx context.Context) error {
	path, err := b.upload(ctx, bytes.NewReader(downloadContent()))
	if err != nil {
		return err
	}
	plain, err := startMemory(ctx)
	if err != nil {
		return err
	}
	defer plain.stop()
	family, err := b.server.family()
	if err != nil {
		return err
	}
	var rates, costs [2][]float64
	for range 5 {
		for i, url := range []string{plain.url + "/", b.server.url + path} {
			pids := [][]int{{plain.cmd.Process.Pid}, family}[i]
			before := processor(pids)
			rate, err := b.hammer(ctx, url, 16, hammerTime)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
			costs[i] = append(costs[i], 1e6*(processor(pids)-before).Seconds()/(rate*hammerTime.Seconds()))
		}
	}
	memory, onyx := medianOf(rates[0]), medianOf(rates[1])
	fmt.Fprintf(b.out, "download, processor time of the server: net/http from memory %.0f µs, onyx %.0f µs\n",
		medianOf(costs[0]), medianOf(costs[1]))
	b.report(onyx >= 0.7*memory,
		"download of 100 KiB, 16 connections: net/http from memory %.0f/s, onyx %.0f/s, %.0f%% of at least 70%%", memory,
		onyx, 100*onyx/memory)
	return nil
}

func (b *bench) hammer(ctx context.Context, url string, connections int, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	var count atomic.Int64
	var failed atomic.Value
	var workers sync.WaitGroup
	began := time.Now()
	for range connections {
		workers.Go(func() {
			for time.Since(began) < d {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err == nil {
					var resp *http.Response
					if resp, err = b.client.Do(req); err == nil {
						var n int64
						n, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						if err == nil && n != downloadSize {
							err = fmt.Errorf("%d bytes came", n)
						}
					}
				}
				if err != nil {
					failed.Store(err)
					return
				}
				count.Add(1)
			}
		})
	}
	workers.Wait()
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(count.Load()) / time.Since(began).Seconds(), nil
}

// upload stores a file and returns the path under which it is to be had.
func (b *bench) upload(ctx context.Context, content io.Reader) (string, error) {
	before := &bytes.Buffer{}
	form := multipart.NewWriter(before)
	if _, err := form.CreateFormFile("file", "data.bin"); err != nil {
		return "", err
	}
	after := strings.NewReader("\r\n--" + form.Boundary() + "--\r\n")
	text, err := b.send(ctx, http.MethodPost, "/onyx/v1/files", form.FormDataContentType(),
		io.MultiReader(before, content, after), http.StatusCreated)
	if err != nil {
		return "", err
	}
	var stored struct {
		ID string `json:"file_id"`
	}
	err = json.Unmarshal(text, &stored)
	return "/onyx/v1/files/" + stored.ID, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// memory uploads a file of 100 MiB and runs a program on it, while the private
// memory of the service and its executor is watched.
func (b *bench) memory(ctx context.Context) error {
	family, err := b.server.family()
	if err != nil {
		return err
	}
	before, err := private(family)
	if err != nil {
		return err
	}
	watched, stop := context.WithCancel(ctx)
	peak := make(chan int64, 1)
	go func() { peak <- watch(watched, family) }()
	path, err := b.upload(ctx, io.LimitReader(zeros{}, 100<<20))
	if err == nil {
		id := path[strings.LastIndexByte(path, '/')+1:]
		var text []byte
		text, err = b.json(ctx, "/onyx/v1/execute",
			`{"code":"import os\nos.path.getsize('data.bin')","timeout_ms":30000,"files":[{"path":"data.bin","file_id":"`+id+
				`"}]}`)
		if err == nil && !bytes.Contains(text, []byte(`"stdout":"104857600\n"`)) {
			err = fmt.Errorf("the program did not find its file: %s", text)
		}
	}
	stop()
	most := <-peak
	if err != nil {
		return err
	}
	extra := most - before
	b.report(extra < 16<<20,
		"100 MiB uploaded and staged: private memory %.1f MiB before, at most %.1f, extra %.1f of less than 16", mib(before),
		mib(most), mib(extra))
	return nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2].Round(time.Microsecond)
}

func medianOf(f []float64) float64 {
	slices.Sort(f)
	return f[len(f)/2]
}
