package linux

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program calls out over two inherited pipes: each message is a length of
// four bytes, most significant first, and that many bytes of JSON. It writes
// {"id": 1, "name": "add", "input": {...}} and reads {"id": 1, "result": ...}
// or {"id": 1, "error": "..."}; answers come in the order in which they are
// ready. Whatever is not of that form ends the channel, not the program.

const (
	maxCall      = 5 << 20
	maxCallsOpen = 16
)

type callMessage struct {
	ID    json.Number     `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type callAnswer struct {
	ID     json.Number     `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"`
}

// callChannel is our end of one.
type callChannel struct{ calls, answers *os.File }

// newCallChannel makes one, and the program's end of it: what it reads, and what it
// writes.
func newCallChannel() (_ *callChannel, theirs []*os.File, err error) {
	calls, err := newPipeEnds(0)
	if err != nil {
		return nil, nil, err
	}
	answers, err := newPipeEnds(1)
	if err != nil {
		closeAll([]*os.File{calls.ours, calls.theirs})
		return nil, nil, err
	}
	return &callChannel{calls.ours, answers.ours}, []*os.File{answers.theirs, calls.theirs}, nil
}

func (c *callChannel) close() { closeAll([]*os.File{c.calls, c.answers}) }

// answerCalls serves a channel until it is closed. Closing it while calls are
// open cancels them.
func answerCalls(ctx context.Context, channel *callChannel, host engine.CallHandler) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		open    sync.WaitGroup
		writing sync.Mutex
		places  = make(chan struct{}, maxCallsOpen)
	)
	defer open.Wait()
	defer cancel()
	for {
		body, err := readMessage(channel.calls)
		if err != nil {
			return
		}
		var c callMessage
		if err := json.Unmarshal(body, &c); err != nil || c.Name == "" {
			return
		}
		places <- struct{}{}
		open.Go(func() {
			defer func() { <-places }()
			a := answerCall(ctx, host, c)
			writing.Lock()
			defer writing.Unlock()
			_ = writeMessage(channel.answers, a) // a program that does not read has itself to blame
		})
	}
}

func answerCall(ctx context.Context, host engine.CallHandler, c callMessage) callAnswer {
	result, err := host.Call(ctx, c.Name, c.Input)
	if err == nil && !json.Valid(result) {
		err = engine.ErrInternal
	}
	if err != nil {
		text := err.Error()
		return callAnswer{ID: c.ID, Error: &text}
	}
	return callAnswer{ID: c.ID, Result: result}
}

func readMessage(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxCall {
		return nil, io.ErrShortBuffer
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

func writeMessage(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}
