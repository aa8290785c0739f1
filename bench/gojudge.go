package main

import (
	"context"
	"encoding/json"
	"fmt"
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

// startJudge starts go-judge.
func (b *bench) startJudge(ctx context.Context) *lab.Service {
	installed(b.judge)
	var binds strings.Builder
	for source, target := range map[string]string{"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr",
		lab.Must(filepath.EvalSymlinks(b.packages())): baseInside + b.site, b.fonts(): fontsInside} {
		if _, err := os.Stat(source); err == nil {
			fmt.Fprintf(&binds, "  - {type: bind, source: %q, target: %s, readonly: true}\n", source, target)
		}
	}
	mounts, address := filepath.Join(b.scratch, "mount.yaml"), lab.Must(lab.FreeAddress())
	lab.Check(os.WriteFile(mounts, fmt.Appendf(nil, judgeMounts, binds.String()), 0o644))
	return b.await(ctx, lab.Must(lab.Start(address, nil, b.judge, "-http-addr", address, "-mount-conf", mounts, "-silent",
		"-pre-fork", "4")))
}

// goJudge runs a program there: inputs come with the request, outputs stay in its store, and are deleted between calls.
func goJudge(s *lab.Service, python string, p *program) lab.Contestant {
	return lab.Contestant{Name: nameJudge, Open: func(ctx context.Context) (lab.Call, func()) {
		c := newCaller(s.URL)
		run := map[string]any{
			"args": append([]string{python}, p.arguments()...), "env": environment(p, baseInside, fontsInside),
			"files":    []any{map[string]string{"content": ""}, collector("stdout"), collector("stderr")},
			"cpuLimit": time.Minute, "clockLimit": time.Minute, "memoryLimit": 1 << 30, "procLimit": 128,
		}
		if p.input != "" {
			run["copyIn"] = map[string]any{"main.py": map[string]string{"content": p.code},
				p.input: map[string]string{"content": string(p.data)}}
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
		}, c.close
	}}
}

func collector(name string) map[string]any { return map[string]any{"name": name, "max": mebibyte} }

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
