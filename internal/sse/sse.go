// Package sse reads a stream of server-sent events, whoever sends it.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// ErrTooLong is the error of a stream with an event that is longer than may be.
var ErrTooLong = errors.New("an event is too long")

// Event is one event. Data has the lines of its data fields; without one it is none.
type Event struct {
	ID   string
	Type string
	Data []byte
}

// Read goes through the events of a stream, each of at most so many bytes. One that
// its end cuts off is not among them.
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
