package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// One owner's large bodies leave room for those of others, and the room comes
// back.
func TestRoomForBodies(t *testing.T) {
	var b Bodies
	taken := 0
	for b.reserve("mallory", 8<<20) {
		taken++
	}
	if taken != maxOwnerBodies/(8<<20) {
		t.Errorf("one owner has %d bodies", taken)
	}
	large := strings.Repeat("x", 1<<20)
	if _, err := b.Read("mallory", strings.NewReader(large), int64(len(large)), 2<<20); !errors.Is(err, ErrBodies) {
		t.Errorf("one more: %v", err)
	}
	if text, err := b.Read("mallory", strings.NewReader("small"), -1, 2<<20); err != nil || string(text) != "small" {
		t.Errorf("a small one: %q, %v", text, err)
	}
	if text, err := b.Read("alice", strings.NewReader(large), int64(len(large)), 2<<20); err != nil ||
		string(text) != large {
		t.Errorf("and another none: %v", err)
	}
	for range taken {
		b.counted.Remove("mallory", 8<<20)
	}
	if !b.counted.Empty() {
		t.Errorf("left: %+v", &b.counted)
	}
}

func TestReadBodies(t *testing.T) {
	var b Bodies
	broken := errors.New("broken")
	for _, size := range []int{0, 1, smallBody - 1, smallBody, smallBody + 1, 1 << 20, 3<<20 + 7} {
		want := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		for _, length := range []int64{int64(size), -1} {
			for name, from := range map[string]io.Reader{
				"at once": bytes.NewReader(want), "in halves": iotest.HalfReader(bytes.NewReader(want)),
				"end with data": iotest.DataErrReader(bytes.NewReader(want)),
			} {
				if got, err := b.Read("o", from, length, 4<<20); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, length %d, %s: %d bytes, %v", size, length, name, len(got), err)
				}
			}
			if _, err := b.Read("o", io.MultiReader(bytes.NewReader(want), iotest.ErrReader(broken)), length, 4<<20); !errors.Is(
				err, broken) {
				t.Errorf("%d bytes, length %d, broken: %v", size, length, err)
			}
		}
	}
	if !b.counted.Empty() {
		t.Errorf("left: %+v", &b.counted)
	}
}
