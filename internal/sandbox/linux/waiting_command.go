package linux

import (
	"os"

	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A sandbox takes longer to make than most commands run. So a few wait, each with a
// process that executes the command that it is handed, whatever language that is of:
// one page of machine code (spawn.CommandProgram), which asks for it as Node does. It has the
// sandbox's limits and folders, and nothing that any caller gave; all of that comes
// with the command.

// The steps that such a process takes by itself, in the order in which it names them.
func commandSteps(file string) []spawn.Step {
	return []spawn.Step{{Name: "go to the workspace"}, {Name: "execute " + file}}
}

// takesCommand reports whether a process that waits for a command serves a request,
// and of which shape it is to be.
func (e *executor) takesCommand(r *runRequest) (processShape, bool) {
	if len(spawn.CommandProgram()) == 0 || r.Held != "" || r.Make || r.Live || r.Network || len(r.Authority) > 0 {
		return processShape{}, false
	}
	if e.host.groups == nil && r.Argv[0] == nodePath { // whose limits are others there
		return processShape{}, false
	}
	return processShape{shape: shapeOf(r)}, true
}

// commandRequest is a request for the process itself.
func (s processShape) commandRequest() *runRequest {
	r := s.shape.request()
	r.Root, r.Env, r.Argv = "/", []string{}, []string{commandPath}
	return r
}

// describeCommand makes the file that a command is in.
func (w *warmProcess) describeCommand(r *runRequest) (*os.File, error) {
	command, err := spawn.EncodeCommand(r.Root, r.Argv, r.Env, w.reportNumber)
	if err != nil {
		return nil, err
	}
	w.script = &spawn.Script{Main: commandSteps(r.Argv[0])}
	return memoryFile("command", command)
}
