package guest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program calls out over two inherited pipes. Each message is a length of four bytes,
// most significant first, followed by that many bytes of JSON. The program writes
// {"id": 1, "name": "add", "input": {...}} and reads {"id": 1, "result": ...}
// or {"id": 1, "error": "..."}. Answers come in the order in which they are ready.
// A message without an id is a notice: it has no answer, and is handled before the
// next message is read. A malformed message ends the channel, not the program.

// AnswersFD and CallsFD are the program's ends of its channel: it reads answers from
// the first and writes calls to the second. They are pipes, because a socket belongs to
// the network namespace in which it was created: it would reveal that namespace and
// bind names in it.
const (
	AnswersFD = 3 + iota
	CallsFD
)

const (
	maxCall      = 5 << 20
	maxNotice    = 32 << 20 // of a live interpreter: its displayed output
	maxCallsOpen = 16
	messageStep  = 64 << 10 // up to which a message gets its memory at once
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

// A Channel is the service's end of a program's channel for calls.
type Channel struct {
	calls, answers *os.File
	most           uint32 // bytes of a message
	writing        sync.Mutex

	mu   sync.Mutex
	open map[json.Number]string // names of calls without an answer

	resumed map[json.Number]string // those of a program that was stored
	goesOn  chan struct{}          // closed when it goes on
}

// NewChannel returns a channel over the service's ends of two pipes, which do not block. A
// live interpreter's messages may be longer: they contain its displayed output.
func NewChannel(calls, answers *os.File, live bool) *Channel {
	c := &Channel{calls: calls, answers: answers, most: maxCall, open: map[json.Number]string{},
		goesOn: make(chan struct{})}
	if live {
		c.most = maxNotice
	}
	return c
}

// WriteNote writes which calls have no answer yet, for the Channel of a program that goes on as it was stored.
func (c *Channel) WriteNote(to io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return writeMessage(to, c.open)
}

// Resume reads a note. Serve has its calls answered, without an input, after GoOn.
func (c *Channel) Resume(note io.Reader) error {
	body, err := readMessage(note, maxNote)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &c.resumed)
}

// GoOn says that the program of the note goes on. It is called once.
func (c *Channel) GoOn() { close(c.goesOn) }

// maxNote bounds a note, which is written to a pipe before it is read.
const maxNote = 4 << 10

// Close closes the channel. It may be called more than once.
func (c *Channel) Close() {
	c.calls.Close()
	c.answers.Close()
}

// Serve answers calls until the channel is closed, by either side or by a malformed
// message. Closing it cancels the open calls.
func (c *Channel) Serve(ctx context.Context, host engine.CallHandler) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		open   sync.WaitGroup
		places = make(chan struct{}, maxCallsOpen)
	)
	defer c.Close()
	defer open.Wait()
	defer cancel()
	answer := func(call callMessage) {
		c.mu.Lock()
		if len(c.open) < maxCallsOpen {
			c.open[call.ID] = call.Name
		}
		c.mu.Unlock()
		places <- struct{}{}
		open.Go(func() {
			defer func() { <-places }()
			a := answerCall(ctx, host, call)
			c.mu.Lock()
			delete(c.open, call.ID)
			c.mu.Unlock()
			c.writing.Lock()
			defer c.writing.Unlock()
			_ = writeMessage(c.answers, a) // a program that does not read its answers loses them
		})
	}
	for id, name := range c.resumed {
		open.Go(func() {
			select {
			case <-c.goesOn:
				answer(callMessage{ID: id, Name: name})
			case <-ctx.Done():
			}
		})
	}
	calls := bufio.NewReaderSize(c.calls, smallBuffer)
	for notices := 0; ; {
		if calls.Buffered() == 0 {
			calls = c.await(ctx, calls, notices)
		}
		body, err := readMessage(calls, c.most)
		if err != nil {
			return
		}
		var call callMessage
		if err := json.Unmarshal(body, &call); err != nil || call.Name == "" {
			return
		}
		if call.ID == "" {
			_, _ = host.Call(ctx, call.Name, call.Input) // a notice has no answer
			notices++
			continue
		}
		notices = 0
		answer(call)
	}
}

// Sizes of the buffer for messages. Most are small: one read each, not two.
const (
	smallBuffer = 512
	largeBuffer = 64 << 10
	// A program that has sent so many notices, with no call between them, sends more: being
	// woken for each would cost both more than the notices do.
	manyNotices = 64
	noticePause = time.Millisecond
)

// await waits a moment for more than one notice where there are many. It returns the reader to
// go on with.
func (c *Channel) await(ctx context.Context, calls *bufio.Reader, notices int) *bufio.Reader {
	switch {
	case notices < manyNotices && calls.Size() != smallBuffer:
		return bufio.NewReaderSize(c.calls, smallBuffer)
	case notices >= manyNotices && calls.Size() != largeBuffer:
		calls = bufio.NewReaderSize(c.calls, largeBuffer)
	}
	if notices >= manyNotices {
		select {
		case <-time.After(noticePause):
		case <-ctx.Done():
		}
	}
	return calls
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
	if n <= messageStep {
		body := make([]byte, n)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var body bytes.Buffer // grows with the data: a program may announce what never comes
	_, err := io.CopyN(&body, r, int64(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
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
