package executor

import (
	"errors"
	"fmt"
	"os"

	"github.com/airlock-run/airlock/internal/engine"
)

// dialRequest connects to a port in the sandbox of the program in a held workspace.
type dialRequest struct {
	Held string
	Port int
}

// dial sends back a socket that is connected to the sandbox's loopback.
func (e *executor) dial(l *Link, r *dialRequest) error {
	if r.Port < 1 || r.Port > 65535 {
		return NewFailure(engine.ErrInvalid, fmt.Sprintf("%d is no port", r.Port))
	}
	at, leave, err := e.sandboxIn(r.Held)
	if err != nil {
		return err
	}
	defer leave()
	var socket *os.File
	err = e.gate.through(at.box.Request.Owner, func() (err error) {
		socket, err = at.cell.Dial(r.Port)
		return err
	})
	if busy, ok := errors.AsType[*Failure](err); ok {
		return busy
	}
	if err != nil {
		return NewFailure(engine.ErrConflict, fmt.Sprintf("port %d: %v", r.Port, err),
			"a program of the session must listen on this port of 127.0.0.1 or ::1")
	}
	defer socket.Close()
	return l.Send(answer{Accepted: true}, socket)
}
