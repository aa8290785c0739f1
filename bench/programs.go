package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// The names of those who run programs.
const (
	namePython   = "python3, cold"
	nameBwrap    = "bubblewrap, cold"
	nameJudge    = "go-judge"
	nameCold     = "airlock, cold"
	nameWarm     = "airlock, warm"
	nameFork     = "a bare fork"
	nameResident = "warm in process"
	nameByHand   = "by hand"
)

// program is what they run, with the file that it reads.
type program struct {
	name, code string
	input      string // name of the file beside the program; empty: none
	data       []byte // its content
	output     string // name of the file that the program leaves; empty: none
	stdout     string // how what it prints begins
	packages   bool   // it imports what Python does not come with

	language string // empty: Python
	entry    string // name of the program's file; empty: main.py
	image    string
	wall     string
	memory   int64 // limit in bytes; 0: the service's
}

const mebibyte = 1 << 20

var printing = program{name: "print(1)", code: "print(1)", stdout: "1\n"}

const plotting = "examples/plot.py"

// newPictures is added to the plot: a store that keeps contents once must not find the picture there.
const newPictures = "\nimport os\nwith open('plot.png', 'ab') as picture:\n    picture.write(os.urandom(16))\n"

// plotProgram reads a table of 2,000 rows, groups it, and draws it.
func plotProgram(root string) program {
	return program{name: plotting, input: "sales.csv", output: "plot.png", stdout: "sales.csv: 2,000 rows", packages: true,
		data: lab.Must(os.ReadFile(filepath.Join(root, "testdata", "sales.csv"))),
		code: string(lab.Must(os.ReadFile(filepath.Join(root, "examples", "plot.py")))) + newPictures}
}

// airlock runs a program over HTTP. Inputs are uploaded once, and outputs stay in the service's store, as they do for a
// client that hands on their addresses.
func airlock(name string, s *lab.Service, p *program) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(ctx context.Context) (lab.Call, func()) {
		c := newCaller(s.URL)
		body := map[string]any{"language": cmp.Or(p.language, "python"), "code": p.code}
		if p.image != "" {
			body["image"] = p.image
		}
		if p.wall != "" {
			body["wall"] = p.wall
		}
		if p.memory != 0 {
			body["limits"] = map[string]int64{"memory_bytes": p.memory}
		}
		if p.input != "" {
			var file made
			c.decode(ctx, "POST", filesPath+"?name="+url.QueryEscape(p.input), p.data, &file)
			body["files"] = []map[string]string{{"id": file.ID, "path": p.input}}
		}
		wanted := []string{`"status":"ok"`, `"stdout":"` + strings.ReplaceAll(p.stdout, "\n", `\n`)}
		if p.output != "" {
			wanted = append(wanted, `"path":"`+p.output+`"`)
		}
		return c.again("POST", runsPath, body, wanted...), c.close
	}}
}

// environment is what a program without our sandbox gets: what it would find inside ours. One that needs the packages
// finds them in the user's own site-packages below base, behind the standard library, where they cost the others
// nothing: PYTHONPATH would come first in every import and flatter us. MPLCONFIGDIR holds the list of fonts that
// matplotlib would else make first, for seconds.
func environment(p *program, base, fonts string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"}
	if !p.packages {
		return env
	}
	return append(env, "PYTHONUSERBASE="+base, "MPLBACKEND=Agg", "MPLCONFIGDIR="+fonts, "OPENBLAS_NUM_THREADS=1",
		"OMP_NUM_THREADS=1")
}

// Where a peer's container has the packages and the list of fonts.
const baseInside, fontsInside = "/packages", "/fonts"

// arguments are those of the interpreter.
func (p *program) arguments() []string {
	if p.input == "" {
		return []string{"-c", p.code}
	}
	return []string{"main.py"}
}

// folder makes a folder with a program and its input.
func (b *bench) folder(p *program) string {
	dir := lab.Must(os.MkdirTemp(b.scratch, "program-"))
	lab.Check(os.WriteFile(filepath.Join(dir, cmp.Or(p.entry, "main.py")), []byte(p.code), 0o644))
	if p.input != "" {
		lab.Check(os.WriteFile(filepath.Join(dir, p.input), p.data, 0o644))
	}
	return dir
}

// process starts a process for each call.
func (b *bench) process(name string, p *program, env []string, argv func(dir string) []string) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(context.Context) (lab.Call, func()) {
		dir := b.folder(p)
		return func(ctx context.Context) (time.Duration, error) {
			words := argv(dir)
			cmd := exec.CommandContext(ctx, words[0], words[1:]...)
			var stdout, stderr bytes.Buffer
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
			began := time.Now()
			err := cmd.Run()
			took := time.Since(began)
			switch {
			case err != nil:
				return 0, fmt.Errorf("%w: %.400s", err, &stderr)
			case !strings.HasPrefix(stdout.String(), p.stdout):
				return 0, fmt.Errorf("it printed %.400q", &stdout)
			case p.output != "":
				err = os.Remove(filepath.Join(dir, p.output)) // the next one makes its own
			}
			return took, err
		}, func() { os.RemoveAll(dir) }
	}}
}

// coldPython is the interpreter alone: no sandbox, no service, nothing.
func (b *bench) coldPython(p *program) lab.Contestant {
	return b.process(namePython, p, environment(p, b.base(), b.fonts()), func(string) []string {
		return append([]string{b.python}, p.arguments()...)
	})
}

