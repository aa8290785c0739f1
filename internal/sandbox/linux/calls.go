package linux

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program calls out over two inherited pipes: each message is a length of
// four bytes, most significant first, and that many bytes of JSON. It writes
// {"id": 1, "name": "add", "input": {...}} and reads {"id": 1, "result": ...}
// or {"id": 1, "error": "..."}; answers come in the order in which they are
// ready. A message without an id is a notice: it has no answer, and is dealt with
// before the next message is read. Whatever is not of that form ends the channel,
// not the program.

const (
	maxCall      = 5 << 20
	maxNotice    = 32 << 20 // of a live interpreter: what it displays
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
type callChannel struct {
	calls, answers *os.File
	most           uint32 // bytes of a message
	writing        sync.Mutex
}

// newCallChannel makes one, and the program's end of it: what it reads, and what it
// writes.
func newCallChannel(live bool) (_ *callChannel, theirs []*os.File, err error) {
	calls, err := newPipeEnds(0)
	if err != nil {
		return nil, nil, err
	}
	answers, err := newPipeEnds(1)
	if err != nil {
		closeAll([]*os.File{calls.ours, calls.theirs})
		return nil, nil, err
	}
	most := uint32(maxCall)
	if live {
		most = maxNotice
	}
	theirs = []*os.File{answers.theirs, calls.theirs}
	return &callChannel{calls: calls.ours, answers: answers.ours, most: most}, theirs, nil
}

// notice is a message to a live interpreter that an order may come: an answer to no
// call. A pipe takes it whole or not at all.
var notice = []byte("\x00\x00\x00\x08{\"id\":0}")

// prepare sends the notice, unless it would have to wait.
func (c *callChannel) prepare() {
	if !c.writing.TryLock() {
		return
	}
	defer c.writing.Unlock()
	if conn, err := c.answers.SyscallConn(); err == nil {
		_ = conn.Write(func(fd uintptr) bool {
			_, _ = unix.Write(int(fd), notice) // it is for speed alone
			return true
		})
	}
}

func (c *callChannel) close() { closeAll([]*os.File{c.calls, c.answers}) }

// answerCalls serves a channel until it is closed. Closing it while calls are
// open cancels them.
func answerCalls(ctx context.Context, channel *callChannel, host engine.CallHandler) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		open   sync.WaitGroup
		places = make(chan struct{}, maxCallsOpen)
	)
	defer open.Wait()
	defer cancel()
	calls := bufio.NewReaderSize(channel.calls, 512) // most messages are small: one read each, not two
	for {
		body, err := readMessage(calls, channel.most)
		if err != nil {
			return
		}
		var c callMessage
		if err := json.Unmarshal(body, &c); err != nil || c.Name == "" {
			return
		}
		if c.ID == "" {
			_, _ = host.Call(ctx, c.Name, c.Input) // nobody waits for an answer
			continue
		}
		places <- struct{}{}
		open.Go(func() {
			defer func() { <-places }()
			a := answerCall(ctx, host, c)
			channel.writing.Lock()
			defer channel.writing.Unlock()
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

func readMessage(r io.Reader, most uint32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > most {
		return nil, io.ErrShortBuffer
	}
	if n <= maxCall {
		body := make([]byte, n)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var body bytes.Buffer // which grows with what comes: the length may be a lie
	_, err := io.CopyN(&body, r, int64(n))
	return body.Bytes(), err
}

func writeMessage(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}
