package executor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Link is one end of a socket between the service and the executor, or between the
// executor and a zygote or a process forked from it.
type Link struct {
	file *os.File
	raw  syscall.RawConn
}

// NewLinkPair creates the two ends of a request's socket. The caller can poll the first
// end beside other files. The second end blocks, which needs no setup by its owner.
func NewLinkPair() (*Link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "link")
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		theirs.Close()
		return nil, nil, err
	}
	l, err := newLink(os.NewFile(uintptr(fds[0]), "link"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return l, theirs, nil
}

// newLink takes over an open socket.
func newLink(f *os.File) (*Link, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Link{f, raw}, nil
}

// newLongLink takes over an open socket that lives as long as both processes:
// waiting for it holds no thread, and ends when it is closed.
func newLongLink(f *os.File) (*Link, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return newLink(os.NewFile(uintptr(fd), "link"))
}

// Close closes this end.
func (l *Link) Close() error { return l.file.Close() }

// closeWrite tells the other side that no more messages follow.
func (l *Link) closeWrite() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
}

// discard reads the remaining messages and rejects new ones. Closing a socket with
// unread data makes the other side lose the last message sent to it.
func (l *Link) discard() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
	for {
		files, err := l.Receive(&json.RawMessage{})
		CloseAll(files...)
		if err != nil {
			return
		}
	}
}

// sendNow sends a message, unless it would have to wait.
func (l *Link) sendNow(message any) {
	body, err := json.Marshal(message)
	if err != nil {
		return
	}
	_ = l.raw.Control(func(fd uintptr) {
		_ = unix.Sendmsg(int(fd), body, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	})
}

// shut ends all waiting on the link, on both sides.
func (l *Link) shut() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// SetWriteDeadline bounds the time that sending waits.
func (l *Link) SetWriteDeadline(t time.Time) { _ = l.file.SetWriteDeadline(t) }

// SetReadDeadline bounds the time that Receive waits.
func (l *Link) SetReadDeadline(t time.Time) { _ = l.file.SetReadDeadline(t) }

// number returns the file descriptor, which is valid until close.
func (l *Link) number() (fd int, err error) {
	return fd, l.raw.Control(func(n uintptr) { fd = int(n) })
}

// Send sends one message with open files. The sender still owns the files.
func (l *Link) Send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return l.SendRaw(body, files...)
}

// SendRaw sends an already encoded message.
func (l *Link) SendRaw(body []byte, files ...*os.File) (err error) {
	if len(body) > maxPacket {
		return fmt.Errorf("message of %d bytes", len(body))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	defer runtime.KeepAlive(files) // their numbers must not become those of other files
	waited := l.raw.Write(func(fd uintptr) bool {
		for {
			if err = unix.Sendmsg(int(fd), body, rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	return cmp.Or(waited, err)
}

// packet is a buffer for the largest message. Allocating one for each message would cost
// more than reading it.
type packet struct {
	body   [maxPacket + 1]byte
	rights [512]byte // more than maxFiles take
}

var packets = sync.Pool{New: func() any { return new(packet) }}

// Receive reads one message and its open files, which become the caller's.
// It returns io.EOF when the other side has closed.
func (l *Link) Receive(message any) ([]*os.File, error) {
	buffer := packets.Get().(*packet)
	defer packets.Put(buffer)
	n, files, err := l.receive(buffer.body[:], buffer.rights[:])
	if err != nil {
		return nil, err
	}
	if err := decode(buffer.body[:n], message); err != nil {
		CloseAll(files...)
		return nil, fmt.Errorf("packet: %w", err)
	}
	return files, nil
}

// ReceiveRaw reads one message without decoding it, and at most one open file.
func (l *Link) ReceiveRaw(body []byte) (n int, files []*os.File, err error) {
	return l.receive(body, make([]byte, unix.CmsgSpace(4)))
}

func (l *Link) receive(body, rights []byte) (n int, files []*os.File, err error) {
	var rn, flags int
	look := func(fd uintptr, how int) bool {
		for {
			if n, rn, flags, _, err = unix.Recvmsg(int(fd), body, rights, how); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	}
	waited := l.raw.Read(func(fd uintptr) bool { return look(fd, unix.MSG_CMSG_CLOEXEC) })
	if waited == nil && err == nil && n == 0 && rn == 0 {
		// The kernel looks for a message first, and then whether the other side has closed. A message that was sent in
		// between, perhaps the whole answer to a request, is there now.
		waited = l.raw.Control(func(fd uintptr) { look(fd, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT) })
		if errors.Is(err, unix.EAGAIN) { // it was an empty message
			return 0, nil, io.EOF
		}
	}
	if err := cmp.Or(waited, err); err != nil {
		return 0, nil, err
	}
	files, err = parseRights(rights[:rn])
	if err == nil && n == 0 && len(files) == 0 {
		return 0, nil, io.EOF
	}
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("oversized packet")
	}
	if err != nil {
		CloseAll(files...)
		return 0, nil, fmt.Errorf("packet: %w", err)
	}
	return n, files, nil
}

// decode reads a message. It has a fast path for Accepted, the most frequent message: a
// request waits for it, and it has only one encoding.
func decode(body []byte, message any) error {
	if a, ok := message.(*answer); ok && string(body) == `{"Accepted":true}` {
		a.Accepted = true
		return nil
	}
	if n, ok := message.(*int32); ok && len(body) == 4 { // from machine code
		*n = int32(binary.NativeEndian.Uint32(body))
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(message)
}

func parseRights(raw []byte) ([]*os.File, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(raw)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			CloseAll(files...)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseAll closes files; a nil file is ignored.
func CloseAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}
