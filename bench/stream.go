package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// streaming prints the time at which it prints. The clock is the machine's:
// outside and inside read the same one.
const streaming = `import time
for _ in range(5):
    print(time.monotonic_ns(), flush=True)
    time.sleep(0.02)
`

// measureStream measures the delay between a program's write and the client's read.
func (b *bench) measureStream(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	c, err := dial(b.warm.address)
	if err != nil {
		return err
	}
	defer c.close()
	body, err := json.Marshal(map[string]string{"language": "python", "code": streaming})
	if err != nil {
		return err
	}
	request := newRequest("POST", runsPath, b.warm.address, body, asJSON, "Accept: text/event-stream")
	var first, later sample
	for range b.plan.streams {
		pause(ctx, rest)
		delays, err := c.follow(request)
		if err != nil {
			return err
		}
		first = append(first, delays[0])
		later = append(later, delays[1:]...)
	}
	b.results.Stream = &Stream{First: first.summary(), Later: later.summary()}
	fmt.Fprintf(b.progress, "   first line after %.2f ms, later ones after %.2f ms\n", b.results.Stream.First.P50,
		b.results.Stream.Later.P50)
	return ctx.Err()
}

// follow sends a request and notes, for each line of output, how old it is
// when it arrives.
func (c *connection) follow(request []byte) (delays sample, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	status, _, chunked, err := c.readHeader()
	if err != nil {
		return nil, err
	}
	if status != 200 || !chunked {
		return nil, fmt.Errorf("status %d, and no stream", status)
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(string(line), 16, 32)
		if err != nil {
			return nil, fmt.Errorf("bad chunk: %.20q", line)
		}
		c.body = c.body[:0]
		if err := c.readBody(int(size)); err != nil {
			return nil, err
		}
		now := monotonic()
		if _, err := c.readLine(); err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		if written, ok := lineTime(c.body); ok {
			delays = append(delays, now-written)
		}
	}
	if len(delays) < 2 {
		return nil, errors.Join(errors.New("the stream had no output"), io.ErrUnexpectedEOF)
	}
	return delays, nil
}

// monotonic is CLOCK_MONOTONIC, which Go's own monotonic clock hides.
func monotonic() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail for this clock
	return time.Duration(now.Nano())
}

// lineTime reads the time that the program printed out of an output event.
func lineTime(event []byte) (time.Duration, bool) {
	_, rest, ok := bytes.Cut(event, []byte(`"stream":"stdout","data":"`))
	if !ok {
		return 0, false
	}
	// The end of the line may come in an event of its own.
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	ns, err := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return time.Duration(ns), err == nil
}
