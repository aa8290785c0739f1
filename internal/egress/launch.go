package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name is the command by which the binary becomes the egress process.
const Name = "egress"

// A Launcher starts egress processes: itself, or by asking the parent process if that one
// is root's half of the service.
type Launcher interface {
	// Launch starts a process and returns the socket to it. The process ends when the socket
	// is closed.
	Launch(ctx context.Context) (*os.File, error)
	// Close waits for the processes. The caller has closed their sockets.
	Close() error
}

// NewLauncher returns a Launcher that starts processes as children of this one.
func NewLauncher() Launcher { return &localLauncher{} }

type localLauncher struct{ children sync.WaitGroup }

func (l *localLauncher) Close() error {
	l.children.Wait()
	return nil
}

// namespaces are those that the process does not share. It uses the host's network.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// user is the user of the process if the service is root: above the users of sandboxes.
// lastUser else stands for the service's user.
const (
	user     = 0x70000000 + 4096
	lastUser = 1000
)

func (l *localLauncher) Launch(context.Context) (*os.File, error) {
	local, remote, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	command := exec.Command("/proc/self/exe", Name)
	command.Args[0] = "airlock"
	command.Env = []string{}
	command.Stderr = os.Stderr
	command.Dir = "/"
	command.ExtraFiles = []*os.File{remote}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: unix.SIGKILL, Setsid: true}
	if os.Geteuid() != 0 {
		ownNamespace(command.SysProcAttr)
	}
	if err := l.start(command); err != nil {
		local.Close()
		return nil, fmt.Errorf("start the egress process: %w", err)
	}
	return local, nil
}

// ownNamespace lets the process of an ordinary user make its own file system. The process
// drops that right before it reads input.
func ownNamespace(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: lastUser, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: lastUser, HostID: os.Getegid(), Size: 1}}
	for c := range unix.CAP_LAST_CAP + 1 {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
	}
}

// start starts a command from a thread that lives as long as the command: Pdeathsig is sent
// when the thread ends.
func (l *localLauncher) start(command *exec.Cmd) error {
	started := make(chan error)
	l.children.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // the service sees its socket close
		}
	})
	return <-started
}

// socketPair makes a pair of sockets that preserve packets and carry open files.
func socketPair() (local, remote *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "egress"), os.NewFile(uintptr(fds[1]), "service"), nil
}

// packets turns one end of such a pair into a connection, and closes the file.
func packets(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("not a unix socket")
	}
	return conn, nil
}

// maxPacket is the longest message. Grants are the longest.
const maxPacket = 160 << 10

// send sends a message with open files. The caller closes the files.
func send(to *net.UnixConn, message []byte, files ...*os.File) error {
	if len(message) > maxPacket {
		return fmt.Errorf("a message of %d bytes", len(message))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := to.WriteMsgUnix(message, rights, nil)
	return err
}

// receive reads a message into buffer, and its open files.
func receive(from *net.UnixConn, buffer []byte) (message []byte, files []*os.File, err error) {
	var rights [128]byte
	n, rn, flags, _, err := from.ReadMsgUnix(buffer, rights[:])
	if errors.Is(err, io.EOF) { // the kernel may miss the last message that was sent before the end
		n, rn, flags, _, err = from.ReadMsgUnix(buffer, rights[:])
	}
	if err != nil {
		return nil, nil, err
	}
	if rn > 0 {
		messages, err := unix.ParseSocketControlMessage(rights[:rn])
		if err != nil {
			return nil, nil, err
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return nil, nil, err
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				files = append(files, os.NewFile(uintptr(fd), "received"))
			}
		}
	}
	if n == 0 && len(files) == 0 {
		return nil, nil, io.EOF
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(files)
		return nil, nil, errors.New("oversized packet")
	}
	return buffer[:n], files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// ServeLauncher answers the requests of a RemoteLauncher at the other end of conn until that
// end closes. Root's half of the service calls it.
func ServeLauncher(ctx context.Context, conn *os.File, l Launcher) error {
	remote, err := packets(conn)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { remote.Close() })
	defer stop()
	defer l.Close()
	defer remote.Close()
	buffer := make([]byte, 16)
	for {
		_, files, err := receive(remote, buffer)
		closeAll(files)
		if err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		socket, err := l.Launch(ctx)
		if err != nil {
			err = send(remote, []byte(err.Error()))
		} else {
			err = send(remote, []byte("ok"), socket)
			socket.Close()
		}
		if err != nil {
			return err
		}
	}
}

// RemoteLauncher asks the ServeLauncher at the other end of conn.
func RemoteLauncher(conn *os.File) (Launcher, error) {
	link, err := packets(conn)
	return &remoteLauncher{link: link}, err
}

type remoteLauncher struct {
	mu   sync.Mutex
	link *net.UnixConn
}

func (r *remoteLauncher) Close() error { return r.link.Close() }

func (r *remoteLauncher) Launch(context.Context) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := send(r.link, []byte("launch")); err != nil {
		return nil, err
	}
	answer, files, err := receive(r.link, make([]byte, 4096))
	switch {
	case err != nil:
		return nil, err
	case len(files) == 1:
		return files[0], nil
	}
	closeAll(files)
	return nil, errors.New(string(answer))
}
