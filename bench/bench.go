package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// bench is one run: the services that it started, and its results.
type bench struct {
	*options
	section string
	scratch string
	site    string // where Python looks for packages below PYTHONUSERBASE
	results *results
	plot    program

	warm, cold, peer *lab.Service // nil until they are needed
}

func newBench(ctx context.Context, o *options) (*bench, error) {
	if _, err := os.Stat(filepath.Join(o.runtimes, "python", "manifest.json")); err != nil {
		return nil, fmt.Errorf("there are no Python packages in %s: make test-data installs them", o.runtimes)
	}
	version, err := exec.CommandContext(ctx, o.airlock, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.airlock, err)
	}
	python, err := exec.CommandContext(ctx, o.python, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.python, err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	b := &bench{options: o, results: newResults(first+", "+strings.TrimSpace(string(python)), o.quick)}
	if b.plot, err = plotProgram(o.at); err != nil {
		return nil, err
	}
	if b.scratch, err = os.MkdirTemp("", "airlock-bench-"); err != nil {
		return nil, err
	}
	if err := b.furnish(string(python)); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// furnish puts the packages and fonts of cold interpreters into the scratch folder.
func (b *bench) furnish(python string) error {
	var major, minor int
	if _, err := fmt.Sscanf(python, "Python %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%q is no version of Python: %w", python, err)
	}
	b.site = fmt.Sprintf("/lib/python%d.%d/site-packages", major, minor)
	packages := b.base() + b.site
	return errors.Join(
		os.Chmod(b.scratch, 0o755), // the service's user and sandboxes go through it
		os.CopyFS(b.fonts(), os.DirFS(filepath.Join(b.runtimes, "python", "matplotlib"))),
		os.MkdirAll(filepath.Dir(packages), 0o755),
		os.Symlink(b.packages(), packages),
	)
}

// packages is the folder of the Python packages, base one that has them where Python looks for a user's own, and fonts
// our copy of the font list's folder: matplotlib writes beside it.
func (b *bench) packages() string { return filepath.Join(b.runtimes, "python", "lib") }
func (b *bench) base() string     { return filepath.Join(b.scratch, "base") }
func (b *bench) fonts() string    { return filepath.Join(b.scratch, "matplotlib") }

func (b *bench) close() {
	for _, s := range []*lab.Service{b.warm, b.cold, b.peer} {
		if s != nil {
			_ = s.Stop() // nothing is measured any more
		}
	}
	os.RemoveAll(b.scratch)
}

// full returns how often something is measured: a part of that in a quick run.
func (b *bench) full(times, quick int) int {
	if b.quick {
		return quick
	}
	return times
}

// start starts Airlock with a data directory of its own, and waits until it answers.
func (b *bench) start(ctx context.Context, args ...string) (*lab.Service, error) {
	data, err := lab.NewData(b.scratch, b.runtimes)
	if err != nil {
		return nil, err
	}
	return b.serve(ctx, data, nil, args...)
}

func (b *bench) serve(ctx context.Context, data string, env []string, args ...string) (*lab.Service, error) {
	s, err := lab.Serve(b.airlock, data, "", env, args...)
	if err != nil {
		return nil, err
	}
	return s, s.Await(ctx)
}

// startWarm is start, and waits until all zygotes are ready.
func (b *bench) startWarm(ctx context.Context, args ...string) (*lab.Service, error) {
	s, err := b.start(ctx, args...)
	return warmed(ctx, s, err)
}

// warmed waits until all zygotes of a service that was started are ready.
func warmed(ctx context.Context, s *lab.Service, err error) (*lab.Service, error) {
	if err == nil {
		_, err = zygotesReady(ctx, s)
	}
	return s, err
}

// service starts the warm service that most sections use, if it does not run.
func (b *bench) service(ctx context.Context) (err error) {
	if b.warm == nil {
		b.warm, err = b.startWarm(ctx, "--live=1000", "--owner-live=1000", "--owner-rate=100000")
	}
	return err
}

