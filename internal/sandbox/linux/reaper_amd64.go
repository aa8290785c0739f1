package linux

import (
	"bytes"
	"unsafe"
)

// reaper is only ever copied; see reaper_amd64.s.
func reaper() //nolint:unused // the assembler's name for it

var reaperStart unsafe.Pointer

// reaperCode returns the machine code of pid 1 of a forked sandbox.
func reaperCode() []byte {
	const most = 512
	end := bytes.Repeat([]byte{0xCC}, 8)
	code, _, _ := bytes.Cut(unsafe.Slice((*byte)(reaperStart), most), end)
	return bytes.Clone(code)
}
