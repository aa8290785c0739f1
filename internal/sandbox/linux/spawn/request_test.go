package spawn

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A result is stored where a later step expects it, and a result passed on is loaded
// from its offset.
func TestForkRequest(t *testing.T) {
	attr := make([]byte, 12)
	open := Call("open", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc", 0)
	open.Result = new(int32)
	rule := Call("rule", unix.SYS_LANDLOCK_ADD_RULE, os.Stderr, 1, attr, 0)
	rule.Filled = Filled{Argument: 2, Offset: 8, With: open.Result}
	shut := Call("close", unix.SYS_CLOSE, 0)
	shut.From = open.Result

	body, files := (&Request{Setup: []Step{open, rule}, Main: []Step{shut}, Received: open.Result,
		Prepare: 2}).Encode()
	if len(files) != 1 || files[0] != os.Stderr {
		t.Errorf("files %v", files)
	}
	buffer := append(make([]byte, bufferRequest), body...)
	word := func(at int) int { return int(binary.NativeEndian.Uint32(buffer[at:])) }
	arg := func(step, i int) int {
		return int(binary.NativeEndian.Uint64(buffer[bufferSteps+step*stepSize+16+8*i:]))
	}
	if head := [6]int{word(256), word(260), word(264), word(268), word(272), word(276)}; head != [6]int{
		2, 0, 1, 0, 2, arg(1, 2) + 8} {
		t.Errorf("head %v", head)
	}
	const kinds, result = 4, 8
	if path := arg(0, 1); string(buffer[path:path+6]) != "/proc\x00" || word(bufferSteps+kinds) != byAddress<<2 {
		t.Errorf("the path lies at %d; kinds %b", path, word(bufferSteps+kinds))
	}
	if at := word(bufferSteps + result); at != arg(1, 2)+8 {
		t.Errorf("the result of the first step is put at %d, looked for at %d", at, arg(1, 2)+8)
	}
	if got := word(bufferSteps + stepSize + kinds); got != byValue|byAddress<<4 || arg(1, 0) != 0 {
		t.Errorf("the file and the attributes have kinds %b", got)
	}
	if got := word(bufferSteps + 2*stepSize + kinds); got != byValue || arg(2, 0) != arg(1, 2)+8 {
		t.Errorf("the passed result has kind %b and lies at %d", got, arg(2, 0))
	}
}

// A command has the memory layout that the executing process expects.
func TestEncodeCommand(t *testing.T) {
	if _, err := EncodeCommand("/", []string{strings.Repeat("x", mostCommand)}, nil, 7); err == nil {
		t.Error("one that has no room is accepted")
	}
}
