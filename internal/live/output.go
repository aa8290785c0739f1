package live

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/time/rate"
)

// output holds the last part of what a process has written or, where the whole is wanted, its first
// part, too.
type output struct {
	mu      sync.Mutex
	head    []chunk // the first part
	headed  bool    // it is complete
	chunks  []chunk // oldest first
	size    int     // of them
	cut     bool    // some output is in neither
	next    int64   // offset of the next byte
	exit    *Process
	changed chan struct{} // closed and replaced when there is more

	followers map[*int64]bool                 // positions of followers that miss no output
	keep      func(all [][]byte) *wholeStream // nil: only the last part is kept
	over      bool                            // no more of it is kept whole
	wholes    map[ProcessEventType]*wholeStream
	files     []WholeFile

	behind chan struct{} // closed and replaced when a follower advances; nil: the program does not wait
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
			if whole := o.write(stream, buffer[:n]); whole != nil {
				whole.await()
			}
			_ = limit.WaitN(context.Background(), n) // it is never more than the burst
		}
		if err != nil {
			return
		}
	}
}

// write appends data, and drops as much of the oldest data that is not in the head. It returns where all of
// the stream goes, if some of it was dropped.
func (o *output) write(stream ProcessEventType, data []byte) *wholeStream {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := &o.chunks
	if o.keep != nil && !o.headed {
		list = &o.head
	}
	costs := len(data)
	var c *chunk
	if last := len(*list) - 1; last >= 0 && (*list)[last].stream == stream {
		c = &(*list)[last]
	}
	if c != nil && len(c.data)+len(data) <= largestChunk {
		c.data = append(c.data, data...) // readers have slices that end before
		data = c.data[len(c.data)-len(data):]
	} else {
		data = slices.Clone(data)
		*list = append(*list, chunk{stream, o.next, data})
		costs += chunkCost
	}
	whole := o.wholes[stream]
	if whole != nil {
		whole.put(data)
	}
	o.next += int64(len(data))
	o.size += costs
	if list == &o.head && o.size > keptHead {
		o.headed, o.size = true, 0
	}
	for o.size > keptOutput {
		o.drop()
	}
	o.tell()
	return o.wholes[stream]
}

// drop drops the oldest chunk after the head. The caller holds mu.
func (o *output) drop() {
	dropped := o.chunks[0]
	if o.keep != nil && o.wholes[dropped.stream] == nil && !o.over {
		var all [][]byte
		for _, c := range slices.Concat(o.head, o.chunks) {
			if c.stream == dropped.stream {
				all = append(all, c.data[:len(c.data):len(c.data)])
			}
		}
		if o.wholes == nil {
			o.wholes = map[ProcessEventType]*wholeStream{}
		}
		o.wholes[dropped.stream] = o.keep(all)
	}
	o.cut = true
	o.size -= len(dropped.data) + chunkCost
	o.chunks[0] = chunk{} // frees its data
	o.chunks = o.chunks[1:]
}

// endWhole returns where all of a stream went; no more of it will.
func (o *output) endWhole(stream ProcessEventType) *wholeStream {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := o.wholes[stream]
	delete(o.wholes, stream)
	o.over = true
	return whole
}

func (o *output) name(file WholeFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files = append(o.files, file)
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

// state sets what a process says of its output.
func (o *output) state(p *Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.Output, p.Truncated, p.Whole = o.next, o.cut, slices.Clone(o.files)
}

// find returns the place of the chunk at an offset.
func find(chunks []chunk, from int64) (i int, found bool) {
	return slices.BinarySearchFunc(chunks, from, func(c chunk, at int64) int {
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
	chunks := o.chunks
	i, found := find(chunks, from)
	if n := len(o.head); n > 0 && from < o.head[n-1].offset+int64(len(o.head[n-1].data)) {
		chunks = o.head
		i, found = find(chunks, from)
	}
	switch {
	case found:
		c := chunks[i]
		return ProcessEvent{Type: c.stream, Offset: from, Data: slices.Clip(c.data[from-c.offset:])}, true, nil
	case i < len(o.chunks):
		return ProcessEvent{Type: ProcessDropped, Offset: from, Dropped: o.chunks[i].offset - from,
			Files: slices.Clone(o.files)}, true, nil
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
	if all && len(o.head) > 0 {
		at = 0
	} else if all {
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
			i, _ := find(o.chunks, *at)
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
