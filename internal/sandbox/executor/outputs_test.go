package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// heard is a host that records the output of the streams, in order.
type heard struct {
	sandboxtest.Host
	parts []string
	sizes map[engine.Stream]int
}

func (h *heard) Output(stream engine.Stream, data []byte) {
	h.sizes[stream] += len(data)
	if len(data) < 100 {
		h.parts = append(h.parts, fmt.Sprintf("%s %s", stream, data))
	}
}

func (h *heard) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// twoPipes returns outputs, and the program's ends.
func twoPipes(t *testing.T) (_ *outputs, stdout, stderr *os.File) {
	t.Helper()
	var ours, theirs []*os.File
	for range streams {
		p, err := newOutputEnds()
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = append(ours, p.ours), append(theirs, p.theirs)
	}
	o, err := newOutputs(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.close(); CloseAll(theirs...) })
	return o, theirs[0], theirs[1]
}

// The stream that was written to first is delivered first, even if both have data when
// reading begins.
func TestOutputsInOrder(t *testing.T) {
	for i := range 100 {
		o, first, second := twoPipes(t)
		want := []string{"stdout a", "stderr b"}
		if i%2 == 1 {
			first, second = second, first
			want = []string{"stderr a", "stdout b"}
		}
		fmt.Fprint(first, "a")
		fmt.Fprint(second, "b")
		first.Close()
		second.Close()
		h := &heard{sizes: map[engine.Stream]int{}}
		o.pump(h)
		if fmt.Sprint(h.parts) != fmt.Sprint(want) {
			t.Fatalf("%q, want %q", h.parts, want)
		}
	}
}

// An endless stream does not block the other one, and no byte is lost.
func TestOutputsFirehose(t *testing.T) {
	o, stdout, stderr := twoPipes(t)
	block := bytes.Repeat([]byte("x"), 1<<20)
	go func() {
		defer stdout.Close()
		for range 64 {
			if _, err := stdout.Write(block); err != nil {
				return
			}
		}
	}()
	go func() {
		defer stderr.Close()
		for range 100 {
			fmt.Fprint(stderr, "y")
		}
	}()
	h := &heard{sizes: map[engine.Stream]int{}}
	o.pump(h)
	if h.sizes[engine.Stdout] != 64<<20 || h.sizes[engine.Stderr] != 100 {
		t.Errorf("%v", h.sizes)
	}
}

// Closing the pipes is not blocked by a reader.
func TestOutputsClose(t *testing.T) {
	o, stdout, _ := twoPipes(t)
	fmt.Fprint(stdout, "a")
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.pump(&heard{sizes: map[engine.Stream]int{}})
	}()
	o.close()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it still reads")
	}
}

// closer closes a pipe when its first data arrives: the pipe is reported as readable,
// and again as closed after it was read to its end.
type closer struct {
	heard
	pipe *os.File
}

func (c *closer) Output(stream engine.Stream, data []byte) {
	c.heard.Output(stream, data)
	if stream == engine.Stderr {
		c.pipe.Close()
	}
}

// The end of one stream does not end the other.
func TestOutputsEndOfOne(t *testing.T) {
	o, stdout, stderr := twoPipes(t)
	fmt.Fprint(stderr, "y")
	h := &closer{heard: heard{sizes: map[engine.Stream]int{}}, pipe: stderr}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.pump(h)
	}()
	fmt.Fprint(stdout, "a")
	select {
	case <-done:
		t.Error("it ended with the first")
	case <-time.After(50 * time.Millisecond):
	}
	stdout.Close()
	<-done
	if h.sizes[engine.Stdout] != 1 || h.sizes[engine.Stderr] != 1 {
		t.Errorf("%v", h.sizes)
	}
}
