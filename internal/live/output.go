package live

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/time/rate"
)

// output holds the last part of what a process has written.
type output struct {
	mu      sync.Mutex
	chunks  []chunk // oldest first
	size    int
	next    int64 // offset of the next byte
	exit    *Process
	changed chan struct{} // closed and replaced when there is more

	followers map[*int64]bool // positions of followers that miss no output
	behind    chan struct{}   // closed and replaced when a follower advances; nil: the program does not wait
}

type chunk struct {
	stream ProcessEventType
	offset int64
	data   []byte
}

const (
	largestChunk = 32 << 10
	chunkCost    = 128 // of the smallest
)

// pump reads a stream to its end.
func (o *output) pump(stream ProcessEventType, from io.Reader) {
	buffer := make([]byte, largestChunk)
	limit := rate.NewLimiter(outputRate, outputBurst)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			o.awaitFollowers()
			o.write(stream, buffer[:n])
			_ = limit.WaitN(context.Background(), n) // it is never more than the burst
		}
		if err != nil {
			return
		}
	}
}

// write appends data, and drops as much of the oldest data.
func (o *output) write(stream ProcessEventType, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, costs := len(o.chunks)-1, 0
	if last >= 0 && o.chunks[last].stream == stream && len(o.chunks[last].data)+len(data) <= largestChunk {
		o.chunks[last].data = append(o.chunks[last].data, data...) // readers have slices that end before
	} else {
		o.chunks = append(o.chunks, chunk{stream, o.next, slices.Clone(data)})
		costs = chunkCost
	}
	o.next += int64(len(data))
	o.size += len(data) + costs
	for o.size > keptOutput {
		o.size -= len(o.chunks[0].data) + chunkCost
		o.chunks[0] = chunk{} // frees its data
		o.chunks = o.chunks[1:]
	}
	o.tell()
}

func (o *output) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) end(p *Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exit = p
	o.tell()
}

func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next
}

// find returns the place of the chunk at an offset. The caller holds mu.
func (o *output) find(from int64) (i int, found bool) {
	return slices.BinarySearchFunc(o.chunks, from, func(c chunk, at int64) int {
		switch {
		case c.offset+int64(len(c.data)) <= at:
			return -1
		case c.offset > at:
			return 1
		}
		return 0
	})
}

// after returns the event at an offset; ok is false if there is none yet.
func (o *output) after(from int64) (e ProcessEvent, ok bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, found := o.find(from)
	switch {
	case found:
		c := o.chunks[i]
		return ProcessEvent{Type: c.stream, Offset: from, Data: slices.Clip(c.data[from-c.offset:])}, true, nil
	case i < len(o.chunks):
		return ProcessEvent{Type: ProcessDropped, Offset: from, Dropped: o.chunks[i].offset - from}, true, nil
	case o.exit != nil:
		return ProcessEvent{Type: ProcessExit, Offset: o.next, Process: o.exit}, true, nil
	}
	return ProcessEvent{}, false, o.changed
}

// follower adds a reader that misses no output.
func (o *output) follower(all bool) *int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.next
	if all {
		at -= int64(o.kept())
	}
	if o.followers == nil {
		o.followers = map[*int64]bool{}
	}
	o.followers[&at] = true
	return &at
}

func (o *output) kept() (bytes int) {
	for _, c := range o.chunks {
		bytes += len(c.data)
	}
	return bytes
}

func (o *output) leave(at *int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.followers, at)
	o.progressed()
}

func (o *output) progressed() {
	if o.behind != nil {
		close(o.behind)
		o.behind = nil
	}
}

// awaitFollowers blocks while a follower is far behind.
func (o *output) awaitFollowers() {
	for {
		o.mu.Lock()
		far := false
		for at := range o.followers {
			i, _ := o.find(*at)
			far = far || o.next-*at > keptOutput/4 || len(o.chunks)-i > keptOutput/4/chunkCost
		}
		if far && o.behind == nil {
			o.behind = make(chan struct{})
		}
		behind := o.behind
		o.mu.Unlock()
		if !far {
			return
		}
		<-behind
	}
}

// read yields the output from an offset on, and then new output. at is the offset of a follower, or
// nil.
func (o *output) read(ctx context.Context, from int64, at *int64, yield func(ProcessEvent) bool) {
	for {
		e, ok, changed := o.after(from)
		if !ok {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !yield(e) || e.Type == ProcessExit {
			return
		}
		from += int64(len(e.Data)) + e.Dropped
		if at != nil {
			o.mu.Lock()
			*at = from
			o.progressed()
			o.mu.Unlock()
		}
	}
}

// await waits for the end.
func (o *output) await(ctx context.Context) error {
	for {
		o.mu.Lock()
		ended, changed := o.exit != nil, o.changed
		o.mu.Unlock()
		if ended {
			return nil
		}
		if err := await(ctx, changed); err != nil {
			return fmt.Errorf("wait for a process: %w", err)
		}
	}
}
