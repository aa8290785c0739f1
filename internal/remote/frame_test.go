package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// The header of a frame alone takes no memory for what it announces.
func TestFrameMemory(t *testing.T) {
	head := binary.BigEndian.AppendUint32([]byte{byte(kindStdout)}, maxFrame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 16
	for range times {
		f := &frames{r: io.MultiReader(bytes.NewReader(head), bytes.NewReader(make([]byte, 1000)))}
		if _, _, err := f.receive(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a frame that is cut: %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / times; took > 1<<20 {
		t.Errorf("a header takes %d bytes", took)
	}
	for _, n := range []int{0, 1, frameStep, frameStep + 1, 3 << 20} {
		var text bytes.Buffer
		f := &frames{r: &text, w: &text}
		want := bytes.Repeat([]byte{7}, n)
		if err := f.send(kindStderr, want); err != nil {
			t.Fatal(err)
		}
		if k, got, err := f.receive(); k != kindStderr || !bytes.Equal(got, want) || err != nil || text.Len() > 0 {
			t.Errorf("%d bytes: %q, %d bytes, %v", n, k, len(got), err)
		}
	}
}

// The cause that callers branch on crosses the wire.
func TestFailureKeepsNoProgram(t *testing.T) {
	sent := &engine.Error{Op: "enter", Kind: engine.ErrConflict, Err: engine.ErrNoProgram}
	b, err := json.Marshal(newFailure(sent))
	if err != nil {
		t.Fatal(err)
	}
	var f failure
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	if got := f.err(); !errors.Is(got, engine.ErrNoProgram) || got.Error() != sent.Error() {
		t.Errorf("got %v, want %v", got, sent)
	}
}
