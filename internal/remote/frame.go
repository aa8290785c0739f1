package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// kind is the first byte of a frame. On the stream of a request both sides send frames: the
// kind, four bytes with the length, and the payload of that length.
type kind byte

// Frames from the api.
const (
	kindRequest   kind = 'R' // runRequest, first
	kindBlob      kind = 'B' // blobAddress, the answer to kindNeed; with Stream kindBytes follow
	kindArchive   kind = 'M' // imageAddress, the answer to kindImage
	kindBytes     kind = 'D' // of a blob; an empty one ends it
	kindAddresses kind = 'P' // []blobAddress, the answer to kindOutputs
	kindAnswer    kind = 'A' // callAnswer
	kindFreeze    kind = 'F' // a byte, an engine.Motion: 0 resumes the program, others stop it
	kindInterrupt kind = 'I'
	kindDrain     kind = 'N' // a number in 8 bytes, which comes back when it is done
	kindCancel    kind = 'C'
)

// Frames from the worker.
const (
	kindNeed    kind = 'n' // engine.Blob, an input that it does not have
	kindImage   kind = 'm' // empty: the worker does not have the files of the program's image
	kindStarted kind = 'a' // free slots; after it the request is never sent to another worker
	kindStdout  kind = 'o'
	kindStderr  kind = 'e'
	kindCall    kind = 'c' // call
	kindRest    kind = 'r' // rest
	kindContact kind = 'k' // contacts
	kindOutputs kind = 'u' // []engine.Blob, to be stored
	kindDone    kind = 'z' // result, the last one
	kindAllDone kind = 'y' // empty: nothing is left of what a process has started
	// kindBytes, kindDrain likewise
)

const maxFrame = 64 << 20 // a program with its stdin in base64 fits

// frames reads and writes frames. Goroutines may send at the same time.
type frames struct {
	r     io.Reader
	flush func() error // nil: writing is enough

	mu sync.Mutex
	w  io.Writer
}

func (f *frames) send(k kind, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	frame := make([]byte, 5, 5+len(payload))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	if _, err := f.w.Write(append(frame, payload...)); err != nil || f.flush == nil {
		return err
	}
	return f.flush()
}

func (f *frames) sendJSON(k kind, message any) error {
	payload, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return f.send(k, payload)
}

// receive reads the next frame.
func (f *frames) receive() (kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", length)
	}
	if length <= frameStep {
		payload := make([]byte, length)
		_, err := io.ReadFull(f.r, payload)
		return kind(head[0]), payload, unexpected(err)
	}
	var payload bytes.Buffer // memory is spent as the bytes arrive, not as a header announces them
	_, err := io.CopyN(&payload, f.r, int64(length))
	return kind(head[0]), payload.Bytes(), unexpected(err)
}

// frameStep is the length up to which a frame gets its memory at once.
const frameStep = 256 << 10

// blobReader reads a blob from kindBytes frames.
type blobReader struct {
	frames *frames
	rest   []byte
	ended  bool
}

func (b *blobReader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		k, payload, err := b.frames.receive()
		if err != nil {
			return 0, unexpected(err)
		}
		if k != kindBytes {
			return 0, fmt.Errorf("a frame %q among the bytes of a file", k)
		}
		b.rest, b.ended = payload, len(payload) == 0
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameWriter sends what is written to it in frames of a kind. Close sends an empty one.
type frameWriter struct {
	frames *frames
	kind   kind
}

func (w frameWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := w.frames.send(w.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w frameWriter) Close() error { return w.frames.send(w.kind, nil) }

// sendBytes sends a blob.
func (f *frames) sendBytes(r io.Reader) error {
	w := frameWriter{f, kindBytes}
	// A reader that writes itself to w would choose smaller frames.
	if _, err := io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, 256<<10)); err != nil {
		return err
	}
	return w.Close()
}

// decoded calls f with the message in a payload.
func decoded[T any](payload []byte, f func(T) error) error {
	var message T
	if err := json.Unmarshal(payload, &message); err != nil {
		return err
	}
	return f(message)
}