// peers are those with a sandbox of their own that are installed. The results say why one is missing.
func (b *bench) peers(ctx context.Context, p *program) (list []lab.Contestant) {
	if bwrap, err := exec.LookPath("bwrap"); err != nil {
		b.Missing(nameBwrap, errors.New("it is not installed"))
	} else { // it limits neither memory nor processes, and filters no system calls
		list = append(list, b.process(nameBwrap, p, environment(p, baseInside, fontsInside), func(dir string) []string {
			return append([]string{bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr",
				"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
				"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", b.packages(), baseInside + b.site,
				"--ro-bind", b.fonts(), fontsInside, "--bind", dir, "/workspace", "--chdir", "/workspace", b.python},
				p.arguments()...)
		}))
	}
	if err := lab.Try(func() {
		s := b.kept(&b.peer, func() *lab.Service { return b.startJudge(ctx) })
		list = append(list, goJudge(s, b.python, p))
	}); err != nil {
		b.Missing(nameJudge, err)
	}
	return list
}

//go:embed floor.py
var floorProgram string

// floor is an interpreter that forks for each request over HTTP, and what stops it.
func (b *bench) floor(ctx context.Context, p *program) (fork lab.Contestant, stop func()) {
	dir, address := b.folder(p), lab.Must(lab.FreeAddress())
	server := filepath.Join(dir, "floor.py")
	lab.Check(os.WriteFile(server, []byte(floorProgram), 0o644))
	_, port, _ := net.SplitHostPort(address)
	s := b.await(ctx, lab.Must(lab.Start(address, environment(p, b.base(), b.fonts()), "/usr/bin/env", "-C", dir, b.python,
		server, port, "main.py")))
	return lab.Contestant{Name: nameFork, Open: func(context.Context) (lab.Call, func()) {
		c := newCaller(s.URL)
		return c.again("GET", "/", nil, p.stdout), c.close
	}}, s.Kill
}

//go:embed resident.py
var residentProgram string

// resident is a Python that has imported everything and runs the same script again, by its own clock.
func (b *bench) resident(p *program) lab.Contestant {
	return lab.Contestant{Name: nameResident, Open: func(ctx context.Context) (lab.Call, func()) {
		cmd := exec.CommandContext(ctx, b.python, "-c", residentProgram, "main.py", p.stdout)
		cmd.Dir, cmd.Env, cmd.Stderr = b.folder(p), environment(p, b.base(), b.fonts()), os.Stderr
		in, out := lab.Must(cmd.StdinPipe()), lab.Must(cmd.StdoutPipe())
		lines := bufio.NewReader(out)
		lab.Check(cmd.Start())
		return func(context.Context) (time.Duration, error) {
			if _, err := io.WriteString(in, "\n"); err != nil {
				return 0, err
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				return 0, err
			}
			ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			return time.Duration(ns), err
		}, func() { in.Close(); _ = cmd.Wait() } // it has said all it had to say
	}}
}

// measurePrograms measures one program at a time, after a rest, with everybody in turn.
func (b *bench) measurePrograms(ctx context.Context) {
	s := b.service(ctx)
	cold := b.kept(&b.cold, func() *lab.Service { return b.serve(ctx, b.data(), nil, "--warm=false") })
	for _, p := range []*program{&printing, &b.plot} {
		fork, stop := b.floor(ctx, p)
		everybody := []lab.Contestant{fork, airlock(nameWarm, s, p), b.coldPython(p), b.resident(p),
			airlock(nameCold, cold, p)}
		rounds := b.full(10, 4)
		if p == &printing {
			everybody, rounds = slices.Delete(everybody, 3, 4), b.full(200, 25) // in process nothing is measured
		}
		took := b.compare(ctx, p.name, rounds, append(everybody, b.peers(ctx, p)...)...)
		stop()
		if p == &printing {
			b.Goal("print(1) over HTTP against a bare fork over HTTP", "x", 4, 3, took[1]/took[0])
		} else {
			b.Goal("examples/plot.py over HTTP against the same in process", "x", 1.15, 1.1, took[1]/took[3])
		}
	}
}

// spoken are the least programs of other languages, and what one would type to run them. No interpreter here reads
// TypeScript, so Airlock is compared with Node.js and the program as JavaScript: the translation is on top.
var spoken = []struct {
	program
	must, aim float64
	command   string
}{
	{program{name: "console.log(1)", language: "js", entry: "main.js", code: "console.log(1)", stdout: "1\n"}, 0.2, 0.1,
		"node main.js"},
	{program{name: "TypeScript", language: "ts", entry: "main.js", code: "console.log(1)", stdout: "1\n"}, 0.2, 0.1,
		"node main.js"},
	{program{name: "echo", language: "bash", entry: "main.sh", code: "echo 1", stdout: "1\n"}, 1.5, 1.2, "bash main.sh"},
	{program{name: "C", language: "c", entry: "main.c", stdout: "hello\n",
		code: "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"}, 1.15, 1.05,
		"gcc -std=gnu17 -O1 -g -o main main.c -lm -pthread && ./main"},
}

func (b *bench) measureLanguages(ctx context.Context) {
	s := b.service(ctx)
	for i := range spoken {
		one := &spoken[i]
		argv := []string{"/bin/sh", "-c", one.command}
		if !strings.Contains(one.command, "&&") {
			argv = append([]string{"/usr/bin/env"}, strings.Fields(one.command)...)
		}
		byHand := b.process(nameByHand, &one.program, environment(&one.program, "", ""),
			func(string) []string { return argv })
		took := b.compare(ctx, one.name, b.full(100, 20), byHand, airlock(nameWarm, s, &one.program))
		b.Goal(one.name+" over HTTP against "+one.command, "x", one.must, one.aim, took[1]/took[0])
	}
}
