package linux

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Node takes far longer to start than most of its programs run. It cannot be
// forked, as it has threads; so a few wait (see warmProcess), each started with the
// same command as any that starts cold. The first file of ours that Node reads
// (waiting.cjs) asks for the program.

// nodeProgram says that a program is one of Node's, which may wait for it. The
// executor makes the command itself, to see that it is what was asked for.
type nodeProgram struct {
	Language string
	Args     []string
}

// nodePath is the program of languages whose programs Node runs.
const nodePath = "/usr/bin/node"

// A compiler beside a Node that waits for it takes more than one after the
// other: with less than this a program that is compiled starts cold.
const (
	compileMemory    = 256 << 20
	compileProcesses = 64
)

// nodeShapeOf returns what a request's program may wait for, false if it is to
// start cold.
func (p *processPool) nodeShapeOf(r *runRequest) (processShape, bool) {
	l := p.language
	if r.Held != "" || r.Calls || r.Entry == "" || l.Compile == nil && r.Entry != l.Entry ||
		l.Compile != nil && (r.Memory < compileMemory || r.Processes < compileProcesses) {
		return processShape{}, false
	}
	program := language.Program{Entry: path.Join(r.Root, r.Entry), Args: r.Node.Args, Memory: r.Memory}
	if !slices.Equal(l.Command(program), r.Argv) {
		return processShape{}, false
	}
	s := processShape{shape: shapeOf(r), root: r.Root, home: r.Root}
	for _, entry := range r.Env {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok {
			s.home = home
		}
	}
	if !slices.Contains([]string{"/", rootWorkspace, rootData}, s.home) {
		return processShape{}, false
	}
	usual := s.environment(l)
	for _, entry := range usual {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return processShape{}, false
		}
	}
	for _, entry := range r.Env {
		name, _, _ := strings.Cut(entry, "=")
		if readByNode(name) && !slices.Contains(usual, entry) {
			return processShape{}, false
		}
	}
	return s, true
}

// environment is what a Node of that shape starts with.
func (s processShape) environment(l language.Language) []string {
	return environment(&engine.Spec{Language: l, Root: s.root, Home: s.home})
}

// readByNode reports whether a variable of the environment has its effect when
// Node starts, or in the dynamic linker. All others are read when they are
// needed, and can be set before the program runs.
func readByNode(name string) bool {
	prefixes := []string{"NODE_", "UV_", "V8_", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "ICU_", "OPENSSL_", "SSL_",
		"TZ"}
	return name == "HOME" || slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// nodeRequest is a request for the Node itself.
func (s processShape) nodeRequest(l language.Language) *runRequest {
	r := s.shape.request()
	r.Root, r.Env = s.root, s.environment(l)
	_, r.Argv = l.Steps(language.Program{Entry: path.Join(s.root, l.Entry), Memory: s.memory})
	return r
}

// describeToNode makes the file that tells a Node of its program.
func (w *warmProcess) describeToNode(r *runRequest) (*os.File, error) {
	l := w.language
	handed := language.NodeProgram{Args: r.Node.Args, Compiled: w.compiler != nil}
	handed.Compile, _ = l.Steps(language.Program{Entry: path.Join(r.Root, r.Entry), Memory: r.Memory})
	usual := w.kind.environment(l)
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
