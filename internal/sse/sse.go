// Package sse reads streams of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// ErrTooLong is the error of an event over the limit.
var ErrTooLong = errors.New("an event is too long")

// Event is an event with at least one data field. Data has the lines of these fields.
type Event struct {
	ID   string
	Type string
	Data []byte
}

// Read returns the events of a stream, each of at most the given bytes. It drops an event that
// the end of the stream cuts off.
func Read(r io.Reader, most int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewReaderSize(r, 32<<10)
		var e Event
		for {
			line, err := readLine(lines, most-len(e.Data))
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if len(e.Data) > 0 && !yield(Event{e.ID, e.Type, bytes.TrimSuffix(e.Data, []byte("\n"))}, nil) {
					return
				}
				e = Event{}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "id":
				e.ID = string(value)
			case "event":
				e.Type = string(value)
			case "data":
				e.Data = append(append(e.Data, value...), '\n')
			}
		}
	}
}

func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return nil, ErrTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}
