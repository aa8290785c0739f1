package linux

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// Node takes far longer to start than most of its programs run. It cannot be forked, as
// it has threads. So a few Nodes wait (see waiting_process.go), each started with the
// same command as in a cold start. The first of package language's files that Node
// reads (waiting.cjs) asks for the program.

// describeToNode creates the file that describes a Node's program to it.
func (w *cell) describeToNode(r *executor.RunRequest) (*os.File, error) {
	l := w.language
	handed := language.NodeProgram{Args: r.Node.Args, Compiled: w.compiler != nil}
	handed.Compile, _ = l.Steps(language.Program{Entry: path.Join(r.Root, r.Entry), Memory: r.Memory})
	for _, entry := range r.Env {
		if name, value, _ := strings.Cut(entry, "="); !slices.Contains(w.environment, entry) {
			handed.Env = append(handed.Env, [2]string{name, value})
		}
	}
	text, err := json.Marshal(handed)
	if err != nil {
		return nil, err
	}
	return executor.MemoryFile("program", text)
}

// Airlock's own compiler takes longer to start than to compile most programs. So a
// compiler waits beside a Node, as a process of the same sandbox. It receives the names
// of source and result and the program's stderr over one socket, and reports its end in
// a pipe that the Node reads. Both execute only what they would execute in a cold
// start. If the compiler does not report its end, the Node starts another one.
type warmCompiler struct {
	orders  *executor.Link
	verdict *os.File // the Node's end of the pipe
	sandbox *sandbox // as the compiler's process sees it
}

// newCompiler creates the socket and the pipe that connect them.
func (s *sandbox) newCompiler(nobodys []*os.File) (_ *warmCompiler, err error) {
	c := &warmCompiler{sandbox: &sandbox{wall: s.wall, report: s.report}}
	request := *s.Request
	request.Argv, request.Env = []string{language.Toolchain, "compile", "typescript", language.CompilerWaits}, []string{}
	c.sandbox.Box = &executor.Box{Machine: s.Machine, Request: &request}
	orders, theirs, err := executor.NewLinkPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil { // os.Pipe's do not block
		orders.Close()
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
	c.orders.Close()
	c.verdict.Close()
}

// compile sends the compiler its order. A compiler that has exited receives none, and
// reports nothing to the Node.
func (c *warmCompiler) compile(l language.Language, p language.Program, stderr *os.File) {
	_ = c.orders.Send(l.CompilerOrder(p), stderr)
}
