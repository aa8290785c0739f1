package linux

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Node takes far longer to start than most of its programs run. It cannot be forked, as
// it has threads. So a few Nodes wait (see waiting_process.go), each started with the
// same command as in a cold start. The first of package language's files that Node
// reads (waiting.cjs) asks for the program.

// nodeProgram marks a program of Node, which a waiting Node can run. The executor
// builds the command itself, to check that it equals the request's.
type nodeProgram struct {
	Language string
	Args     []string
}

// nodePath is the program that runs Node's languages.
const nodePath = "/usr/bin/node"

// Minimum limits for a compiler beside a waiting Node, which need more than running one
// after the other. With less, a compiled program starts cold.
const (
	compileMemory    = 256 << 20
	compileProcesses = 64
)

// nodeShapeOf returns the shape of a Node for a request's program. If it returns false,
// the program starts cold.
func (p *processPool) nodeShapeOf(r *runRequest) (shape, bool) {
	l := p.language
	if r.Held != "" || r.Calls || r.Entry == "" || l.Compile == nil && r.Entry != l.Entry ||
		l.Compile != nil && (r.Memory < compileMemory || r.Processes < compileProcesses) {
		return shape{}, false
	}
	program := language.Program{Entry: path.Join(r.Root, r.Entry), Args: r.Node.Args, Memory: r.Memory}
	if !slices.Equal(l.Command(program), r.Argv) {
		return shape{}, false
	}
	s := shapeOf(r)
	s.root, s.home = r.Root, r.Root
	for _, entry := range r.Env {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok {
			s.home = home
		}
	}
	if !slices.Contains([]string{"/", rootWorkspace, rootData}, s.home) {
		return shape{}, false
	}
	usual := s.environment(l)
	for _, entry := range usual {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return shape{}, false
		}
	}
	for _, entry := range r.Env {
		name, _, _ := strings.Cut(entry, "=")
		if readByNode(name) && !slices.Contains(usual, entry) {
			return shape{}, false
		}
	}
	return s, true
}

// environment returns the environment of a new Node of that shape.
func (s shape) environment(l language.Language) []string {
	return environment(&engine.Spec{Language: l, Root: s.root, Home: s.home})
}

// readByNode reports whether a variable of the environment takes effect when Node
// starts, or in the dynamic linker. All others are read when they are needed, and can
// be set before the program runs.
func readByNode(name string) bool {
	prefixes := []string{"NODE_", "UV_", "V8_", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "ICU_", "OPENSSL_", "SSL_",
		"TZ"}
	return name == "HOME" || slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// nodeRequest returns a request for the Node itself.
func (s shape) nodeRequest(l language.Language) *runRequest {
	r := s.request()
	r.Root, r.Env = s.root, s.environment(l)
	_, r.Argv = l.Steps(language.Program{Entry: path.Join(s.root, l.Entry), Memory: s.memory})
	return r
}

// describeToNode creates the file that describes a Node's program to it.
func (w *waiting) describeToNode(r *runRequest) (*os.File, error) {
	l := w.language
	handed := language.NodeProgram{Args: r.Node.Args, Compiled: w.compiler != nil}
	handed.Compile, _ = l.Steps(language.Program{Entry: path.Join(r.Root, r.Entry), Memory: r.Memory})
	usual := w.shape.environment(l)
	for _, entry := range r.Env {
		if name, value, _ := strings.Cut(entry, "="); !slices.Contains(usual, entry) {
			handed.Env = append(handed.Env, [2]string{name, value})
		}
	}
	text, err := json.Marshal(handed)
	if err != nil {
		return nil, err
	}
	return memoryFile("program", text)
}

// Airlock's own compiler takes longer to start than to compile most programs. So a
// compiler waits beside a Node, as a process of the same sandbox. It receives the names
// of source and result and the program's stderr over one socket, and reports its end in
// a pipe that the Node reads. Both execute only what they would execute in a cold
// start. If the compiler does not report its end, the Node starts another one.
type warmCompiler struct {
	orders  *link
	verdict *os.File // the Node's end of the pipe
	sandbox *sandbox // as the compiler's process sees it
}

// newCompiler creates the socket and the pipe that connect them.
func (s *sandbox) newCompiler(nobodys []*os.File) (_ *warmCompiler, err error) {
	c := &warmCompiler{sandbox: &sandbox{host: s.host, report: s.report}}
	request := *s.request
	request.Argv, request.Env = []string{language.Toolchain, "compile", "typescript", language.CompilerWaits}, []string{}
	c.sandbox.request = &request
	orders, theirs, err := newLinkPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil { // os.Pipe's do not block
		orders.close()
		return nil, err
	}
	verdict, says := os.NewFile(uintptr(pipe[0]), "verdict"), os.NewFile(uintptr(pipe[1]), "verdict")
	defer says.Close()
	c.orders, c.verdict = orders, verdict
	if err := c.sandbox.placeFiles(append(nobodys, theirs, says)); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *warmCompiler) close() {
	c.sandbox.closeFiles()
	c.orders.close()
	c.verdict.Close()
}

// compile sends the compiler its order. A compiler that has exited receives none, and
// reports nothing to the Node.
func (c *warmCompiler) compile(l language.Language, p language.Program, stderr *os.File) {
	_ = c.orders.send(l.CompilerOrder(p), stderr)
}
