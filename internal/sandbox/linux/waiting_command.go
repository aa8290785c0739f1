package linux

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
)

// A sandbox takes longer to make than most commands run. So a few wait, each with a
// process that executes the command that it is handed, whatever language that is of:
// one page of machine code (awaitCommand), which asks for it as Node does. It has the
// sandbox's limits and folders, and nothing that any caller gave; all of that comes
// with the command.

// Where a command lies in the memory of the process that executes it, and how much
// there is at most; spawn_amd64.s knows both.
const (
	commandAddress = 0x10000000
	mostCommand    = 1 << 20
)

// The steps that such a process takes by itself, in the order in which it names them.
func commandSteps(file string) []step {
	return []step{{name: "go to the workspace"}, {name: "execute " + file}}
}

// takesCommand reports whether a process that waits for a command serves a request,
// and of which shape it is to be.
func (e *executor) takesCommand(r *runRequest) (processShape, bool) {
	if len(commandProgram()) == 0 || r.Held != "" || r.Make || r.Live || r.Network || len(r.Authority) > 0 {
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
	command, err := encodeCommand(r.Root, r.Argv, r.Env, w.reportNumber)
	if err != nil {
		return nil, err
	}
	w.script = &script{main: commandSteps(r.Argv[0])}
	return memoryFile("command", command)
}

// encodeCommand writes a command as it lies in memory, in the order in which
// spawn_amd64.s reads it.
func encodeCommand(folder string, argv, env []string, report int) ([]byte, error) {
	const header, pointer = 5 * 8, 8
	lists := header + pointer*(len(argv)+1+len(env)+1)
	var text []byte
	place := func(s string) uint64 {
		at := commandAddress + lists + len(text)
		text = append(append(text, s...), 0)
		return uint64(at)
	}
	le := binary.LittleEndian
	head := le.AppendUint64(nil, place(folder))
	head = le.AppendUint64(head, place(argv[0]))
	head = le.AppendUint64(head, commandAddress+header)
	head = le.AppendUint64(head, uint64(commandAddress+header+pointer*(len(argv)+1)))
	head = le.AppendUint64(head, uint64(report))
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			head = le.AppendUint64(head, place(s))
		}
		head = le.AppendUint64(head, 0)
	}
	if len(head)+len(text) > mostCommand {
		return nil, errors.New("a command that is too long")
	}
	return slices.Concat(head, text), nil
}
