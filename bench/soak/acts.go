package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/airlock-run/airlock/client"
)

// acts is the mix: two honest ones to each hostile one.
var acts = []act{
	{"python", false, 16, honestPython},
	{"packages", false, 4, honestPackages},
	{"shell", false, 4, honestShell},
	{"javascript", false, 2, honestScript},
	{"file in, file out", false, 8, honestFiles},
	{"session", false, 3, honestSession},
	{"held session", false, 2, honestHeld},
	{"stream", false, 5, honestStream},
	{"background", false, 3, honestBackground},
	{"repeat", false, 2, honestRepeat},
	{"cancel", false, 2, honestCancel},
	{"many outputs", false, 1, honestOutputs},
	{"hostile program", true, 20, hostileProgram},
	{"hostile client", true, 6, hostileClient},
}

// wrong says what an honest client expected and what it got.
func wrong(want string, run *client.Run) error {
	return fmt.Errorf("wanted %.200q, got %s %.200q %.200q %s", want, run.Status, run.Stdout, run.Stderr, run.Message)
}

func expectOutput(run *client.Run, err error, want string) error {
	if err != nil {
		return err
	}
	if run.Status != client.StatusOK || run.Stdout != want {
		return wrong(want, run)
	}
	return nil
}

func honestPython(ctx context.Context, l *load, who tenant) error {
	n := rand.IntN(1000)
	run, err := l.execute(ctx, who, client.RunRequest{Language: "python", Code: fmt.Sprintf("print(sum(range(%d)))", n)})
	return expectOutput(run, err, fmt.Sprintln(n*(n-1)/2))
}

func honestPackages(ctx context.Context, l *load, who tenant) error {
	if !l.packages {
		return nil
	}
	n := 2 + rand.IntN(100)
	run, err := l.execute(ctx, who, client.RunRequest{Language: "python",
		Code: fmt.Sprintf("import numpy as np, pandas as pd\nprint(int(pd.Series(np.arange(%d)).sum()))", n)})
	return expectOutput(run, err, fmt.Sprintln(n*(n-1)/2))
}

func honestShell(ctx context.Context, l *load, who tenant) error {
	n := rand.IntN(1000)
	run, err := l.execute(ctx, who, client.RunRequest{Language: "bash", Code: fmt.Sprintf("seq %d | wc -l", n)})
	return expectOutput(run, err, fmt.Sprintln(n))
}

func honestScript(ctx context.Context, l *load, who tenant) error {
	if !l.node {
		return nil
	}
	run, err := l.execute(ctx, who, client.RunRequest{Language: "js", Code: "console.log([3, 1, 2].sort().join(','))"})
	return expectOutput(run, err, "1,2,3\n")
}

// honestFiles sends a file, has it turned round, and fetches the result.
func honestFiles(ctx context.Context, l *load, who tenant) error {
	content := bytes.Repeat([]byte{byte(rand.IntN(256)), byte(rand.IntN(256)), 'x'}, 1+rand.IntN(100_000))
	in, err := who.Upload(ctx, "in.bin", bytes.NewReader(content), 0)
	if err != nil {
		return err
	}
	run, err := l.execute(ctx, who, client.RunRequest{Language: "python", Files: []client.FileRef{{ID: in.ID}},
		Code: "data = open('in.bin', 'rb').read()\nopen('out.bin', 'wb').write(data[::-1])\nprint(len(data))"})
	if err := expectOutput(run, err, fmt.Sprintln(len(content))); err != nil {
		return err
	}
	if len(run.Files) != 1 {
		return wrong("one file", run)
	}
	var back bytes.Buffer
	if _, err := who.Download(ctx, run.Files[0].ID, &back); err != nil {
		return err
	}
	for i, b := range back.Bytes() {
		if b != content[len(content)-1-i] {
			return errors.New("a file came back with other bytes")
		}
	}
	if back.Len() != len(content) {
		return errors.New("a file came back with another length")
	}
	return errors.Join(who.DeleteFile(ctx, in.ID), who.DeleteFile(ctx, run.Files[0].ID))
}

func honestSession(ctx context.Context, l *load, who tenant) error {
	return inSession(ctx, l, who, client.KindFiles)
}
func honestHeld(ctx context.Context, l *load, who tenant) error {
	return inSession(ctx, l, who, client.KindHeld)
}

