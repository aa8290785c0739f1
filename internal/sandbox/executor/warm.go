package executor

import (
	"encoding/binary"
	"slices"

	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

// warm takes a waiting sandbox for a request. If it returns nil, the program starts cold. A waiting
// sandbox already has a workspace, so warm forks a new sandbox for a program that has its own.
func (e *executor) warm(r *RunRequest, made *Workspace) (*waiting, error) {
	p := r.poolOf()
	switch {
	case p == nil || !r.isScript():
		return nil, nil
	case r.Live:
		return p.forkLive(r)
	case r.Held != "":
		return nil, nil
	case made != nil:
		p.wake()
		w, err := p.fork(shapeOf(r), nil, made)
		if err != nil { // fork closes the workspace on failure
			err = retryable("no sandbox could be made")
		}
		return w, err
	}
	return p.takeOrFork(shapeOf(r)), nil
}

// Message encodes a program for an interpreter that waits for it. The usual environment is
// that of the interpreter.
func (r *RunRequest) Message(usual []string) ([]byte, error) {
	p := guest.Program{Argv: r.Argv, Root: r.Root, EchoLast: r.EchoLast, ShowPlots: r.ShowPlots, Globals: r.Globals,
		Alone: r.alone()}
	if !slices.Equal(r.Env, usual) {
		p.Env = r.Env
	}
	message, err := p.Encode()
	if err != nil {
		return nil, err
	}
	body := binary.NativeEndian.AppendUint32(make([]byte, 0, 4+len(message)+len(r.Code)), uint32(len(message)))
	return append(append(body, message...), r.Code...), nil
}

// alone reports whether the program's file is the only one in its folder.
func (r *RunRequest) alone() bool { return r.Inputs == 0 && r.Code != nil }
