package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed resident.py
var residentProgram string

// resident is the lower bound: a Python that has imported everything and runs
// the same script again, by its own clock.
func (b *bench) resident() contestant {
	return contestant{name: nameResident, open: func(_ context.Context, w *workload) (*client, error) {
		cmd := exec.Command(b.options.python, "-c", residentProgram, programName, w.stdout)
		f, err := b.newFolder(w)
		if err != nil {
			return nil, err
		}
		cmd.Dir, cmd.Env = f.dir, environment(w, b.base(), b.fonts())
		return startResident(cmd, f)
	}}
}

func startResident(cmd *exec.Cmd, f *folder) (*client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	var took time.Duration
	return &client{
		attempt: func(context.Context) error {
			if _, err := io.WriteString(in, "\n"); err != nil {
				return fmt.Errorf("%w: %.400s", err, stderr.String())
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				return fmt.Errorf("%w: %.400s", err, stderr.String())
			}
			ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			took = time.Duration(ns)
			return err
		},
		took:  func() time.Duration { return took },
		after: f.clear,
		close: func() {
			in.Close()
			_ = cmd.Wait() // it has said all it had to say
			f.close()
		},
	}, nil
}
