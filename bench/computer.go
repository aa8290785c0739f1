package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Computer is what the processes of live sessions cost.
type Computer struct {
	Command   Summary `json:"command"` // E2B's commands.run("true"); zero without its client
	Processes int     `json:"processes"`
	Threads   int     `json:"threads"`   // of the executor, more with so many processes
	Memory    float64 `json:"memory_mb"` // the same
	Tree      int     `json:"tree"`      // processes below one, each in a session of its own
	End       Summary `json:"end"`       // of all of them, by DELETE
	Stays     *Stays  `json:"stays,omitempty"`
}

// So many processes run, in sessions of so many.
const (
	computerProcesses = 2000
	sessionProcesses  = 100
	computerTree      = 100
	computerOwners    = 3 // of whom each may have a part of the machine's pipes and open files
)

//go:embed e2b_computer.py
var e2bCommands string

// computer is a service with owners of its own.
type computer struct {
	*server
	keys []string
}

func (b *bench) measureComputer(ctx context.Context) error {
	data, err := b.newData()
	if err != nil {
		return err
	}
	c := &computer{}
	for n := range computerOwners + 1 {
		argv := []string{"keys", "create", "--data", data, "--owner", "owner" + strconv.Itoa(n)}
		if n == computerOwners {
			argv = append(argv, "--e2b")
		}
		key, err := exec.CommandContext(ctx, b.options.airlock, argv...).Output()
		if err != nil {
			return fmt.Errorf("keys create: %w", err)
		}
		c.keys = append(c.keys, strings.TrimSpace(string(key)))
	}
	service, err := b.serve(data, nil)
	if c.server, err = service.warmed(ctx, err); err != nil {
		return err
	}
	defer c.stop()
	r := &Computer{Tree: computerTree}
	b.results.Computer = r
	if err := b.computerCommands(ctx, c, r); err != nil {
		return err
	}
	if err := c.trees(ctx, r, b.plan.sessions); err != nil {
		return err
	}
	if err := c.crowd(ctx, r); err != nil {
		return err
	}
	c.stop()
	if r.Stays, err = b.measureStays(ctx); err != nil {
		return err
	}
	fmt.Fprint(b.progress, "   "+strings.ReplaceAll(strings.TrimSpace(r.text()), "\n", "\n   ")+"\n")
	return ctx.Err()
}

// computerCommands times commands of E2B's client.
func (b *bench) computerCommands(ctx context.Context, c *computer, r *Computer) error {
	if found, _ := filepath.Glob(b.options.e2b); len(found) == 0 {
		b.results.Missing["E2B's Python client"] = "it is not installed"
		return nil
	}
	address := "http://" + c.address + "/e2b"
	cmd := exec.CommandContext(ctx, b.options.e2b, "-c", e2bCommands, strconv.Itoa(4*b.plan.sessions))
	cmd.Env = append(os.Environ(), "E2B_API_URL="+address, "E2B_SANDBOX_URL="+address,
		"E2B_API_KEY="+c.keys[computerOwners])
	cmd.Stderr = b.progress
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("E2B's client: %w", err)
	}
	var times []float64
	if err := json.Unmarshal(out, &times); err != nil {
		return err
	}
	var s sample
	for _, ms := range times {
		s = append(s, time.Duration(ms*float64(time.Millisecond)))
	}
	r.Command = s.summary()
	return nil
}

// call makes a request of an owner. It tries again while the service is busy.
func (c *computer) call(ctx context.Context, owner int, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("X-API-Key", c.keys[owner])
		req.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case err != nil:
			return err
		case response.StatusCode == http.StatusTooManyRequests:
			pause(ctx, rest)
		case response.StatusCode >= http.StatusMultipleChoices:
			return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, said)
		case answer != nil:
			return json.Unmarshal(said, answer)
		default:
			return nil
		}
	}
}

type madeThing struct{ ID string }

// session makes a session that has an interpreter, and returns its path.
func (c *computer) session(ctx context.Context, owner int) (string, error) {
	var made madeThing
	body := map[string]any{"kind": "live", "language": "python", "limits": map[string]int{"processes": 128}}
	if err := c.call(ctx, owner, "POST", sessionsPath, body, &made); err != nil {
		return "", err
	}
	path := sessionsPath + "/" + made.ID
	return path, c.call(ctx, owner, "POST", path+"/cells", map[string]string{"code": "1"}, nil)
}

