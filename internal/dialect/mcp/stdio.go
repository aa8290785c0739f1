package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on standard input.
const maxLine = 16 << 20

const notJSON = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a line with one JSON message of at most 16 MiB is needed"}}` + "\n"

// Stdio is the transport over standard input and output. What is no message is
// answered as such: the SDK would end the process.
func Stdio(in io.Reader, out io.Writer) sdk.Transport {
	r, w := io.Pipe()
	to := &lockedWriter{to: out}
	go func() { // ends with the input, or when the server closes the pipe
		w.CloseWithError(copyMessages(w, in, to))
	}()
	return &sdk.IOTransport{Reader: r, Writer: to, MaxLineLength: maxLine + 1}
}

// copyMessages passes on the lines that hold JSON.
func copyMessages(to io.Writer, from io.Reader, refusals io.Writer) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, long, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 || long {
			if long || !json.Valid(line) {
				if _, err := io.WriteString(refusals, notJSON); err != nil {
					return err
				}
			} else if _, err := to.Write(append(bytes.TrimSpace(line), '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return err // io.EOF: the host has left
		}
	}
}

// readLine reads a line, without its end if that is more than maxLine away.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// lockedWriter writes whole messages of several writers.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// Close implements io.Closer. Standard output stays open for the process.
func (w *lockedWriter) Close() error { return nil }
