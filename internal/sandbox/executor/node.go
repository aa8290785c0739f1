package executor

import (
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Which programs of Node a waiting Node can run.

// nodeProgram marks a program of Node, which a waiting Node can run. The executor
// builds the command itself, to check that it equals the request's.
type nodeProgram struct {
	Language string
	Args     []string
}

// NodePath is the program that runs Node's languages.
const NodePath = "/usr/bin/node"

// Minimum limits for a compiler beside a waiting Node, which need more than running one
// after the other. With less, a compiled program starts cold.
const (
	compileMemory    = 256 << 20
	compileProcesses = 64
)

// nodeShapeOf returns the shape of a Node for a request's program. If it returns false,
// the program starts cold.
func (p *processPool) nodeShapeOf(r *RunRequest) (shape, bool) {
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
	if !slices.Contains([]string{"/", image.RootWorkspace, image.RootData}, s.home) {
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
	return Variables(&engine.Spec{Language: l, Root: s.root, Home: s.home})
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
func (s shape) nodeRequest(l language.Language) *RunRequest {
	r := s.request()
	r.Root, r.Env = s.root, s.environment(l)
	_, r.Argv = l.Steps(language.Program{Entry: path.Join(s.root, l.Entry), Memory: s.memory})
	return r
}
