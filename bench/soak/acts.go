package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// act is something that a client does. An error is a fault of the service.
type act struct {
	name              string
	weight            int
	hostile, optional bool // optional: it needs what airlock setup installs, or Node
	do                deed
}

type deed = func(ctx context.Context, l *load, who tenant) error

// acts is the mix: two honest ones to each hostile one.
var acts = []act{
	{"python", 16, false, false, program("python", "print(sum(range(%d)))", sum, 0)},
	{"packages", 4, false, true, program("python",
		"import numpy as np, pandas as pd\nprint(int(pd.Series(np.arange(%d)).sum()))", sum, 0)},
	{"shell", 4, false, false, program("bash", "seq %d | wc -l", same, 0)},
	{"javascript", 2, false, true, program("js", "console.log([1e9, %d].sort((a, b) => a - b)[0])", same, 0)},
	{"many outputs", 1, false, false, program("python",
		"import os\nfor i in range(50): open(f'f{i}', 'wb').write(os.urandom(500))\nprint(%d)", same, 50)},
	{"file in, file out", 8, false, false, useFiles},
	{"session", 3, false, false, inSession(client.KindFiles)},
	{"held session", 2, false, false, inSession(client.KindHeld)},
	{"stream", 5, false, false, stream},
	{"background", 3, false, false, inBackground("import time; time.sleep(0.05)", client.StatusOK)},
	{"cancel", 2, false, false, inBackground("import time; time.sleep(60)", client.StatusCancelled)},
	{"tools", 4, false, true, callTools},
	{"hostile program", 20, true, false, hostileProgram},
	{"hostile client", 6, true, false, hostileClient},
	{"hostile preview", 1, true, false, hostilePreview},
}

func sum(n int) int  { return n * (n - 1) / 2 }
func same(n int) int { return n }

func python(code string) client.RunRequest { return client.RunRequest{Language: "python", Code: code} }

// expectOutput says what an honest client expected, if it got something else. Less than 0 files are any number.
func expectOutput(run *client.Run, err error, want string, files int) error {
	if err == nil && (run.Status != client.StatusOK || run.Stdout != want || files >= 0 && len(run.Files) != files) {
		err = fmt.Errorf("wanted %.200q and %d files, got %s", want, files, describe(run))
	}
	return err
}

func describe(run *client.Run) string {
	return fmt.Sprintf("%s %.200q %.200q %s, %d files", run.Status, run.Stdout, run.Stderr, run.Message, len(run.Files))
}

func deleteFiles(ctx context.Context, who tenant, files []client.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, who.DeleteFile(ctx, f.ID))
	}
	return err
}

// program runs a program of a number, and knows its answer and how many files it leaves.
func program(language, code string, answer func(int) int, files int) deed {
	return func(ctx context.Context, l *load, who tenant) error {
		n := 1 + rand.IntN(1000)
		run, err := l.execute(ctx, who, client.RunRequest{Language: language, Code: fmt.Sprintf(code, n)})
		if err := expectOutput(run, err, fmt.Sprintln(answer(n)), files); err != nil {
			return err
		}
		return deleteFiles(ctx, who, run.Files)
	}
}

// useFiles sends a file, has it turned round, and fetches the result.
func useFiles(ctx context.Context, l *load, who tenant) error {
	content := bytes.Repeat([]byte{byte(rand.IntN(256)), byte(rand.IntN(256)), 'x'}, 1+rand.IntN(100_000))
	in, err := who.Upload(ctx, "in.bin", bytes.NewReader(content), 0)
	if err != nil {
		return err
	}
	req := python("data = open('in.bin', 'rb').read()\nopen('out.bin', 'wb').write(data[::-1])\nprint(len(data))")
	req.Files = []client.FileRef{{ID: in.ID}}
	run, err := l.execute(ctx, who, req)
	if err := expectOutput(run, err, fmt.Sprintln(len(content)), 1); err != nil {
		return err
	}
	var back bytes.Buffer
	if _, err := who.Download(ctx, run.Files[0].ID, &back); err != nil {
		return err
	}
	if slices.Reverse(content); !bytes.Equal(back.Bytes(), content) {
		return fmt.Errorf("a file of %d bytes came back as other %d", len(content), back.Len())
	}
	return deleteFiles(ctx, who, append(run.Files, *in))
}

