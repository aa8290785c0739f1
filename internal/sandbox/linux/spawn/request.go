package spawn

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The executor asks a zygote for a sandbox with the steps of its first two processes,
// in a form for machine code (spawn_amd64.s) and Python (buffer.py). The request is in
// the zygote's request buffer, an area of its memory with the following offsets. All
// numbers have the machine's byte order.
//
//	-16  struct cmsghdr of the open files that came with the request
//	  0  their numbers, 32 of 4 bytes
//	128  struct sock_fprog of the system-call filter
//	160  addresses of libc's _Fork and __errno_location
//	176  pid 2's first steps, as address and number: what it must not share
//	192  argv of init, an empty environment behind it
//	224  steps that touch memory, as address and number (4 bytes): pid 2's next
//	236  whether Python has something to do before main's steps are followed by
//	     those of wait
//	256  the request: how many steps setup, init, main and wait have; how much to
//	     prepare; where the length of the message will lie that hands over a program
//	320  the steps, 64 bytes each, and behind them what their arguments point to
//	1<<18  struct msghdr, each with what it points to: to say that the sandbox waits
//	     and hand over the filter's listener; the same without a listener; to receive
//	     a program and its files; to receive a request; to answer it with the pid, or
//	     a negative errno, and the pidfd
//	1<<18+4096  the program's message
//
// A step is the call's number, the kinds of its six arguments (2 bits each), the offset
// for its result (0: none), whether the next step replaces it (read by pid 1 alone, see
// newcomer.go), and the arguments. An argument is a number;
// or an offset in the buffer, whose address is passed; or an offset in the buffer of a
// 4-byte number to pass: an open file, or an earlier result.
const (
	bufferFilter  = 128
	bufferRequest = 256
	bufferSteps   = 320
	stepSize      = 64

	byAddress = 1
	byValue   = 3
)

// Offsets in the buffer that steps refer to.
const (
	InitArgv  = Offset(192)     // argv of init, with an empty environment behind it
	Ready     = Offset(1 << 18) // struct msghdr: to say that the sandbox waits
	ReadyBare = Ready + 128     // the same without a listener
	Receive   = Ready + 256     // to receive a program and its files
)

// Descriptors of a zygote's child: its pipe for reports, its socket and its filter's
// listener; and the socket over which pid 1 is asked for processes. buffer.py and
// spawn_amd64.s use the same numbers.
const (
	ReportFile = 900 + iota
	ControlFile
	ListenerFile
	NewcomersFile
	LastFile = NewcomersFile
)

// An Offset among a step's arguments stands for the address at that offset in the
// buffer.
type Offset int

// A Request is a zygote's request under construction.
type Request struct {
	Setup, Init, Main, Wait []Step // as in a Script
	Received                *int32 // result of a step of wait
	Prepare                 int    // how much the zygote's child prepares before it waits

	address int // of the buffer; 0: the zygote knows it
	files   []*os.File
	cells   map[*int32]int // offsets of results
	steps   []byte
	data    []byte
	base    int // offset of data in the buffer
}

// Encode returns the message and the files to send with it.
func (r *Request) Encode() ([]byte, []*os.File) {
	count := len(r.Setup) + len(r.Init) + len(r.Main) + len(r.Wait)
	r.base = bufferSteps + count*stepSize
	r.cells = map[*int32]int{}
	for _, list := range [][]Step{r.Setup, r.Init, r.Main, r.Wait} {
		for i := range list {
			r.add(&list[i])
		}
	}
	head := make([]byte, bufferSteps-bufferRequest, bufferSteps-bufferRequest+len(r.steps)+len(r.data))
	received := 0
	if r.Received != nil {
		received = r.cell(r.Received)
	}
	for i, n := range []int{len(r.Setup), len(r.Init), len(r.Main), len(r.Wait), r.Prepare, received} {
		binary.NativeEndian.PutUint32(head[4*i:], uint32(n))
	}
	return append(append(head, r.steps...), r.data...), r.files
}

func (r *Request) add(s *Step) {
	var kinds uint32
	var args [6]uint64
	for i, given := range s.Given {
		kind, value := r.argument(given)
		kinds |= kind << (2 * i)
		args[i] = value
	}
	if s.From != nil {
		kinds |= byValue
		args[0] = uint64(r.cell(s.From))
	}
	if s.Filled.With != nil { // the earlier result is stored there directly
		place := int(args[s.Filled.Argument]) + s.Filled.Offset
		cell := r.cell(s.Filled.With)
		r.move(cell, place)
		r.cells[s.Filled.With] = place
	}
	result := 0
	if s.Result != nil {
		result = r.cell(s.Result)
	}
	ne := binary.NativeEndian
	r.steps = ne.AppendUint32(r.steps, uint32(s.Nr))
	r.steps = ne.AppendUint32(r.steps, kinds)
	r.steps = ne.AppendUint32(r.steps, uint32(result))
	replaced := uint32(0)
	if s.OrNext {
		replaced = 1
	}
	r.steps = ne.AppendUint32(r.steps, replaced)
	for _, a := range args {
		r.steps = ne.AppendUint64(r.steps, a)
	}
}

// move changes the steps so far to store a result elsewhere.
func (r *Request) move(from, to int) {
	const offset = 8
	for at := offset; at < len(r.steps); at += stepSize {
		if binary.NativeEndian.Uint32(r.steps[at:]) == uint32(from) {
			binary.NativeEndian.PutUint32(r.steps[at:], uint32(to))
		}
	}
}

// cell returns the offset of a result.
func (r *Request) cell(result *int32) int {
	if r.cells[result] == 0 {
		r.cells[result] = r.put(make([]byte, 4))
	}
	return r.cells[result]
}

// put adds data, and returns its offset in the buffer.
func (r *Request) put(b []byte) int {
	place := r.base + len(r.data)
	r.data = append(r.data, b...)
	for len(r.data)%8 != 0 {
		r.data = append(r.data, 0)
	}
	return place
}

func (r *Request) argument(given any) (kind uint32, value uint64) {
	switch given := given.(type) {
	case int:
		return 0, uint64(given)
	case uintptr:
		return 0, uint64(given)
	case string:
		return byAddress, uint64(r.put(append([]byte(given), 0)))
	case []byte:
		return byAddress, uint64(r.put(given))
	case *unix.Rlimit:
		raw := binary.NativeEndian.AppendUint64(nil, given.Cur)
		return byAddress, uint64(r.put(binary.NativeEndian.AppendUint64(raw, given.Max)))
	case *unix.SockFprog:
		return byAddress, bufferFilter
	case []*byte: // of Strings
		array := []byte{}
		for _, text := range given {
			at := 0
			if text != nil {
				at = r.address + r.put(append([]byte(unix.BytePtrToString(text)), 0))
			}
			array = binary.NativeEndian.AppendUint64(array, uint64(at))
		}
		return byAddress, uint64(r.put(array))
	case Offset:
		return byAddress, uint64(given)
	case *os.File:
		return byValue, uint64(r.file(given))
	}
	panic(fmt.Sprintf("a zygote cannot be sent a %T", given))
}

// file returns the offset at which the number of an open file will be stored.
func (r *Request) file(f *os.File) int {
	const size = 4
	for i, known := range r.files {
		if known == f {
			return i * size
		}
	}
	r.files = append(r.files, f)
	return (len(r.files) - 1) * size
}
