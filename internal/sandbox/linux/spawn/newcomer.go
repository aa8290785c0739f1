package spawn

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pid 1 of a sandbox that others enter also starts the processes that enter: they are
// its children, so they have its confinement, not one of the same kind. It is asked over
// a socket, NewcomersFile, with a Request of which it reads main's steps as those of
// setup. The first of the files is the process's pipe for reports. Its answer comes with
// the process's pidfd. When the process has ended there is another message.

// newcomersAddress is the address of pid 1's buffer, as in spawn_amd64.s, which has room for
// mostNewcomer, the longest message of the executor.
const (
	newcomersAddress = 0x10001000
	mostNewcomer     = 128 << 10
)

// EncodeNewcomer returns the message that asks pid 1 for a process, and the files to send
// with it. It returns nil if arguments and environment are too many for one.
func EncodeNewcomer(report *os.File, steps []Step) ([]byte, []*os.File) {
	r := &Request{Setup: steps, address: newcomersAddress, files: []*os.File{report}}
	message, files := r.Encode()
	if len(message) > mostNewcomer {
		return nil, nil
	}
	return message, files
}

// EncodeSignal returns the message that asks pid 1 to signal the group of a process. pid is
// its number in the sandbox.
func EncodeSignal(pid int, signal unix.Signal) []byte {
	message := make([]byte, bufferSteps-bufferRequest)
	binary.NativeEndian.PutUint32(message[4:], uint32(-pid))
	binary.NativeEndian.PutUint32(message[8:], uint32(signal))
	return message
}

// A Newcomer is what pid 1 says of a process.
type Newcomer struct {
	Ended  bool // else it has been started
	PID    int  // in the sandbox; a negative errno if it could not be started
	Status unix.WaitStatus
	CPU    time.Duration
}

// NewcomerSize is the size of the message.
const NewcomerSize = 48

// DecodeNewcomer decodes it.
func DecodeNewcomer(b []byte) Newcomer {
	word := func(at int) int { return int(int32(binary.NativeEndian.Uint32(b[at:]))) }
	n := Newcomer{Ended: word(0) == 1, PID: word(4)}
	if n.Ended {
		n.Status = unix.WaitStatus(word(8))
		for _, at := range []int{16, 32} { // struct timeval, of user and system
			n.CPU += time.Duration(word(at))*time.Second + time.Duration(word(at+8))*time.Microsecond
		}
	}
	return n
}
