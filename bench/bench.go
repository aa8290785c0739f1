package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// bench is one run: the services that it started, and its results. Its methods end the lab.Try around the section when
// something fails.
type bench struct {
	*options
	lab.Report
	scratch string
	site    string // where Python looks for packages below PYTHONUSERBASE
	plot    program
	curves  []lab.Chart
	tricks  []ablated

	warm, cold, peer *lab.Service // nil until they are needed
	ends, atExit     []func()     // what is done after the section, and after all
}

// prepare looks at what is measured, and makes a folder with the packages and fonts of cold interpreters.
func (b *bench) prepare(ctx context.Context) {
	if _, err := os.Stat(filepath.Join(b.runtimes, "python", "manifest.json")); err != nil {
		lab.Fail("there are no Python packages in %s: make test-data installs them", b.runtimes)
	}
	version := lab.Must(exec.CommandContext(ctx, b.airlock, "version").Output())
	python := strings.TrimSpace(string(lab.Must(exec.CommandContext(ctx, b.python, "--version").Output())))
	first, _, _ := strings.Cut(string(version), "\n")
	b.Version, b.Quick, b.At, b.Machine = first+", "+python, b.quick, time.Now().UTC(), lab.ThisMachine()
	b.plot = plotProgram(b.at)
	b.scratch = lab.Must(os.MkdirTemp("", "airlock-bench-"))
	b.atExit = append(b.atExit, func() { os.RemoveAll(b.scratch) })
	var major, minor int
	if _, err := fmt.Sscanf(python, "Python %d.%d", &major, &minor); err != nil {
		lab.Fail("%q is no version of Python: %w", python, err)
	}
	b.site = fmt.Sprintf("/lib/python%d.%d/site-packages", major, minor)
	packages := b.base() + b.site
	lab.Check(errors.Join(
		os.Chmod(b.scratch, 0o755), // the service's user and sandboxes go through it
		os.CopyFS(b.fonts(), os.DirFS(filepath.Join(b.runtimes, "python", "matplotlib"))),
		os.MkdirAll(filepath.Dir(packages), 0o755),
		os.Symlink(b.packages(), packages),
	))
}

// packages is the folder of the Python packages, base one that has them where Python looks for a user's own, and fonts
// our copy of the font list's folder: matplotlib writes beside it.
func (b *bench) packages() string { return filepath.Join(b.runtimes, "python", "lib") }
func (b *bench) base() string     { return filepath.Join(b.scratch, "base") }
func (b *bench) fonts() string    { return filepath.Join(b.scratch, "matplotlib") }

// end does what is left to do, the last first.
func end(list *[]func()) {
	for ; len(*list) > 0; *list = (*list)[:len(*list)-1] {
		(*list)[len(*list)-1]()
	}
}

// kept starts a service that stays after the section.
func (b *bench) kept(s **lab.Service, start func() *lab.Service) *lab.Service {
	if *s == nil {
		ends := b.ends
		b.ends = nil
		defer func() { b.atExit, b.ends = append(b.atExit, b.ends...), ends }()
		*s = start()
	}
	return *s
}

// installed ends the Try around it if a file is not there. Documents name no path of this machine.
func installed(path string) {
	if _, err := os.Stat(path); err != nil {
		lab.Fail("it is not installed")
	}
}

// full returns how often something is measured: a part of that in a quick run.
func (b *bench) full(times, quick int) int {
	if b.quick {
		return quick
	}
	return times
}

// data makes a data directory.
func (b *bench) data() string { return lab.Must(lab.NewData(b.scratch, b.runtimes)) }

// await waits until a service takes connections. It ends with the section.
func (b *bench) await(ctx context.Context, s *lab.Service) *lab.Service {
	b.ends = append(b.ends, func() { _ = s.Stop() }) // nothing is measured any more
	lab.Check(s.Await(ctx))
	return s
}

// serve starts Airlock on a data directory, and waits until it answers.
func (b *bench) serve(ctx context.Context, data string, env []string, args ...string) *lab.Service {
	return b.await(ctx, lab.Must(lab.Serve(b.airlock, data, "", env, args...)))
}

// startWarm starts Airlock, and waits until all zygotes are ready.
func (b *bench) startWarm(ctx context.Context, args ...string) *lab.Service {
	return warmed(ctx, b.serve(ctx, b.data(), nil, args...))
}

