package executor

import (
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A Node that waits is not used for a program whose command is not its language's,
// whatever the request claims.
func TestNodePoolTrustsNoRequest(t *testing.T) {
	e := &executor{}
	e.newProcessPools()
	request := func(name string) *RunRequest {
		p, err := newProgram(sandboxtest.Spec(name, "1"))
		if err != nil {
			t.Fatal(err)
		}
		p.close()
		return &p.request
	}
	for name, change := range map[string]func(*RunRequest){
		"other command":   func(r *RunRequest) { r.Argv[0] = "/usr/bin/true" },
		"other arguments": func(r *RunRequest) { r.Node.Args = []string{"x"} },
		"other entry":     func(r *RunRequest) { r.Entry = "x.js" },
		"other language": func(r *RunRequest) {
			r.Node.Language = map[string]string{
				"js": "ts", "ts": "js"}[r.Node.Language]
		},
		"python":      func(r *RunRequest) { r.Node.Language = "python" },
		"no such":     func(r *RunRequest) { r.Node.Language = "none" },
		"held":        func(r *RunRequest) { r.Held = "x" },
		"less of env": func(r *RunRequest) { r.Env = r.Env[1:] },
	} {
		for _, l := range []string{"js", "ts"} {
			r := request(l)
			if _, _, ok := e.processPool(r.nodeLanguage(), r); !ok {
				t.Fatalf("%s: the request is refused as it is", l)
			}
			change(r)
			if _, _, ok := e.processPool(r.nodeLanguage(), r); ok {
				t.Errorf("%s, %s: accepted", l, name)
			}
		}
	}
}

// Idle Nodes are ended if no program arrives.
func TestIdleNodesEnd(t *testing.T) {
	e := &executor{machine: &Machine{Users: userUIDs}}
	w := &waiting{Box: &Box{Machine: e.machine}, executor: e}
	p := &processPool{executor: e, waitingList: waitingList{ready: []*waiting{w}}}
	p.mu.Lock()
	p.expire()
	p.expiry.Reset(0)
	p.mu.Unlock()
	if !sandboxtest.Await(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.ready) == 0
	}) {
		t.Error("it waits on")
	}
}
