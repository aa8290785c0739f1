package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection speaks just enough HTTP/1.1 for a load generator: requests that
// were written beforehand go out as they are, and nothing is allocated for an
// answer. net/http would take more of the cores than some of the services.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	body   []byte // of the last answer, until the next
	timing string // Server-Timing of the last answer
}

func dial(address string) (*connection, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *connection) close() { c.conn.Close() }

// answerTime is how long an answer may take before the service is abandoned.
const answerTime = 5 * time.Minute

// newRequest writes a request as it goes over the wire. Headers are whole
// lines: "Accept: text/plain".
func newRequest(method, path, host string, body []byte, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for _, line := range headers {
		fmt.Fprintf(&b, "%s\r\n", line)
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// Headers of requests.
const (
	asJSON  = "Content-Type: application/json"
	asBytes = "Content-Type: application/octet-stream"
)

// do sends a request and reads the whole answer, which must be a success.
func (c *connection) do(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	status, length, chunked, err := c.readHeader()
	if err != nil {
		return err
	}
	c.body = c.body[:0]
	if chunked {
		err = c.readChunks()
	} else {
		err = c.readBody(length)
	}
	if err == nil && (status < 200 || status > 299) {
		err = &statusError{status, string(c.body[:min(len(c.body), 200)])}
	}
	return err
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	body   string // its beginning
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// readHeader reads up to the body. Its length is 0 where none is named: our
// peers name it or send chunks, unless there is no body.
func (c *connection) readHeader() (status, length int, chunked bool, err error) {
	line, err := c.readLine()
	if err != nil {
		return 0, 0, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, false, fmt.Errorf("no answer in HTTP/1.1: %.50q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, fmt.Errorf("no status: %.50q", line)
	}
	c.timing = ""
	for {
		if line, err = c.readLine(); err != nil || len(line) == 0 {
			return status, length, chunked, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, 0, false, fmt.Errorf("bad Content-Length: %.50q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Server-Timing")):
			c.timing = string(value)
		}
	}
}

// readLine returns a line without its end, until the next is read.
func (c *connection) readLine() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func (c *connection) readBody(length int) error {
	at := len(c.body)
	if need := at + length; cap(c.body) < need {
		c.body = append(make([]byte, 0, need+need/4), c.body...)
	}
	c.body = c.body[:at+length]
	_, err := io.ReadFull(c.reader, c.body[at:])
	return err
}

func (c *connection) readChunks() error {
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(line), 16, 32)
		if err != nil {
			return fmt.Errorf("bad chunk: %.20q", line)
		}
		if err := c.readBody(int(size)); err != nil {
			return err
		}
		if _, err := c.readLine(); err != nil || size == 0 {
			return err
		}
	}
}
