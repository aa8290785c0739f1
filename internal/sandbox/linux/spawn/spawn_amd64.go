package spawn

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unsafe"
)

// spawn, initProcess and awaitCommand are only copied, never called; see spawn_amd64.s.
func spawn()        //nolint:unused // the assembler's name for it
func initProcess()  //nolint:unused // the same
func awaitCommand() //nolint:unused // the same

var spawnStart, initStart, commandStart unsafe.Pointer

// Code returns the machine code with which a zygote creates a sandbox.
func Code() []byte { return machineCode(spawnStart) }

func machineCode(start unsafe.Pointer) []byte {
	const most = 2048
	end := bytes.Repeat([]byte{0xCC}, 8)
	code, _, _ := bytes.Cut(unsafe.Slice((*byte)(start), most), end)
	return bytes.Clone(code)
}

// InitProgram returns the program of pid 1 in a waiting sandbox.
func InitProgram() []byte { return initProgram() }

// CommandProgram returns the program that waits for a command.
func CommandProgram() []byte { return commandProgram() }

var (
	initProgram    = sync.OnceValue(func() []byte { return executable(initStart) })
	commandProgram = sync.OnceValue(func() []byte { return executable(commandStart) })
)

// executable returns an ELF file of one page that contains only the machine code.
func executable(start unsafe.Pointer) []byte {
	const (
		address        = 0x400000
		header, entry  = 64, 56 // sizes
		loadable       = 1
		stack          = 0x6474e551 // PT_GNU_STACK: not to be executed
		read           = 4
		write, execute = 2, 1
	)
	code := machineCode(start)
	size := uint64(header + 2*entry + len(code))
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0} // 64 bits, little-endian
	b = le.AppendUint16(b, 2)                        // at a fixed address
	b = le.AppendUint16(b, 62)                       // x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, address+header+2*entry) // entry point
	b = le.AppendUint64(b, header)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{header, entry, 2, 0, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	segment := func(kind, flags uint32, at, size, align uint64) {
		b = le.AppendUint32(b, kind)
		b = le.AppendUint32(b, flags)
		for _, n := range []uint64{0, at, at, size, size, align} {
			b = le.AppendUint64(b, n)
		}
	}
	segment(loadable, read|execute, address, size, 4096)
	segment(stack, read|write, 0, 0, 16)
	return append(b, code...)
}
