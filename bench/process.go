package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// environment is what a program without our sandbox gets: what it would find
// inside ours. One that needs the packages finds them in the user's own
// site-packages below base, behind the standard library, where they cost the
// others nothing: PYTHONPATH would come first in every import and flatter us.
// MPLCONFIGDIR holds the list of fonts that matplotlib would else make first,
// for seconds.
func environment(w *workload, base, fonts string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"}
	if !w.packages {
		return env
	}
	return append(env, "PYTHONUSERBASE="+base, "MPLBACKEND=Agg", "MPLCONFIGDIR="+fonts, "OPENBLAS_NUM_THREADS=1",
		"OMP_NUM_THREADS=1")
}

// Where a peer's container has the packages and the list of fonts.
const (
	baseInside  = "/packages"
	fontsInside = "/fonts"
)

// python is the interpreter alone: no sandbox, no service, nothing.
func (b *bench) python() contestant {
	return contestant{name: namePython, open: func(_ context.Context, w *workload) (*client, error) {
		return b.coldClient(w, func(string) *exec.Cmd {
			cmd := exec.Command(b.options.python, argumentsFor(w)...)
			cmd.Env = environment(w, b.base(), b.fonts())
			return cmd
		})
	}}
}

// bwrap is the interpreter in a sandbox that bubblewrap makes for each run.
// It limits neither memory nor processes and filters no system calls.
func (b *bench) bwrap() contestant {
	return contestant{name: nameBwrap, open: func(_ context.Context, w *workload) (*client, error) {
		return b.coldClient(w, func(dir string) *exec.Cmd {
			argv := []string{
				"--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr",
				"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
				"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", b.packages(), baseInside + b.site,
				"--ro-bind", b.fonts(), fontsInside, "--bind", dir, "/workspace", "--chdir", "/workspace", b.options.python,
			}
			cmd := exec.Command(b.options.bwrap, append(argv, argumentsFor(w)...)...)
			cmd.Env = environment(w, baseInside, fontsInside)
			return cmd
		})
	}}
}

const programName = "main.py"

func argumentsFor(w *workload) []string {
	if w.input == "" {
		return []string{"-c", w.code}
	}
	return []string{programName}
}

// folder is where a program runs that has no sandbox: the program, its input,
// and what it leaves.
type folder struct {
	dir    string
	output string // what the workload leaves; empty: nothing
}

func (b *bench) newFolder(w *workload) (*folder, error) {
	dir, err := os.MkdirTemp(b.scratch, "cold-")
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	if w.output != "" {
		f.output = filepath.Join(dir, w.output)
	}
	if err := os.WriteFile(filepath.Join(dir, cmp.Or(w.entry, programName)), []byte(w.code), 0o644); err != nil {
		return nil, err
	}
	if w.input == "" {
		return f, nil
	}
	return f, os.WriteFile(filepath.Join(dir, w.input), w.data, 0o644)
}

// clear takes the output away: the next must make its own, and a program that
// made none has failed.
func (f *folder) clear() error {
	if f.output == "" {
		return nil
	}
	return os.Remove(f.output)
}

func (f *folder) close() { os.RemoveAll(f.dir) }

// coldClient starts a process for each attempt.
func (b *bench) coldClient(w *workload, command func(dir string) *exec.Cmd) (*client, error) {
	f, err := b.newFolder(w)
	if err != nil {
		return nil, err
	}
	return &client{
		attempt: func(context.Context) error {
			var stdout, stderr bytes.Buffer
			cmd := command(f.dir)
			cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, &stdout, &stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%w: %.400s", err, stderr.String())
			}
			if !strings.HasPrefix(stdout.String(), w.stdout) {
				return fmt.Errorf("it printed %.400q", stdout.String())
			}
			return nil
		},
		after: f.clear,
		close: f.close,
	}, nil
}

// packages is the folder of the Python packages.
func (b *bench) packages() string { return filepath.Join(b.options.runtimes, "python", "lib") }

// base is a folder that has them where Python looks for a user's own.
func (b *bench) base() string { return filepath.Join(b.scratch, "base") }

// fonts is our copy of the font list's folder: matplotlib writes beside it.
func (b *bench) fonts() string { return filepath.Join(b.scratch, "matplotlib") }