// inSession counts up in a file over several runs.
func inSession(kind client.SessionKind) deed {
	return func(ctx context.Context, l *load, who tenant) (err error) {
		session, err := who.CreateSession(ctx, client.SessionRequest{
			Kind: kind, TTL: 10 * time.Minute, Limits: &client.Limits{WorkspaceBytes: 16 << 20}})
		if e, ok := errors.AsType[*client.Error](err); ok && kind == client.KindHeld && e.Status == 507 {
			return nil // the memory for those is used up: it says so
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, who.DeleteSession(ctx, session.ID)) }()
		req := python("import os\nprint(os.path.getsize('n') if os.path.exists('n') else 0)\nopen('n', 'a').write('x')")
		req.Session = session.ID
		for i := range 3 {
			run, err := l.execute(ctx, who, req)
			if err := expectOutput(run, err, fmt.Sprintln(i), -1); err != nil {
				return err
			}
		}
		var archive bytes.Buffer
		if kind == client.KindFiles {
			err = who.Archive(ctx, session.ID, &archive)
			if err == nil && !bytes.HasPrefix(archive.Bytes(), []byte("PK")) {
				err = errors.New("the archive is none")
			}
		}
		return err
	}
}

// stream reads a program's events.
func stream(ctx context.Context, l *load, who tenant) error {
	text, run := "", &client.Run{}
	for e, err := range who.Stream(ctx, python("for i in range(50): print('line', i)")) {
		if err != nil {
			return err
		}
		if text += e.Data; e.Run != nil {
			run = e.Run
		}
	}
	l.ended.Add(1)
	if run.Status != client.StatusOK || strings.Count(text, "\n") != 50 || text != run.Stdout {
		return fmt.Errorf("the stream gave %.200q, and the result %s", text, describe(run))
	}
	return nil
}

// inBackground starts a program, and cancels it if that is how it should end.
func inBackground(code string, end client.Status) deed {
	return func(ctx context.Context, l *load, who tenant) error {
		run, err := who.Start(ctx, python(code))
		if err != nil {
			return err
		}
		l.ended.Add(1)
		id := run.ID
		if end == client.StatusCancelled {
			err = who.Cancel(ctx, id)
		}
		for err == nil && !run.Status.Final() {
			lab.Pause(ctx, 10*time.Millisecond)
			run, err = who.GetRun(ctx, id)
		}
		if err == nil && run.Status != end {
			err = fmt.Errorf("wanted %s, got %s", end, describe(run))
		}
		return err
	}
}

// callTools runs a program to its end, and answers its calls, one after the other and together. Half of the programs
// plot, so that a sandbox may have waited for them that has plotted.
func callTools(ctx context.Context, l *load, who tenant) error {
	const code = `import matplotlib.pyplot as plt
one = await add(x=1)
more = await asyncio.gather(*[add(x=one + i) for i in range(4)])
if %d:
    plt.plot(more)
    plt.savefig("plot.png")
print(one, more)`
	plots := rand.IntN(2)
	body := fmt.Sprintf(`{"code":%q,"tools":[{"name":"add","parameters":{"properties":{"x":{}},"required":["x"]}}]}`,
		fmt.Sprintf(code, plots))
	for {
		text, err := l.service.do(ctx, http.MethodPost, "/librechat/exec/programmatic", who.key, strings.NewReader(body))
		if err != nil {
			return err
		}
		answer := gjson.Parse(text)
		files := answer.Get("files.#.id").Array()
		switch answer.Get("status").Str {
		case "tool_call_required":
			var results []string
			for _, c := range answer.Get("tool_calls").Array() {
				results = append(results, fmt.Sprintf(`{"call_id":%q,"result":%d}`, c.Get("id").Str, c.Get("input.x").Int()+1))
			}
			body = fmt.Sprintf(`{"continuation_token":%q,"tool_results":[%s]}`, answer.Get("continuation_token").Str,
				strings.Join(results, ","))
			continue
		case "completed":
			l.ended.Add(1)
			for _, id := range files {
				err = errors.Join(err, who.DeleteFile(ctx, id.Str))
			}
		}
		if answer.Get("stdout").Str != "2 [3, 4, 5, 6]\n" || len(files) != plots {
			err = errors.Join(err, fmt.Errorf("a program that calls tools: %.500s", text))
		}
		return err
	}
}
