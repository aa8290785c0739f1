package hostile

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

//go:embed programs prelude
var files embed.FS

// program is one hostile program.
type program struct {
	kind, name string // "escape", "mount.c"
	code       string
	counted    bool // control groups limit it
	isCell     bool
	head
}

// head holds the first lines of a program.
type head struct {
	ends    string         // how: "well" (the default), "timeout", "killed", "oom", "badly" or "anyhow"
	inCell  string         // the same for a cell, if it differs: the interpreter persists, or is the program
	timeout time.Duration  // of its run
	memory  int64          // limit; 0: the suite's
	procs   int            // limit of processes; 0: the suite's
	cpus    float64        // limit; 0: none
	needs   string         // "groups": its target is protected only with control groups
	weaken  []string       // steps without which the program succeeds
	onHost  bool           // it succeeds, harmlessly, outside of any sandbox
	calls   bool           // it has a channel for calls
	next    bool           // it must not affect another program
	own     *regexp.Regexp // its breaches that are none in a cell, whose root is its own to write
	shared  bool           // it is about a kernel that sandboxes share: with one of its own it reaches that alone
	limited bool           // its sandbox ends at the limit of processes
	machine bool           // it is about the folders and commands of the machine's own environment, which an image has too
}

// label returns the name of the program's test.
func (p *program) label() string { return p.kind + "/" + p.name }

// symbol returns the name of a C program's function.
func (p *program) symbol() string {
	return p.kind + "_" + strings.TrimSuffix(p.name, ".c")
}

func (p *program) is(extension string) bool { return path.Ext(p.name) == extension }

// programs reads all programs, in order.
func programs() (all []*program, err error) {
	err = fs.WalkDir(files, "programs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		code, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		p := &program{kind: path.Base(path.Dir(name)), name: path.Base(name), code: string(code)}
		if p.head, err = parseHead(p.code); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// parseHead reads the comment at a program's start: first a description, then lines of
// "key: value", up to the first line that is no comment.
func parseHead(code string) (head, error) {
	h := head{ends: "well", timeout: 20 * time.Second}
	first := true
	for line := range strings.Lines(code) {
		text, comment := strings.CutPrefix(line, "#")
		if !comment {
			text, comment = strings.CutPrefix(line, "//")
		}
		if !comment {
			break
		}
		key, value, ok := strings.Cut(strings.TrimSpace(text), ": ")
		if first || !ok {
			first = false
			continue
		}
		var err error
		switch key {
		case "ends":
			h.ends = value
		case "cell":
			h.inCell = value
		case "kernel":
			h.shared = value == "shared"
		case "timeout":
			h.timeout, err = time.ParseDuration(value)
		case "memory":
			h.memory, err = strconv.ParseInt(value, 10, 64)
			h.memory <<= 20
		case "processes":
			h.procs, err = strconv.Atoi(value)
		case "cpus":
			h.cpus, err = strconv.ParseFloat(value, 64)
		case "needs":
			h.needs = value
		case "weaken":
			h.weaken = strings.Split(value, ", ")
		case "control":
			h.onHost = value == "host"
		case "calls":
			h.calls = true
		case "next":
			h.next = true
		case "own":
			h.own, err = regexp.Compile("^(" + value + ")")
		case "only":
			h.machine = value == "machine"
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return h, err
		}
	}
	if first {
		return h, fmt.Errorf("it does not say what it does")
	}
	for _, end := range []string{h.ends, cmp.Or(h.inCell, h.ends)} {
		if !slices.Contains([]string{"well", "timeout", "killed", "oom", "badly", "anyhow"}, end) {
			return h, fmt.Errorf("it cannot end %q", end)
		}
	}
	h.timeout = sandboxtest.Slowed(h.timeout)
	return h, nil
}

// prelude returns the first lines of every program in a language.
func prelude(extension string) string {
	text, err := files.ReadFile("prelude/prelude" + extension)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// spec returns a run of the program. A C program is staged as an executable, and a
// program in another language executes it.
func (p *program) spec(t *testing.T, w *world, nonce string, launcher string) *engine.Spec {
	t.Helper()
	var spec *engine.Spec
	switch {
	case p.is(".py"):
		spec = sandboxtest.Python(prelude(".py") + p.code)
	case p.is(".sh"):
		spec = sandboxtest.Spec("bash", prelude(".sh")+p.code)
	case p.is(".js"):
		spec = sandboxtest.Spec(javascript, prelude(".js")+p.code)
	case launcher == "python":
		spec = sandboxtest.Python(fmt.Sprintf(becomeAttack, p.symbol()))
	case launcher == "cell":
		spec = sandboxtest.Python(fmt.Sprintf(callAttack, p.symbol()))
	default:
		spec = sandboxtest.Spec("bash", "cp attack /tmp/attack && chmod 755 /tmp/attack && rm attack && exec /tmp/attack "+
			p.symbol())
	}
	spec.Inputs = []engine.Input{sandboxtest.Input(t, "given.txt", given)}
	if p.is(".c") {
		spec.Inputs = append(spec.Inputs, w.attack(t))
	}
	spec.Env = w.targets(nonce)
	spec.Calls = p.calls
	spec.Limits.Timeout = p.timeout
	spec.Limits.Processes = cmp.Or(p.procs, spec.Limits.Processes)
	spec.Limits.CPUs = p.cpus
	if p.memory > 0 {
		spec.Limits.Memory = p.memory
	}
	return spec
}

// adapt turns a program into a cell. It stages the program's file, and adds the wait
// that Node makes at a program's end.
func (p *program) adapt(t *testing.T, spec *engine.Spec) {
	t.Helper()
	p.isCell, spec.Env["H_CELL"] = true, "yes"
	if p.is(".py") {
		spec.Inputs = append(spec.Inputs, sandboxtest.Input(t, spec.Entry, spec.Code))
	}
	if p.is(".js") {
		spec.Code = strings.Replace(spec.Code, "\nPromise.all(", "\nawait Promise.all(", 1)
	}
}

// becomeAttack replaces a Python program with one in C, which inherits all open files.
const becomeAttack = takeAttack + `os.execv("/tmp/attack", ["attack", %q])
`

// callAttack runs it beside an interpreter that persists.
const callAttack = takeAttack + `import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # to stay when it signals whom it finds
raise SystemExit(subprocess.run(["/tmp/attack", %q], close_fds=False).returncode)
`

const takeAttack = `import os, shutil
shutil.copy("attack", "/tmp/attack")
os.chmod("/tmp/attack", 0o755)
os.remove("attack")
for fd in range(3, 1024):
    try: os.set_inheritable(fd, True)
    except OSError: pass
`

// given is the content of every program's input.
const given = "an input that was there before\n"

const javascript = "node"

// runnable reports whether this machine can run a program.
func (p *program) runnable() bool {
	if p.is(".js") {
		_, ok := language.Find(javascript)
		return ok
	}
	return true
}
