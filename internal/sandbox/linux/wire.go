package linux

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// The service and the executor exchange messages over unix sockets that preserve packet
// boundaries (SOCK_SEQPACKET). Each packet is one JSON message with the open files that
// it names. One socket lives as long as both processes. Over it the service sends each
// request with a fresh socket, which carries the rest of the request. Closing a
// request's socket cancels the request and kills its processes.
//
// Neither side trusts the other: an unknown field, a wrong count of files or a value
// out of range ends the request.

const (
	maxPacket     = 128 << 10
	maxFiles      = 64 // open files in one packet; the kernel's limit is 253
	maxArguments  = 64 << 10
	maxInputs     = 10_000
	maxPathLength = 4096
	maxCode       = 24 << 10 // of a program that is sent with its request
)

// link is one end of a socket between the service and the executor, or between the
// executor and a zygote or a process forked from it.
type link struct {
	file *os.File
	raw  syscall.RawConn
}

// newLinkPair creates the two ends of a request's socket. The caller can poll the first
// end beside other files. The second end blocks, which needs no setup by its owner.
func newLinkPair() (*link, *os.File, error) {
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
func newLink(f *os.File) (*link, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &link{f, raw}, nil
}

// newLongLink takes over an open socket that lives as long as both processes:
// waiting for it holds no thread, and ends when it is closed.
func newLongLink(f *os.File) (*link, error) {
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

func (l *link) close() error { return l.file.Close() }

// closeWrite tells the other side that no more messages follow.
func (l *link) closeWrite() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
}

// discard reads the remaining messages and rejects new ones. Closing a socket with
// unread data makes the other side lose the last message sent to it.
func (l *link) discard() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
	for {
		files, err := l.receive(&json.RawMessage{})
		closeAll(files...)
		if err != nil {
			return
		}
	}
}

// shut ends all waiting on the link, on both sides.
func (l *link) shut() {
	_ = l.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

func (l *link) setReadDeadline(t time.Time) { _ = l.file.SetReadDeadline(t) }

// number returns the file descriptor, which is valid until close.
func (l *link) number() (fd int, err error) {
	return fd, l.raw.Control(func(n uintptr) { fd = int(n) })
}

// send sends one message with open files. The sender still owns the files.
func (l *link) send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return l.sendRaw(body, files...)
}

