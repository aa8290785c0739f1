package linux

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
)

// Our own compiler takes longer to start than to compile most programs. So beside a Node
// that waits for such a program a compiler waits too, as a process of the same sandbox:
// it is told the names of source and result and given the program's stderr over one
// socket, and says how it ended in a pipe that the Node reads. Each of them executes
// nothing but what it would in a cold start. Should it say nothing, the Node starts
// another.
type warmCompiler struct {
	orders  *link
	verdict *os.File // the Node's end of the pipe
	sandbox *sandbox // as the compiler's process sees it
}

// newCompiler makes what connects them.
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

// closeTheirs closes what the compiler's process has, once there is one.
func (c *warmCompiler) closeTheirs() {
	s := c.sandbox
	for _, f := range []**os.File{&s.stdin, &s.stdout, &s.stderr, &s.answers, &s.calls} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
}

func (c *warmCompiler) close() {
	c.closeTheirs()
	c.orders.close()
	c.verdict.Close()
}

// compile tells the compiler what to do. One that has ended cannot be told, and says
// nothing to the Node.
func (c *warmCompiler) compile(l language.Language, p language.Program, stderr *os.File) {
	_ = c.orders.send(l.CompilerOrder(p), stderr)
}
