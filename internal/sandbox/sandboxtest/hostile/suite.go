package hostile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Backend is a sandbox under attack.
type Backend struct {
	// Open starts the sandbox. The suite closes it.
	Open func(t *testing.T) engine.Sandbox
	// Strays lists remaining processes of programs whose runs have ended.
	Strays func(t *testing.T) []string
	// Groups is set if control groups limit the programs.
	Groups bool
	// Warm is set if Python and JavaScript programs start in waiting sandboxes. Attacks
	// that do not depend on that are skipped.
	Warm bool
	// Cell runs a program as a cell of a live session, which it creates and deletes. If
	// Cell is nil, programs run as programs.
	Cell func(t *testing.T, spec *engine.Spec) sandboxtest.Result
	// Image is set if programs run in an image, which has no Node.
	Image bool
	// Kernel is set if each program has a kernel of its own. What is about a shared one is left out: it
	// would be told of doors that lead nowhere, or of an end that is the sandbox's.
	Kernel bool
}

// Suite runs every program on a backend.
func Suite(t *testing.T, b Backend) {
	w := newWorld(t)
	a := &arena{world: w, backend: b, sandbox: b.Open(t)}
	t.Cleanup(func() {
		if err := a.sandbox.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	a.plain = a.look(t)
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{}
	for _, p := range all {
		if !slices.Contains(kinds, p.kind) {
			kinds = append(kinds, p.kind)
		}
	}
	for _, kind := range kinds {
		a.leaveSecrets(t)
		t.Run(kind, func(t *testing.T) {
			for _, p := range all {
				if p.kind == kind && a.fits(p) {
					t.Run(p.name, func(t *testing.T) { a.fight(t, p) })
				}
			}
		})
		a.wantNoStrays(t, kind)
		a.wantPlain(t, "after all of "+kind)
	}
	if b.Cell == nil {
		t.Run("held", a.fightInHeld)
	}
}

// arena holds the state of a suite's run.
type arena struct {
	world   *world
	backend Backend
	sandbox engine.Sandbox
	plain   string // output of an honest program before all others
}

func (a *arena) fits(p *program) bool {
	p.counted, p.limited = a.backend.Groups, a.backend.Kernel
	if a.backend.Cell != nil {
		p.ends = cmp.Or(p.inCell, p.ends)
	}
	switch {
	case !p.runnable(), p.needs == "groups" && !a.backend.Groups, a.backend.Image && (p.machine || p.is(".js")),
		a.backend.Kernel && p.shared:
		return false
	case a.backend.Warm:
		return p.is(".py") || p.is(".js") || p.is(".c") && !slices.Contains(alike, p.kind)
	}
	return true
}

// alike are the kinds of C programs that behave alike on both paths: after execve only
// the process of the interpreter remains.
var alike = []string{"bombs", "network", "others"}

// fight runs one program and judges it.
func (a *arena) fight(t *testing.T, p *program) {
	// Without control groups, programs that keep others from the processor also delay
	// each other's ends.
	if a.backend.Groups || p.kind != "deadline" {
		t.Parallel()
	}
	if _, err := os.Stat(interpreters[".js"]); err != nil && p.is(".js") {
		sandboxtest.Skip(t, "needs node: run airlock setup")
	}
	a.duel(t, p)
	if p.next {
		a.wantPlain(t, "after "+p.label())
	}
}

// duel is a fight that gives a program more time if a busy machine left it none.
func (a *arena) duel(t *testing.T, p *program) {
	launcher, run := "bash", func(t *testing.T, spec *engine.Spec) sandboxtest.Result {
		return sandboxtest.Run(t, a.sandbox, spec)
	}
	switch {
	case a.backend.Warm:
		launcher = "python"
	case a.backend.Cell != nil:
		launcher, run = "cell", a.backend.Cell
	}
	nonce := engine.NewID().String()
	spec := p.spec(t, a.world, nonce, launcher)
	look := looks[p.label()]
	if a.backend.Cell != nil {
		p.adapt(t, spec)
		if inCell := looksInCell[p.label()]; inCell != nil {
			look = inCell
		}
	}
	begin := time.Now()
	r := run(t, spec)
	took := time.Since(begin)
	if r.TimedOut {
		t.Logf("answered %v after its limit", (took - p.timeout).Round(time.Millisecond))
	}
	if r.TimedOut && p.timeout < sandboxtest.Slowed(20*time.Second) && len(readClaims(r.Stdout, nonce).tried) == 0 {
		longer := *p
		longer.timeout *= 4
		a.duel(t, &longer)
		return
	}
	faults := p.judge(a.world, nonce, r, spec.Limits, took)
	if look != nil {
		faults = append(faults, look(r)...)
	}
	if len(faults) > 0 {
		t.Errorf("%s\nexit code %d, signal %q\nstdout: %.3000s\nstderr: %.3000s", strings.Join(faults, "\n"), r.Code(),
			r.Signal, r.Stdout, r.Stderr)
	}
}

// fightInHeld lets a program corrupt a held workspace. The next program must still find
// its code and its inputs.
func (a *arena) fightInHeld(t *testing.T) {
	id, limits := engine.NewID(), sandboxtest.Limits()
	if err := a.sandbox.Hold(t.Context(), id, 0, "", nil, limits); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.sandbox.Release(t.Context(), id, 0); err != nil {
			t.Error(err)
		}
	}()
	for name, spoil := range map[string]string{
		"a folder in place of the code": "os.remove('main.py'); os.makedirs('main.py/' + '/'.join('d' * 100)); " +
			"open('main.py/.1', 'w').close()",
		"a link in place of the code": "os.remove('main.py'); os.symlink('/etc/passwd', 'main.py')",
		"a pipe in place of the code": "os.remove('main.py'); os.mkfifo('main.py')",
		"a link in place of a folder": "shutil.rmtree('data', True); os.symlink('/tmp', 'data')",
		"a file in place of a folder": "shutil.rmtree('data', True) if not os.path.islink('data') else " +
			"os.remove('data'); open('data', 'w').close()",
		"closed folders": "os.chmod('main.py', 0); os.makedirs('data', exist_ok=True) if not " +
			"os.path.lexists('data') else None; os.chmod('/workspace', 0)",
		"deep folders": "os.remove('main.py'); os.mkdir('main.py'); os.chdir('main.py'); [(os.mkdir('d'), " +
			"os.chdir('d')) for i in range(600)]",
	} {
		t.Run(name, func(t *testing.T) {
			for _, code := range []string{"import os, shutil\n" + spoil,
				"print(open('data/in.txt').read(), open('main.py').readable())"} {
				spec := sandboxtest.Python(code)
				spec.Held = id
				spec.Inputs = []engine.Input{sandboxtest.Input(t, "data/in.txt", given)}
				r := sandboxtest.Run(t, a.sandbox, spec)
				if want := given + " True\n"; r.Code() != 0 || strings.HasPrefix(code, "print") && r.Stdout != want {
					t.Errorf("exit code %d\n%s%s", r.Code(), r.Stdout, r.Stderr)
				}
			}
		})
	}
}

// leaveSecrets runs the target of the following programs: the last caller, with the
// secret in every place that a caller has.
func (a *arena) leaveSecrets(t *testing.T) {
	t.Helper()
	secret := a.world.secret
	for range 3 {
		spec := sandboxtest.Python(
			"import os, sys, mmap\nown = sys.argv[1] + os.environ['SECRET'] + sys.stdin.read() + open('secret.txt').read()\n" +
				"for f in ('/tmp/left', '/dev/shm/left', 'left'): open(f, 'w').write(own * 1000)\n" +
				"m = mmap.mmap(-1, 1 << 22)\nm.write(own.encode() * 1000)\nprint(own)\n# " + secret)
		spec.Args, spec.Stdin, spec.Env = []string{secret}, []byte(secret), map[string]string{"SECRET": secret}
		spec.Inputs = []engine.Input{sandboxtest.Input(t, "secret.txt", secret)}
		if r := sandboxtest.Run(t, a.sandbox, spec); r.Code() != 0 || !strings.Contains(r.Stdout, secret) {
			t.Fatalf("the run with the secret failed: %s", r.Stderr)
		}
	}
}

// look runs an honest program that prints everything it sees.
func (a *arena) look(t *testing.T) string {
	t.Helper()
	spec := sandboxtest.Python(prelude(".look.py"))
	r := sandboxtest.Run(t, a.sandbox, spec)
	if r.Code() != 0 || !strings.Contains(r.Stdout, "all seen") {
		t.Fatalf("an honest program failed: exit code %d\n%s%s", r.Code(), r.Stdout, r.Stderr)
	}
	return queuedSignals.ReplaceAllString(r.Stdout, "SigQ:\t/")
}

// queuedSignals matches the number of signals queued for a process, which varies.
var queuedSignals = regexp.MustCompile(`SigQ:\\t\d+/`)

func (a *arena) wantPlain(t *testing.T, when string) {
	t.Helper()
	if diff := gocmp.Diff(a.plain, a.look(t)); diff != "" {
		t.Errorf("%s another program sees something else (-before +after):\n%s", when, diff)
	}
}

// wantNoStrays waits until all processes of the programs have exited. Runs that have
// been answered may still be ending.
func (a *arena) wantNoStrays(t *testing.T, kind string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(answerTime); time.Now().Before(end); {
		if left = a.backend.Strays(t); len(left) == 0 {
			return
		}
		wait(t.Context(), 10*time.Millisecond)
	}
	t.Errorf("after %s processes are left: %v", kind, left)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Controls checks that programs can succeed: each program that names protections
// succeeds on a sandbox without them. Each program that only looks around succeeds on
// the bare host.
func Controls(t *testing.T, weakened func(t *testing.T, steps ...string) engine.Sandbox) {
	w := newWorld(t)
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	opened := map[string]engine.Sandbox{}
	for _, p := range all {
		switch {
		case !p.runnable():
		case p.onHost:
			t.Run(p.label(), func(t *testing.T) { wantWin(t, p, onHost(t, p, w)) })
		case len(p.weaken) > 0:
			t.Run(p.label(), func(t *testing.T) {
				key := strings.Join(p.weaken, ",")
				if opened[key] == nil {
					opened[key] = weakened(t, p.weaken...)
				}
				nonce := engine.NewID().String()
				r := sandboxtest.Run(t, opened[key], p.spec(t, w, nonce, "bash"))
				wantWin(t, p, readClaims(r.Stdout, nonce))
				if t.Failed() {
					t.Logf("stdout: %s\nstderr: %s", r.Stdout, r.Stderr)
				}
			})
		}
	}
	for _, sandbox := range opened {
		if err := sandbox.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func wantWin(t *testing.T, p *program, c claims) {
	t.Helper()
	if len(c.breaches) == 0 {
		t.Errorf("it does not succeed where nothing stops it: it proves nothing (%d steps tried)", len(c.tried))
	}
}

// onHost runs a harmless program without a sandbox.
func onHost(t *testing.T, p *program, w *world) claims {
	t.Helper()
	interpreter := interpreters[filepath.Ext(p.name)]
	folder, nonce := t.TempDir(), engine.NewID().String()
	entry := filepath.Join(folder, p.name)
	if err := os.WriteFile(entry, []byte(prelude(filepath.Ext(p.name))+p.code), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, interpreter, entry)
	command.Dir, command.Env = folder, os.Environ()
	for name, value := range w.targets(nonce) {
		command.Env = append(command.Env, name+"="+value)
	}
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || len(out) == 0) {
		t.Fatalf("%v %s", err, stderrOf(exit))
	}
	return readClaims(string(out), nonce)
}

var interpreters = map[string]string{".py": "/usr/bin/python3", ".sh": "/usr/bin/bash", ".js": "/usr/bin/node"}

func stderrOf(exit *exec.ExitError) string {
	if exit == nil {
		return ""
	}
	return string(bytes.TrimSpace(exit.Stderr))
}
