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

	"github.com/airlock-run/airlock/bench/lab"
)

// go-judge is the peer nearest to us: a service over HTTP that runs programs in containers of its own, which it makes
// beforehand. It starts a cold interpreter in them, as many at once as there are cores.

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
func (b *bench) startJudge(ctx context.Context) (*lab.Service, error) {
	if _, err := os.Stat(b.judge); err != nil {
		return nil, errors.New("it is not installed")
	}
	packages, err := filepath.EvalSymlinks(b.packages())
	if err != nil {
		return nil, err
	}
	var binds strings.Builder
	for source, target := range map[string]string{"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr",
		packages: baseInside + b.site, b.fonts(): fontsInside} {
		if _, err := os.Stat(source); err == nil {
			fmt.Fprintf(&binds, "  - {type: bind, source: %q, target: %s, readonly: true}\n", source, target)
		}
	}
	mounts := filepath.Join(b.scratch, "mount.yaml")
	if err := os.WriteFile(mounts, fmt.Appendf(nil, judgeMounts, binds.String()), 0o644); err != nil {
		return nil, err
	}
	address, err := lab.FreeAddress()
	if err != nil {
		return nil, err
	}
	s, err := lab.Start(address, nil, b.judge, "-http-addr", address, "-mount-conf", mounts, "-silent", "-pre-fork", "4")
	if err != nil {
		return nil, err
	}
	return s, s.Await(ctx)
}

// goJudge runs a program there: inputs are uploaded once, outputs stay in its store, and are deleted between calls.
func (b *bench) goJudge(p *program) contestant {
	return contestant{nameJudge, func(ctx context.Context) (call, func(), error) {
		c := newCaller(b.peer.URL)
		run := map[string]any{
			"args": append([]string{b.python}, p.arguments()...), "env": environment(p, baseInside, fontsInside),
			"files":    []any{map[string]string{"content": ""}, collector("stdout"), collector("stderr")},
			"cpuLimit": time.Minute, "clockLimit": time.Minute, "memoryLimit": 1 << 30, "procLimit": 128,
		}
		if p.input != "" {
			id, err := upload(ctx, c, p)
			if err != nil {
				return nil, nil, err
			}
			run["copyIn"] = map[string]any{"main.py": map[string]string{"content": p.code},
				p.input: map[string]string{"fileId": id}}
		}
		if p.output != "" {
			run["copyOutCached"] = []string{p.output}
		}
		body := map[string]any{"cmd": []any{run}}
		return func(ctx context.Context) (time.Duration, error) {
			took, err := c.do(ctx, "POST", "/run", body)
			if err != nil {
				return 0, err
			}
			kept, err := judged(c.body, p)
			if err == nil && kept != "" {
				_, err = c.do(ctx, "DELETE", "/file/"+kept, nil)
			}
			return took, err
		}, c.close, nil
	}}
}

func collector(name string) map[string]any { return map[string]any{"name": name, "max": mebibyte} }

// upload returns the id of a program's input.
func upload(ctx context.Context, c *caller, p *program) (id string, err error) {
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	part, err := writer.CreateFormFile("file", p.input)
	if err != nil {
		return "", err
	}
	_, err = part.Write(p.data)
	if err = errors.Join(err, writer.Close()); err != nil {
		return "", err
	}
	c.header["Content-Type"] = writer.FormDataContentType()
	defer delete(c.header, "Content-Type")
	_, err = c.decode(ctx, "POST", "/file", form.Bytes(), &id)
	return id, err
}

// judged checks an answer, and returns the id of the file that the program left.
func judged(body []byte, p *program) (kept string, err error) {
	var all []struct {
		Status  string
		Files   map[string]string
		FileIDs map[string]string `json:"fileIds"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return "", err
	}
	if len(all) != 1 || all[0].Status != "Accepted" || !strings.HasPrefix(all[0].Files["stdout"], p.stdout) ||
		p.output != "" && all[0].FileIDs[p.output] == "" {
		return "", fmt.Errorf("its answer: %.400s", body)
	}
	return all[0].FileIDs[p.output], nil
}
