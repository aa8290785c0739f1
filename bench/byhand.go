package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nameByHand names an interpreter or compiler that is started from a shell.
const nameByHand = "by hand"

// spoken are the least programs of other languages, and what one would type to run them.
// No interpreter here reads TypeScript, so Airlock is compared with Node.js and the program as
// JavaScript: the translation is on top.
var spoken = []struct {
	workload
	must, aim float64
	command   string
}{
	{workload{name: "js", language: "js", entry: "main.js", code: "console.log(1)", stdout: "1\n"}, 0.2, 0.1,
		"node main.js"},
	{workload{name: "ts", language: "ts", entry: "main.js", code: "console.log(1)", stdout: "1\n"}, 0.2, 0.1,
		"node main.js"},
	{workload{name: "bash", language: "bash", entry: "main.sh", code: "echo 1", stdout: "1\n"}, 1.5, 1.2, "bash main.sh"},
	{workload{name: "c", language: "c", entry: "main.c", stdout: "hello\n",
		code: "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"}, 1.15, 1.05,
		"gcc -std=gnu17 -O1 -g -o main main.c -lm -pthread && ./main"},
}

func (b *bench) byHand(command string) contestant {
	return contestant{name: nameByHand, open: func(_ context.Context, w *workload) (*client, error) {
		return b.coldClient(w, func(string) *exec.Cmd {
			argv := []string{"sh", "-c", command}
			if !strings.Contains(command, "&&") {
				argv = strings.Fields(command)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = environment(w, "", "")
			return cmd
		})
	}}
}

// measureLanguages is one program at a time in the languages that have no zygote.
func (b *bench) measureLanguages(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	for i := range spoken {
		one := &spoken[i]
		if err := b.latency(ctx, &one.workload, b.plan.prints, []contestant{b.byHand(one.command),
			airlock(nameWarm, b.warm)}); err != nil {
			return err
		}
	}
	return nil
}

// Outputs are 100 MiB that a program left, in two files: one may have 64.
type Outputs struct {
	Store  Summary `json:"store"`   // from the end of the program until it is stored and recorded
	Fetch  Summary `json:"fetch"`   // over HTTP
	Both   Summary `json:"both"`    //
	ByHand Summary `json:"by_hand"` // cp and sha256sum
}

// left is half of it.
const left = 50 * mebibyte

// writing leaves random bytes.
var writing = workload{name: "writing", code: fmt.Sprintf(`import os
block = os.urandom(%d)
for name in "one.bin", "two.bin":
    with open(name, "wb") as out:
        for _ in range(%d // len(block)):
            out.write(os.urandom(16) + block[16:])
`, mebibyte, left)}

// outputs compares what the service does with a large output with what one would do
// by hand: to keep a copy, and to have its digest.
func (b *bench) outputs(ctx context.Context) error {
	c, err := dial(b.warm.address)
	if err != nil {
		return err
	}
	defer c.close()
	request, err := c.runRequest(b.warm.address, &writing)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.scratch, "hand-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"one.bin", "two.bin"} {
		if err := os.WriteFile(filepath.Join(dir, name), noise(left), 0o600); err != nil {
			return err
		}
	}
	var store, fetch, both, hand sample
	for i := range b.plan.files + 1 {
		pause(ctx, 10*rest)
		kept, fetched, err := c.largeOutputs(b.warm.address, request)
		if err != nil {
			return err
		}
		pause(ctx, 10*rest)
		cmd := exec.CommandContext(ctx, "sh", "-c", "mkdir copy && cp *.bin copy && sha256sum copy/*")
		cmd.Dir = dir
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return err
		}
		took := time.Since(began)
		if err := os.RemoveAll(filepath.Join(dir, "copy")); err != nil {
			return err
		}
		if i > 0 { // the first was for nothing
			store, fetch, both = append(store, kept), append(fetch, fetched), append(both, kept+fetched)
			hand = append(hand, took)
		}
	}
	o := &Outputs{Store: store.summary(), Fetch: fetch.summary(), Both: both.summary(), ByHand: hand.summary()}
	b.results.Outputs = o
	fmt.Fprintf(b.progress, "   100 MiB stored in %.0f ms, fetched in %.0f ms; by hand %.0f ms\n", o.Store.P50,
		o.Fetch.P50, o.ByHand.P50)
	return ctx.Err()
}

// largeOutputs runs a program and fetches what it left.
func (c *connection) largeOutputs(host string, request []byte) (store, fetch time.Duration, err error) {
	if err := c.do(request); err != nil {
		return 0, 0, err
	}
	stages := stageTimes{times: map[string][]float64{}}
	stages.add(c.timing)
	for _, name := range []string{"collect", "record"} {
		for _, took := range stages.times[name] {
			store += time.Duration(took * float64(time.Millisecond))
		}
	}
	one, err := outputOf(c.body, "one.bin")
	two, also := outputOf(c.body, "two.bin")
	if err := errors.Join(err, also); err != nil {
		return 0, 0, err
	}
	if store == 0 {
		return 0, 0, errors.New("the service says nothing of its stages")
	}
	for _, id := range []string{one, two} {
		began := time.Now()
		err := c.do(newRequest("GET", filesPath+"/"+id+"/content", host, nil))
		fetch += time.Since(began)
		if err == nil && len(c.body) != left {
			err = fmt.Errorf("%d bytes came back", len(c.body))
		}
		if err = cmp.Or(err, c.do(newRequest("DELETE", filesPath+"/"+id, host, nil))); err != nil {
			return 0, 0, err
		}
	}
	return store, fetch, nil
}