// inSession counts up in a file over several runs.
func inSession(ctx context.Context, l *load, who tenant, kind client.SessionKind) error {
	session, err := who.CreateSession(ctx, client.SessionRequest{
		Kind: kind, TTL: 10 * time.Minute, Limits: &client.Limits{WorkspaceBytes: 16 << 20}})
	if err != nil {
		if e, ok := errors.AsType[*client.Error](err); ok && kind == client.KindHeld && e.Status == 507 {
			return nil // the memory for those is used up: it says so
		}
		return err
	}
	for i := range 3 {
		run, err := l.execute(ctx, who, client.RunRequest{Language: "python", Session: session.ID,
			Code: "import os\nn = int(open('n').read()) if os.path.exists('n') else 0\nopen('n', 'w').write(str(n + 1))\n" +
				"print(n)"})
		if err := expectOutput(run, err, fmt.Sprintln(i)); err != nil {
			return errors.Join(err, who.DeleteSession(ctx, session.ID))
		}
	}
	if kind == "files" {
		var archive bytes.Buffer
		if err := who.Archive(ctx, session.ID, &archive); err != nil {
			return err
		}
		if !bytes.HasPrefix(archive.Bytes(), []byte("PK")) {
			return errors.New("the archive is none")
		}
	}
	return who.DeleteSession(ctx, session.ID)
}

// honestStream reads a program's events, and then reads them again.
func honestStream(ctx context.Context, l *load, who tenant) error {
	var live strings.Builder
	var last *client.Run
	for e, err := range who.Stream(ctx, client.RunRequest{Language: "python",
		Code: "for i in range(50): print('line', i)"}) {
		if err != nil {
			return err
		}
		live.WriteString(e.Data)
		last = e.Run
	}
	l.count()
	if last == nil || last.Status != client.StatusOK || live.String() != last.Stdout ||
		strings.Count(last.Stdout, "\n") != 50 {
		return fmt.Errorf("the stream gave %.200q and the result %+v", live.String(), last)
	}
	var again strings.Builder
	for e, err := range who.Events(ctx, last.ID, 0) {
		if err != nil {
			return err
		}
		again.WriteString(e.Data)
	}
	if again.String() != last.Stdout {
		return fmt.Errorf("read again it is %.200q", again.String())
	}
	return nil
}

func (l *load) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

func honestBackground(ctx context.Context, l *load, who tenant) error {
	run, err := who.Start(ctx, client.RunRequest{Language: "python", Code: "import time; time.sleep(0.05); print('done')"})
	if err != nil {
		return err
	}
	l.count()
	err = until(ctx, "a run in the background", func() bool {
		run, err = who.GetRun(ctx, run.ID)
		return err != nil || run.Status.Final()
	})
	if err != nil {
		return err
	}
	return expectOutput(run, err, "done\n")
}

func honestRepeat(ctx context.Context, l *load, who tenant) error {
	req := client.RunRequest{Language: "python", Code: "import time; print(time.time_ns())",
		IdempotencyKey: fmt.Sprint("soak-", rand.Uint64())}
	first, err := l.execute(ctx, who, req)
	if err != nil {
		return err
	}
	again, err := who.Run(ctx, req)
	if err == nil && (again.ID != first.ID || again.Stdout != first.Stdout) {
		return fmt.Errorf("a repeat ran again: %s, and %s", first.Stdout, again.Stdout)
	}
	return err
}

func honestCancel(ctx context.Context, l *load, who tenant) error {
	run, err := who.Start(ctx, client.RunRequest{Language: "python", Code: "import time; time.sleep(60)"})
	if err != nil {
		return err
	}
	l.count()
	if err := who.Cancel(ctx, run.ID); err != nil {
		return err
	}
	run, err = who.GetRun(ctx, run.ID)
	if err == nil && run.Status != client.StatusCancelled {
		return wrong("a cancelled run", run)
	}
	return err
}

func honestOutputs(ctx context.Context, l *load, who tenant) error {
	run, err := l.execute(ctx, who, client.RunRequest{Language: "python",
		Code: "import os\nfor i in range(50): open(f'f{i}', 'wb').write(os.urandom(500))"})
	if err := expectOutput(run, err, ""); err != nil {
		return err
	}
	if len(run.Files) != 50 {
		return wrong("50 files", run)
	}
	for _, f := range run.Files {
		err = errors.Join(err, who.DeleteFile(ctx, f.ID))
	}
	return err
}

// hostileProgram runs one of the hostile programs. Whatever it does, it must
// have ended in time, in one of the ways that there are.
func hostileProgram(ctx context.Context, l *load, who tenant) error {
	p := hostile[rand.IntN(len(hostile))]
	limit := time.Duration(300+rand.IntN(500)) * time.Millisecond
	run, err := l.execute(ctx, who, client.RunRequest{Language: p.language, Code: p.code, Timeout: limit,
		Limits: &client.Limits{MemoryBytes: 128 << 20, Processes: 32}})
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if !run.Status.Final() || run.Status == client.StatusInterrupted {
		return fmt.Errorf("%s: %w", p.name, wrong("an end", run))
	}
	if strings.Contains(run.Stdout, "HOST-") {
		return fmt.Errorf("%s got out: %.300q", p.name, run.Stdout)
	}
	var files error
	for _, f := range run.Files[:min(len(run.Files), 20)] {
		files = errors.Join(files, who.DeleteFile(ctx, f.ID))
	}
	return files
}
