// Package sse reads a stream of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxEvent is how long one event may be: a picture can be in it.
const maxEvent = 64 << 20

// Event is one event. Data has the lines of its data fields.
type Event struct {
	Type string
	Data []byte
}

// Read goes through the events of a stream. One that its end cuts off is not
// among them.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewReaderSize(r, 32<<10)
		var e Event
		for {
			line, err := readLine(lines, len(e.Data))
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if len(e.Data) > 0 && !yield(Event{e.Type, bytes.TrimSuffix(e.Data, []byte("\n"))}, nil) {
					return
				}
				e = Event{}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				e.Type = string(value)
			case "data":
				e.Data = append(append(e.Data, value...), '\n')
			}
		}
	}
}

func readLine(r *bufio.Reader, have int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if have+len(line) > maxEvent {
			return nil, fmt.Errorf("an event of over %d bytes", maxEvent)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}
