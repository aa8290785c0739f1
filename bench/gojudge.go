package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// go-judge is the peer nearest to us: a service over HTTP that runs programs
// in containers of its own, which it makes beforehand. It starts a cold
// interpreter in them. It is given as many of them at once as it takes by
// itself, one for each core.

// judgeMounts is the file system of its containers, the same as that of Airlock's sandboxes.
const judgeMounts = `mount:
%s  - {type: bind, source: /dev/null, target: /dev/null}
  - {type: bind, source: /dev/urandom, target: /dev/urandom}
  - {type: tmpfs, target: /w, data: "size=512m,nr_inodes=10k"}
  - {type: tmpfs, target: /tmp, data: "size=64m,nr_inodes=10k"}
proc: true
workDir: /w
hostName: judge
domainName: judge
uid: 1536
gid: 1536
`

// startJudge starts go-judge, or says why there is none.
func (b *bench) startJudge(ctx context.Context) (*server, error) {
	if _, err := os.Stat(b.options.judge); err != nil {
		return nil, errors.New("it is not installed")
	}
	var binds strings.Builder
	bind := func(source, target string) {
		if _, err := os.Stat(source); err == nil {
			fmt.Fprintf(&binds, "  - {type: bind, source: %q, target: %s, readonly: true}\n", source, target)
		}
	}
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		bind(dir, dir)
	}
	packages, err := filepath.EvalSymlinks(b.packages())
	if err != nil {
		return nil, err
	}
	bind(packages, baseInside+b.site)
	bind(b.fonts(), fontsInside)
	mounts := filepath.Join(b.scratch, "mount.yaml")
	if err := os.WriteFile(mounts, fmt.Appendf(nil, judgeMounts, binds.String()), 0o644); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s, err := startServer(address, nil, b.options.judge, "-http-addr", address, "-mount-conf", mounts, "-silent",
		"-pre-fork", "4")
	return s.awaited(ctx, err)
}

// judgeRun is one program in the terms of its API.
type judgeRun struct {
	Args          []string             `json:"args"`
	Env           []string             `json:"env"`
	Files         []any                `json:"files"`
	CPULimit      time.Duration        `json:"cpuLimit"`
	ClockLimit    time.Duration        `json:"clockLimit"`
	MemoryLimit   int                  `json:"memoryLimit"`
	ProcLimit     int                  `json:"procLimit"`
	CopyIn        map[string]judgeFile `json:"copyIn,omitempty"`
	CopyOutCached []string             `json:"copyOutCached,omitempty"`
}

type judgeFile struct {
	Content *string `json:"content,omitempty"`
	FileID  string  `json:"fileId,omitempty"`
}

type judgeCollector struct {
	Name string `json:"name"`
	Max  int    `json:"max"`
}

type judgeResult struct {
	Status  string
	Error   string
	Files   map[string]string
	FileIDs map[string]string `json:"fileIds"`
}

// goJudge is the peer as a contestant: inputs are uploaded once, outputs stay
// in its store, and are deleted there between attempts.
func goJudge(s *server, python string) contestant {
	return contestant{name: nameJudge, open: func(_ context.Context, w *workload) (*client, error) {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		request, err := c.judgeRequest(s.address, python, w)
		if err != nil {
			c.close()
			return nil, err
		}
		var kept string
		return &client{
			close: c.close,
			attempt: func(context.Context) (err error) {
				if err := c.do(request); err != nil {
					return err
				}
				kept, err = readJudgeAnswer(c.body, w)
				return err
			},
			after: func() error {
				if kept == "" {
					return nil
				}
				return c.do(newRequest("DELETE", "/file/"+kept, s.address, nil))
			},
		}, nil
	}}
}

func (c *connection) judgeRequest(host, python string, w *workload) ([]byte, error) {
	empty := ""
	run := judgeRun{
		Args: append([]string{python}, argumentsFor(w)...), Env: environment(w, baseInside, fontsInside),
		Files:    []any{judgeFile{Content: &empty}, judgeCollector{"stdout", mebibyte}, judgeCollector{"stderr", mebibyte}},
		CPULimit: time.Minute, ClockLimit: time.Minute, MemoryLimit: 1 << 30, ProcLimit: 128,
	}
	if w.input != "" {
		id, err := c.judgeUpload(host, w)
		if err != nil {
			return nil, err
		}
		run.CopyIn = map[string]judgeFile{programName: {Content: &w.code}, w.input: {FileID: id}}
	}
	if w.output != "" {
		run.CopyOutCached = []string{w.output}
	}
	body, err := json.Marshal(map[string]any{"cmd": []judgeRun{run}})
	return newRequest("POST", "/run", host, body, asJSON), err
}

func (c *connection) judgeUpload(host string, w *workload) (id string, err error) {
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	part, err := writer.CreateFormFile("file", w.input)
	if err != nil {
		return "", err
	}
	if _, err := part.Write(w.data); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	if err := c.do(newRequest("POST", "/file", host, form.Bytes(),
		"Content-Type: "+writer.FormDataContentType())); err != nil {
		return "", err
	}
	err = json.Unmarshal(c.body, &id)
	return id, err
}

// readJudgeAnswer checks an answer and returns the id of the file that the
// program left.
func readJudgeAnswer(body []byte, w *workload) (kept string, err error) {
	var results []judgeResult
	if err := json.Unmarshal(body, &results); err != nil {
		return "", err
	}
	if len(results) != 1 || results[0].Status != "Accepted" || !strings.HasPrefix(results[0].Files["stdout"], w.stdout) {
		return "", fmt.Errorf("its answer: %.400s", body)
	}
	if kept = results[0].FileIDs[w.output]; kept == "" && w.output != "" {
		return "", fmt.Errorf("%s is not among the outputs: %.400s", w.output, body)
	}
	return kept, nil
}