// treeCode starts the processes of a tree, which survive what a terminal sends, and says when they run.
const treeCode = `trap '' HUP TERM; for n in $(seq 100); do setsid sh -c 'trap "" HUP TERM; exec sleep 1000' & done
until [ "$(pgrep -c -x sleep)" = 100 ]; do :; done; : > up; wait`

// trees times the end of trees of processes.
func (c *computer) trees(ctx context.Context, r *Computer, rounds int) error {
	path, err := c.session(ctx, 0)
	if err != nil {
		return err
	}
	var s sample
	for range rounds {
		var made madeThing
		if err := c.call(ctx, 0, "POST", path+"/processes", map[string]string{"shell": treeCode}, &made); err != nil {
			return err
		}
		const ready = "import os, time\nwhile not os.path.exists('up'): time.sleep(.01)\nos.remove('up')"
		if err := c.call(ctx, 0, "POST", path+"/cells", map[string]string{"code": ready}, nil); err != nil {
			return err
		}
		began := time.Now()
		if err := c.call(ctx, 0, "DELETE", path+"/processes/"+made.ID, nil, nil); err != nil {
			return err
		}
		s = append(s, time.Since(began))
		for _, p := range processes() {
			if p.command == "sleep 1000" {
				return errors.New("a process of the tree is left")
			}
		}
	}
	r.End = s.summary()
	return c.call(ctx, 0, "DELETE", path, nil, nil)
}

// crowd has many processes run at once.
func (c *computer) crowd(ctx context.Context, r *Computer) error {
	paths := make([]string, computerProcesses/sessionProcesses)
	for i := range paths {
		var err error
		if paths[i], err = c.session(ctx, i%computerOwners); err != nil {
			return err
		}
	}
	before, err := c.executor(ctx)
	if err != nil {
		return err
	}
	var starting sync.WaitGroup
	failed := make([]error, len(paths))
	for i, path := range paths {
		starting.Go(func() {
			for n := 0; n < sessionProcesses && failed[i] == nil; n++ {
				failed[i] = c.call(ctx, i%computerOwners, "POST", path+"/processes",
					map[string]any{"argv": []string{"sleep", "1001"}}, nil)
			}
		})
	}
	starting.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	after, err := c.executor(ctx)
	if err != nil {
		return err
	}
	r.Processes, r.Threads, r.Memory = computerProcesses, after.threads-before.threads, after.megabytes-before.megabytes
	return nil
}

// executorSize is how large the executor is.
type executorSize struct {
	threads   int
	megabytes float64
}

// executor looks at the executor when it has returned what it does not use: two seconds after a request.
func (c *computer) executor(ctx context.Context) (size executorSize, err error) {
	run := map[string]string{"language": "bash", "code": "true"}
	if err := c.call(ctx, 0, "POST", "/api/v1/runs", run, nil); err != nil {
		return size, err
	}
	pause(ctx, 4*time.Second)
	for _, p := range familyOf(c.cmd.Process.Pid, processes()).executor {
		if !strings.HasPrefix(p.command, "airlock executor") {
			continue
		}
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
		return executorSize{len(tasks), float64(p.resident*os.Getpagesize()) / 1e6}, err
	}
	return size, errors.New("the executor is not found")
}

func (r *Computer) text() string {
	if r == nil {
		return "Not measured in this run.\n"
	}
	var b strings.Builder
	if r.Command.P50 > 0 {
		fmt.Fprintf(&b, "E2B's `commands.run(\"true\")` takes %s ms (p99 %s).\n", ms(r.Command.P50), ms(r.Command.P99))
	}
	fmt.Fprintf(&b, "`DELETE` of a process with %d below it, each in a session of its own, takes %s ms until all "+
		"have ended (p99 %s).\n", r.Tree, ms(r.End.P50), ms(r.End.P99))
	fmt.Fprintf(&b, "With %d processes in sessions the executor has %d threads and %.0f MB more.\n", r.Processes,
		r.Threads, r.Memory)
	b.WriteString(r.Stays.text())
	return b.String()
}
