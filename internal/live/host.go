package live

import (
	"context"
	"encoding/json"
	"errors"
)

// Host answers the calls of a cell of Python to the outside of its sandbox.
type Host interface {
	// Modules returns the names of the modules that can be imported. Call returns the source of
	// one, as JSON, for "module" with its name; in them, call(name, input) is Call.
	Modules() []string
	// Call answers a call. It may come from several threads of the cell. Between pause(true) and
	// pause(false) the cell and its clock are stopped, while a person answers. The text of an error
	// is raised.
	Call(ctx context.Context, name string, input json.RawMessage, pause func(bool)) (json.RawMessage, error)
}

// callHost has the host of the running cell answer a call, for as long as the cell
// runs.
func (it *interpreter) callHost(ctx context.Context, input []byte) ([]byte, error) {
	at := it.at
	at.mu.Lock()
	c := it.currentCell()
	at.mu.Unlock()
	var call struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	switch {
	case c == nil || c.request.Host == nil:
		return nil, errors.New("nothing is offered to this cell from outside")
	case json.Unmarshal(input, &call) != nil:
		return nil, errors.New("this is no call")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at.service.background(func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	})
	return c.request.Host.Call(ctx, call.Name, call.Input, func(waits bool) { it.pause(c, waits) })
}

// pause stops the clock of a cell while a call of it waits, and sets it going again.
func (it *interpreter) pause(c *cell, waits bool) {
	at := it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	if waits {
		it.paused++
	} else {
		it.paused--
	}
	switch {
	case at.current == nil || at.current.cell != c:
	case it.paused == 0:
		it.out(false)
	case waits && it.paused == 1:
		c.hold()
		it.out(true)
	}
}