// zygotesReady waits until every zygote waits, and returns how long after the start of the service the last one had
// become ready: one that sleeps for a while without using a core has imported what it was to import.
func zygotesReady(ctx context.Context, s *lab.Service) (time.Duration, error) {
	const still = 400 * time.Millisecond
	before, since := "", time.Now()
	if lab.Until(ctx, lab.StartTime, func() bool {
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
		return since.Sub(s.Began), nil
	}
	return 0, errors.Join(errors.New("its zygotes do not become ready"), ctx.Err())
}

// call does something once, and returns how long it took.
type call func(ctx context.Context) (time.Duration, error)

// contestant is one way to do it. Open prepares one client: what is not measured.
type contestant struct {
	name string
	open func(ctx context.Context) (call, func(), error)
}

// ready is a contestant that has nothing to prepare.
func ready(name string, do call) contestant {
	return contestant{name, func(context.Context) (call, func(), error) { return do, func() {}, nil }}
}

// rest is how long nothing happens before each single measurement, so that what the one before left to be done is not
// paid for by the next: the service refills its pool behind the answer.
const rest = 25 * time.Millisecond

// turns measures contestants round by round, after one for nothing: files come from the disk only then. Each round
// begins with another one, so that none always follows the same other.
func turns(ctx context.Context, rounds int, list ...contestant) ([]lab.Sample, error) {
	calls, times := make([]call, len(list)), make([]lab.Sample, len(list))
	for i, c := range list {
		do, done, err := c.open(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer done()
		calls[i] = do
		if _, err := do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for round := range rounds {
		for i := range list {
			k := (i + round) % len(list)
			lab.Pause(ctx, rest)
			took, err := calls[k](ctx)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s: %w", list[k].name, err)
			}
			times[k] = append(times[k], took)
		}
	}
	return times, nil
}

// compare is turns, and records what was measured. It returns the medians in milliseconds.
func (b *bench) compare(ctx context.Context, of string, rounds int, list ...contestant) ([]float64, error) {
	times, err := turns(ctx, rounds, list...)
	medians := make([]float64, len(list))
	for i := range times {
		b.row(of, list[i].name, times[i])
		medians[i] = times[i].P50()
	}
	return medians, err
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

func (c *caller) close() { c.client.CloseIdleConnections() }

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.status, e.text) }

// do makes a request, and returns how long it took until the whole answer was there, which must have some text in it.
// A body is nothing, JSON as a string, bytes, or a value of which JSON is made.
func (c *caller) do(ctx context.Context, method, path string, body any, wanted ...string) (time.Duration, error) {
	kind, content := "application/json", io.Reader(http.NoBody)
	switch given := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(given)
	case []byte:
		kind, content = "application/octet-stream", bytes.NewReader(given)
	default:
		text, err := json.Marshal(given)
		if err != nil {
			return 0, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return 0, err
	}
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := c.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer := bytes.NewBuffer(c.body[:0])
	_, err = answer.ReadFrom(resp.Body)
	took := time.Since(began)
	c.body, c.timing = answer.Bytes(), resp.Header.Get("Server-Timing")
	if err != nil {
		return 0, err
	}
	if resp.StatusCode/100 != 2 {
		return 0, &statusError{resp.StatusCode, string(c.body)}
	}
	for _, text := range wanted {
		if !bytes.Contains(c.body, []byte(text)) {
			return 0, fmt.Errorf("the answer to %s %s has no %s: %.400s", method, path, text, c.body)
		}
	}
	return took, nil
}

// decode is do, and reads the answer.
func (c *caller) decode(ctx context.Context, method, path string, body, answer any) (time.Duration, error) {
	took, err := c.do(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	return took, json.Unmarshal(c.body, answer)
}

// again returns a call that makes the same request each time.
func (c *caller) again(method, path string, body any, wanted ...string) call {
	return func(ctx context.Context) (time.Duration, error) { return c.do(ctx, method, path, body, wanted...) }
}

// The addresses of the native API.
const runsPath, filesPath, sessionsPath = "/api/v1/runs", "/api/v1/files", "/api/v1/sessions"

type made struct{ ID string }

// session makes a live session of Python, and returns its path.
func (c *caller) session(ctx context.Context) (string, error) {
	var m made
	_, err := c.decode(ctx, "POST", sessionsPath, `{"kind":"live","language":"python"}`, &m)
	return sessionsPath + "/" + m.ID, err
}

// cell runs a cell of a session.
func (c *caller) cell(ctx context.Context, path, code string, wanted ...string) (time.Duration, error) {
	return c.do(ctx, "POST", path+"/cells", map[string]string{"code": code}, append(wanted, `"status":"ok"`)...)
}
