package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Stdio is the protocol over standard input and output, in front of a service. Messages are relayed
// unchanged, so that it has the features of the service and the host. Only the tools for a person's
// folders are local.
type Stdio struct {
	// Connect returns the service. It is called for the first message, and again for the next one
	// after an error.
	Connect func(context.Context) (*Endpoint, error)
	// Send stores the named files and returns their ids; nil: the names are ids already. roots asks the
	// host for the folders that it works in; there are none if it does not tell.
	Send func(ctx context.Context, names []string, roots func(context.Context) []string) ([]string, error)
	// Save saves the files that a program made, and returns a sentence with their paths;
	// nil: they stay in the service.
	Save func(ctx context.Context, files []MadeFile) (string, error)

	Changes Changes // folders of a person; nil: their tools are missing
	Version string
}

// Endpoint is an address where a service serves the protocol.
type Endpoint struct {
	URL    string
	Client *http.Client
}

// MadeFile is a file that a program made, as a result describes it.
type MadeFile struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	maxLine = 16 << 20 // bytes of a message on standard input

	// lastAnswers is the time for calls to end after the end of the input. Then they are cancelled.
	lastAnswers = 500 * time.Millisecond
	goodbye     = time.Second // to tell the service that a session has ended

	notJSON = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a line with one JSON message of at most 16 MiB is needed"}}`
)

// Serve relays messages until the input or the context ends.
func (o Stdio) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	within, end := context.WithCancel(ctx)
	defer end()
	r := &relay{Stdio: o, out: out, open: map[string]*exchange{}}
	if o.Changes != nil {
		r.local = r.startLocal(within)
	}
	failed := make(chan error, 1)
	go func() { // the input may stay open for longer than the context
		failed <- readLines(in, func(line []byte) {
			if within.Err() == nil {
				r.relayMessage(within, line)
			}
		})
	}()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ended := make(chan struct{})
	go func() { defer close(ended); r.calls.Wait() }()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(lastAnswers):
	}
	end()
	r.leave()
	<-ended
	if r.local != nil {
		r.local.close()
	}
	return err
}

// readLines calls take for each line that is not empty. A line that is too long is passed as nil.
func readLines(from io.Reader, take func([]byte)) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, long, err := readLine(lines)
		if line = bytes.TrimSpace(line); len(line) > 0 || long {
			take(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil // the host has disconnected
		case err != nil:
			return err
		}
	}
}

// readLine reads a line. It drops the rest of a line longer than maxLine.
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

// envelope has the members of a message that the relay reads.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		Cursor    string          `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result struct {
		Version string `json:"protocolVersion"`
	} `json:"result"`

	session string // the session of the message; empty: the current one
}

// readEnvelope reports whether a line is JSON. The service refuses members of wrong types.
func readEnvelope(line []byte) (m envelope, ok bool) {
	err := json.Unmarshal(line, &m)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	return m, err == nil || mistyped
}

func (m *envelope) isCall() bool { return m.ID != nil && m.Method != "" }

// write writes a message as a line.
func (r *relay) write(data []byte) {
	if bytes.IndexByte(data, '\n') >= 0 {
		var line bytes.Buffer
		if json.Compact(&line, data) != nil {
			return
		}
		data = line.Bytes()
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	_, _ = r.out.Write(append(data[:len(data):len(data)], '\n')) // a disconnected host closes the input, too
}

// fail answers a call that did not reach the service. A tool call gets a text for the
// model.
func (r *relay) fail(m *envelope, code int, text string) {
	key, value := "error", map[string]any{"code": code, "message": text}
	if m.Method == "tools/call" {
		key, value = "result", map[string]any{"isError": true, "resultType": "complete",
			"content": []any{map[string]string{"type": "text", "text": text}}}
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, key: value})
	if err == nil && m.isCall() {
		r.write(line)
	}
}

// relay relays the messages of one host.
type relay struct {
	Stdio
	local *local // nil: there are no local tools
	calls sync.WaitGroup

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	to       *Endpoint
	hello    []byte // the host's initialize, to repeat after a restart of the service
	session  string // of the protocol
	version  string // protocol version of the session
	open     map[string]*exchange
	renewing sync.Mutex
	asking   sync.Mutex  // the host for its roots
	answered chan []byte // its answer; nil: it is not asked
}

// exchange is a call in progress.
type exchange struct {
	cancel context.CancelFunc
	done   chan struct{}
}
