package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
)

// The length of a message, which a program sends, takes no memory for what it announces.
func TestMessageMemory(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, maxCall)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 16
	for range times {
		_, err := readMessage(io.MultiReader(bytes.NewReader(head), bytes.NewReader(make([]byte, 1000))), maxCall)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a message that is cut: %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / times; took > 1<<20 {
		t.Errorf("a length takes %d bytes", took)
	}
	for _, n := range []int{0, 1, messageStep, messageStep + 1, maxCall} {
		want := bytes.Repeat([]byte{7}, n)
		got, err := readMessage(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(n)), want...)), maxCall)
		if !bytes.Equal(got, want) || err != nil {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
	}
	if _, err := readMessage(bytes.NewReader(head), maxCall-1); !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("a message that is too long: %v", err)
	}
}
