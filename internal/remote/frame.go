package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// On the stream of a request both sides send frames: a byte that says what it is, four
// with its length, and so many bytes.

type kind byte

// What the api sends.
const (
	kindRequest   kind = 'R' // runRequest, first
	kindBlob      kind = 'B' // blobPlace, the answer to kindNeed; with Stream kindBytes follow
	kindBytes     kind = 'D' // of a blob; none: its end
	kindPlaces    kind = 'P' // []blobPlace, the answer to kindOutputs
	kindAnswer    kind = 'A' // callAnswer
	kindFreeze    kind = 'F' // a byte: 1 stops the program, 0 lets it go on
	kindInterrupt kind = 'I'
	kindDrain     kind = 'N' // number, in 8 bytes, comes back when it is done
	kindCancel    kind = 'C'
)

// What the worker sends.
const (
	kindNeed    kind = 'n' // engine.Blob, an input that it does not have
	kindStarted kind = 'a' // from here on the request is never tried elsewhere
	kindStdout  kind = 'o'
	kindStderr  kind = 'e'
	kindCall    kind = 'c' // call
	kindRest    kind = 'r' // rest
	kindContact kind = 'k' // contacts
	kindOutputs kind = 'u' // []engine.Blob, what is to be stored
	kindDone    kind = 'z' // result, the last one
	// kindBytes, kindDrain likewise
)

const maxFrame = 64 << 20 // of a program with its stdin in base64

// frames reads and writes frames. Many may write at once.
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
	payload := make([]byte, length)
	_, err := io.ReadFull(f.r, payload)
	return kind(head[0]), payload, err
}

// bytesIn is the part of a stream in which a blob comes.
type bytesIn struct {
	frames *frames
	rest   []byte
	ended  bool
}

func (b *bytesIn) Read(p []byte) (int, error) {
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

// sendBytes sends a blob.
func (f *frames) sendBytes(r io.Reader) error {
	buffer := make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(r, buffer)
		if n > 0 {
			if sent := f.send(kindBytes, buffer[:n]); sent != nil {
				return sent
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return f.send(kindBytes, nil)
		}
		if err != nil {
			return err
		}
	}
}