// many are the options of a service with an owner who has many sessions.
var many = []string{"--live=1000", "--owner-live=1000", "--owner-rate=100000"}

// service returns the warm service that most sections use.
func (b *bench) service(ctx context.Context) *lab.Service {
	return b.kept(&b.warm, func() *lab.Service { return b.startWarm(ctx, many...) })
}

// warmed waits until every zygote of a service waits: one that sleeps for a while without using a core has imported
// what it was to import.
func warmed(ctx context.Context, s *lab.Service) *lab.Service {
	const still = 400 * time.Millisecond
	before, since := "", time.Now()
	if !lab.Until(ctx, lab.StartTime, func() bool {
		now, asleep := "", true
		for _, z := range s.Zygotes() {
			asleep = asleep && z.State == 'S'
			now += fmt.Sprint(z.PID, " ", z.Ticks, "\n")
		}
		if !asleep || now == "" || now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > still
	}) {
		lab.Check(errors.Join(errors.New("its zygotes do not become ready"), ctx.Err()))
	}
	return s
}

// compare has contestants take turns, and records what was measured. It returns the medians in milliseconds.
func (b *bench) compare(ctx context.Context, of string, rounds int, list ...lab.Contestant) []float64 {
	medians := make([]float64, len(list))
	for i, times := range lab.Turns(ctx, rounds, list...) {
		b.Row(of, list[i].Name, times)
		medians[i] = times.P50()
	}
	return medians
}

// caller asks one service, on connections of its own.
type caller struct {
	url    string
	client *http.Client
	header map[string]string
	body   []byte // of the last answer
	timing string // its Server-Timing
}

// answerTime is how long an answer may take before the service is abandoned.
const answerTime = 5 * time.Minute

// newCaller returns a caller. Headers are names and values.
func newCaller(url string, header ...string) *caller {
	c := &caller{url: url, client: &http.Client{Transport: &http.Transport{}, Timeout: answerTime},
		header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		c.header[http.CanonicalHeaderKey(header[i])] = header[i+1]
	}
	return c
}

// caller returns one whose connections are closed after the section.
func (b *bench) caller(s *lab.Service) *caller {
	c := newCaller(s.URL)
	b.ends = append(b.ends, c.close)
	return c
}

func (c *caller) close() { c.client.CloseIdleConnections() }

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.status, e.text) }

// do makes a request, and returns how long it took until the whole answer was there, which must have some text in it.
func (c *caller) do(ctx context.Context, method, path string, body any, wanted ...string) (time.Duration, error) {
	r, err := lab.NewRequest(ctx, method, c.url+path, body)
	if err != nil {
		return 0, err
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	a, err := lab.Send(c.client, r, c.body)
	if err != nil {
		return 0, err
	}
	c.body, c.timing = a.Body, a.Header.Get("Server-Timing")
	if a.Status/100 != 2 {
		return 0, &statusError{a.Status, string(c.body)}
	}
	for _, text := range wanted {
		if !bytes.Contains(c.body, []byte(text)) {
			return 0, fmt.Errorf("the answer to %s %s has no %s: %.400s", method, path, text, c.body)
		}
	}
	return a.Took, nil
}

// decode makes a request, and reads the answer.
func (c *caller) decode(ctx context.Context, method, path string, body, answer any) time.Duration {
	took := lab.Must(c.do(ctx, method, path, body))
	lab.Check(json.Unmarshal(c.body, answer))
	return took
}

// again returns a call that makes the same request each time.
func (c *caller) again(method, path string, body any, wanted ...string) lab.Call {
	return func(ctx context.Context) (time.Duration, error) { return c.do(ctx, method, path, body, wanted...) }
}

// The addresses of the native API, and the least run.
const (
	runsPath, filesPath, sessionsPath = "/api/v1/runs", "/api/v1/files", "/api/v1/sessions"
	printRun                          = `{"language":"python","code":"print(1)"}`
)

type made struct{ ID string }

// session makes a live session of Python, and returns its path.
func (c *caller) session(ctx context.Context) string {
	var m made
	c.decode(ctx, "POST", sessionsPath, `{"kind":"live","language":"python"}`, &m)
	return sessionsPath + "/" + m.ID
}

// cell runs a cell of a session.
func (c *caller) cell(ctx context.Context, path, code string, wanted ...string) (time.Duration, error) {
	return c.do(ctx, "POST", path+"/cells", map[string]string{"code": code}, append(wanted, `"status":"ok"`)...)
}