// sendRaw sends an already encoded message.
func (l *link) sendRaw(body []byte, files ...*os.File) (err error) {
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

// receive reads one message and its open files, which become the caller's.
// It returns io.EOF when the other side has closed.
func (l *link) receive(message any) ([]*os.File, error) {
	buffer := packets.Get().(*packet)
	defer packets.Put(buffer)
	body, rights := buffer.body[:], buffer.rights[:]
	var n, rn, flags int
	var err error
	waited := l.raw.Read(func(fd uintptr) bool {
		for {
			if n, rn, flags, _, err = unix.Recvmsg(int(fd), body, rights, unix.MSG_CMSG_CLOEXEC); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if err := cmp.Or(waited, err); err != nil {
		return nil, err
	}
	files, err := parseRights(rights[:rn])
	if err == nil && n == 0 && len(files) == 0 {
		return nil, io.EOF
	}
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("oversized packet")
	}
	if err == nil {
		err = decode(body[:n], message)
	}
	if err != nil {
		closeAll(files...)
		return nil, fmt.Errorf("packet: %w", err)
	}
	return files, nil
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
			closeAll(files...)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// closeAll closes files; a nil file is ignored.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// request is the first message of a request. Its first open file is the request's
// socket. Exactly one field is set.
type request struct {
	Run     *runRequest     `json:",omitempty"`
	Hold    *holdRequest    `json:",omitempty"`
	Release string          `json:",omitempty"` // id of a held workspace
	Changes *changesRequest `json:",omitempty"`
	Inspect bool            `json:",omitempty"`
	Usage   bool            `json:",omitempty"` // of held workspaces
	Measure string          `json:",omitempty"` // id of a workspace whose sandbox is measured

	Enter *enterRequest `json:",omitempty"`
	Dial  *dialRequest  `json:",omitempty"`
	Files *filesRequest `json:",omitempty"`
}

// heldUse is the memory that a held workspace reserves.
type heldUse struct {
	ID     string
	Memory int64
}

const usesInPacket = 500

// runRequest comes with the files stdout, stderr and, if there is one, stdin. If Calls
// is set, the program's two files for calls follow. Inputs follow in separate messages.
type runRequest struct {
	Owner     string `json:",omitempty"` // against whose part of each share it counts
	Argv      []string
	Env       []string `json:",omitzero"` // nil: usualEnvironment
	Root      string   // /workspace or /mnt/data
	Packages  string   `json:",omitempty"` // set of Python packages; empty: the default one
	Tier      string   // of the zygote to start from; empty: start cold
	Entry     string   // the file that holds the code, never an output; may be empty
	Code      []byte   `json:",omitzero"` // the content of that file, unless it is long and comes as an input
	Stdin     bool     // not empty
	Held      string   // id of a held workspace; empty: a fresh one
	Make      bool     `json:",omitempty"` // create that workspace, with the inputs; else a live interpreter has none
	EchoLast  bool     // print the value of a Python program's last expression
	ShowPlots bool     // leave the plots that it shows as files
	Globals   []string `json:",omitempty"` // modules that a Python program has without importing them
	Folders   bool     // an empty folder is an output
	Calls     bool
	Network   bool   `json:",omitempty"` // the program has a proxy; the service gets the proxy's socket
	Authority []byte `json:",omitempty"` // certificate that the program trusts, in PEM
	Live      bool   `json:",omitempty"` // an interpreter, in a held workspace; Timeout does not count
	Apart     bool   `json:",omitempty"` // its sandbox is not entered
	Inputs    int    // that follow
	Lends     int    `json:",omitzero"` // number of inputs that are lent; the others are copied
	Workspace int64
	Inodes    int
	Memory    int64
	Processes int
	CPUs      float64
	CPUTime   time.Duration
	Timeout   time.Duration
	Count     int   // outputs kept at most
	Bytes     int64 // each
	Total     int64 // together

	Node *nodeProgram `json:",omitempty"` // if Node runs it

	tasks *holding // on the executor's side
}

// holdRequest makes a held workspace; its inputs follow.
type holdRequest struct {
	ID        string
	Workspace int64
	Inodes    int
	Inputs    int
}

// changesRequest asks for the files of a held workspace that have changed.
type changesRequest struct {
	ID           string
	Count        int
	Bytes, Total int64
}

// inputs is one packet of input files, as many as are open with it.
type inputs struct {
	Inputs []input
}

type input struct {
	Path     string
	Size     int64
	ReadOnly bool
	Lent     string `json:",omitempty"` // its name in the lending folder
}

// answer is a message from the executor. A run gets one with Accepted before anything
// has happened, any number with Rest, any number with Outputs, Deleted and Dropped, and
// a last one with Done or Error.
type answer struct {
	Accepted bool              `json:",omitempty"`
	Network  bool              `json:",omitempty"` // its file is the proxy's socket
	Outputs  []output          `json:",omitempty"` // their files are with the packet
	Deleted  []string          `json:",omitempty"`
	Dropped  []dropped         `json:",omitempty"`
	Done     *outcome          `json:",omitempty"`
	Report   *engine.Isolation `json:",omitempty"`
	Pools    []engine.Pool     `json:",omitempty"`
	Error    *failure          `json:",omitempty"`
	Rest     *restNotice       `json:",omitempty"`
	Held     []heldUse         `json:",omitempty"` // the last answer has none
	Used     *used             `json:",omitempty"` // the last one of changes
	Ended    *processEnd       `json:",omitempty"`
	Entries  []entry           `json:",omitempty"`
	More     bool              `json:",omitempty"` // there are more entries
	Events   []fileEvent       `json:",omitempty"`
}

// used is the resource usage of a live interpreter.
type used struct {
	CPU        time.Duration
	MemoryPeak int64
	Memory     int64 `json:",omitzero"` // now; with Measure
	Workspace  int64 `json:",omitzero"` // size of its files; with Measure
}

type output struct {
	Path      string
	Size      int64
	Input     bool
	Respelled bool `json:",omitempty"`
}

// check rejects outputs that no honest executor sends.
func (o output) check(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if err := checkPath(o.Path); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || o.Size < 0 || st.Size != o.Size || !utf8.ValidString(o.Path) {
		return fmt.Errorf("output %q is not the file that was announced", o.Path)
	}
	return nil
}

// outcome describes how a program ended.
type outcome struct {
	Status     int32 // as wait(2) gives it; meaningless if Lost
	Lost       bool  // the sandbox was killed from outside before the program ended by itself
	TimedOut   bool
	OOM        bool
	Refused    bool // it wanted more processes or threads than its limit
	Warm       bool // an interpreter waited for it
	Started    time.Time
	Duration   time.Duration
	CPU        time.Duration
	MemoryPeak int64
}

type dropped struct {
	Path, Reason string
	More         int `json:",omitempty"`
}

// failure is an error of the sandbox itself, or a rejected request.
type failure struct {
	Kind engine.Kind
	Text string
	Hint string
	// Cause is the part of the error that the program's owner may see.
	Cause string `json:",omitempty"`
	// Again means that the program has not started, and that the request may be retried.
	Again bool `json:",omitempty"`
}

func (f *failure) Error() string { return f.Text }

// newFailure returns a failure, with a hint for the caller if one is given.
func newFailure(kind engine.Kind, text string, hint ...string) *failure {
	return &failure{Kind: kind, Text: text, Hint: strings.Join(hint, "")}
}

// retryable returns a failure that occurred before the program started: the request may be
// retried.
func retryable(text string) *failure {
	return &failure{Kind: engine.ErrUnavailable, Text: text, Again: true}
}

// Failures that several requests may have.
var (
	errNotHeld   = newFailure(engine.ErrNotFound, "no such workspace is held")
	errNoProgram = newFailure(engine.ErrConflict, "no program runs in this workspace", "start one first")
	errTooMany   = newFailure(engine.ErrBusy, "as many processes as may be run in this sandbox",
		"end one of them, or wait until one has ended")
	errHeldMemory = newFailure(engine.ErrFull, "the memory for workspaces that stay between runs is used up",
		"delete sessions that are no longer used, or wait until they expire")
)

// check rejects requests that no honest service sends.
func (r *runRequest) check() error {
	if err := checkStrings(r.Env, r.Argv, "the arguments or the environment"); err != nil {
		return err
	}
	switch {
	case len(r.Argv) == 0 || !path.IsAbs(r.Argv[0]):
		return errors.New("no command")
	case r.Root != rootWorkspace && r.Root != rootData:
		return errors.New("unknown root")
	case r.driven() && !r.isScript():
		return errors.New("only a Python script's last expression can be echoed, its plots be left, and globals be there")
	case r.Entry != "" && checkPath(r.Entry) != nil, r.Entry == "" && r.Code != nil:
		return errors.New("bad entry path")
	case r.Live && (!heldID.MatchString(r.Held) || r.Entry != "" || !r.Calls):
		return errors.New("a live interpreter without a workspace or a channel")
	case r.Make && !r.Live, r.Live && !r.Make && r.Inputs > 0:
		return errors.New("only a live interpreter's workspace is made with it, and has inputs only then")
	case r.Memory < 1<<20 || r.Processes < 1 || r.Processes > 1<<16 || r.Timeout <= 0 || !r.Live &&
		r.Timeout > 24*time.Hour:
		return errors.New("a limit is out of range")
	case r.CPUs < 0 || r.CPUTime < 0 || r.Count < 0 || r.Bytes < 0 || r.Total < 0:
		return errors.New("a negative limit")
	case r.Inputs < 0 || r.Inputs > maxInputs || r.Lends < 0 || r.Lends > min(r.Inputs, maxLent):
		return errors.New("too many inputs")
	case len(r.Authority) > maxCertificate || len(r.Authority) > 0 && !r.Network:
		return errors.New("a certificate without a network")
	}
	return checkWorkspace(r.Workspace, r.Inodes)
}

// checkStrings rejects strings that execve would not accept, because they contain a NUL
// or are too long together.
func checkStrings(env, others []string, where string) error {
	size := 0
	for _, s := range slices.Concat(env, others) {
		size += len(s) + 1
		if strings.ContainsRune(s, 0) {
			return errors.New("a NUL in " + where)
		}
	}
	if slices.ContainsFunc(env, func(s string) bool { return strings.IndexByte(s, '=') < 1 }) {
		return errors.New("an environment entry without a name")
	}
	if size > maxArguments+maxPathLength {
		return errors.New("arguments and environment are too long")
	}
	return nil
}

func checkWorkspace(size int64, inodes int) error {
	if size < 1<<12 || size > 1<<40 || inodes < 1 || inodes > 1<<24 {
		return errors.New("workspace size out of range")
	}
	return nil
}

// checkPath accepts a relative path that has one spelling.
func checkPath(p string) error {
	if p == "" || len(p) > maxPathLength || p == "." || p == ".." || path.IsAbs(p) || path.Clean(p) != p ||
		strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("bad path %q", p)
	}
	return nil
}

// receiveInputs reads the announced number of inputs and hands each to place.
func (l *link) receiveInputs(count int, place func(input, *os.File) error) error {
	for count > 0 {
		var batch inputs
		files, err := l.receive(&batch)
		if err != nil {
			return err
		}
		err = placeInputs(batch.Inputs, files, count, place)
		closeAll(files...)
		if err != nil {
			return err
		}
		count -= len(files)
	}
	return nil
}

func placeInputs(list []input, files []*os.File, count int, place func(input, *os.File) error) error {
	if len(files) == 0 || len(files) != len(list) || len(files) > count {
		return errors.New("inputs and their files do not match")
	}
	for i, in := range list {
		if err := checkPath(in.Path); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(files[i].Fd()), &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || in.Size < 0 || st.Size < in.Size {
			return fmt.Errorf("input %q is not the file that was announced", in.Path)
		}
		if err := place(in, files[i]); err != nil {
			return err
		}
	}
	return nil
}

// sendInputs is the counterpart of receiveInputs.
func (l *link) sendInputs(list []input, files []*os.File) error {
	for len(list) > 0 {
		n := min(len(list), maxFiles)
		if err := l.send(inputs{list[:n]}, files[:n]...); err != nil {
			return err
		}
		list, files = list[n:], files[n:]
	}
	return nil
}
