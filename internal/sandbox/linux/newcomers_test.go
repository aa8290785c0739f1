package linux

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// saidOfNewcomer is a message of pid 1.
func saidOfNewcomer(kind, pid int32) []byte {
	b := make([]byte, spawn.NewcomerSize)
	binary.NativeEndian.PutUint32(b, uint32(kind))
	binary.NativeEndian.PutUint32(b[4:], uint32(pid))
	return b
}

// Whatever the pid 1 of an image says or leaves unsaid, nobody waits long for it, and the
// sandbox ends.
func TestPid1OfAnImage(t *testing.T) {
	open := func(t *testing.T) (*newcomers, *os.File) {
		link, theirs, err := executor.NewLinkPair()
		if err != nil {
			t.Fatal(err)
		}
		n := &newcomers{answers: make(chan startAnswer, 1), closed: make(chan struct{}), over: make(chan struct{}),
			ends: map[int]chan spawn.Newcomer{}, link: link, patience: 100 * time.Millisecond}
		ended := make(chan struct{})
		t.Cleanup(func() {
			go func() { n.close(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("the sandbox does not end")
			}
			theirs.Close()
		})
		return n, theirs
	}
	send := func(t *testing.T, to *os.File, message []byte, files ...int) {
		t.Helper()
		if err := unix.Sendmsg(int(to.Fd()), message, unix.UnixRights(files...), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	child := func(t *testing.T) int {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(pidfd); _ = cmd.Wait() })
		return pidfd
	}
	message, _ := spawn.EncodeNewcomer(os.Stderr, []spawn.Step{spawn.Call("umask", unix.SYS_UMASK, 0)})

	t.Run("silent", func(t *testing.T) {
		n, _ := open(t)
		if _, err := n.start(message, nil); err == nil {
			t.Error("a process was started")
		}
	})
	t.Run("deaf", func(t *testing.T) {
		n, _ := open(t)
		for range 2000 { // more than the socket holds
			n.patience = time.Millisecond
			n.Signal(3, unix.SIGTERM)
		}
	})
	t.Run("its processes do not end", func(t *testing.T) {
		n, theirs := open(t)
		send(t, theirs, saidOfNewcomer(0, 3), child(t))
		p, err := n.start(message, nil)
		if err != nil || p.Inner != 3 {
			t.Fatalf("%+v %v", p, err)
		}
		defer unix.Close(p.Pidfd)
		if status, _ := n.Reap(3); !status.Signaled() {
			t.Errorf("%v", status)
		}
	})
	t.Run("no process", func(t *testing.T) {
		n, theirs := open(t)
		send(t, theirs, saidOfNewcomer(0, 3), int(os.Stderr.Fd()))
		if p, err := n.start(message, nil); err == nil {
			t.Errorf("%+v is a process", p)
		}
	})
	t.Run("talks", func(t *testing.T) {
		n, theirs := open(t)
		n.listenOnce()
		for pid := range int32(20) {
			send(t, theirs, saidOfNewcomer(1, pid))
		}
		for pid := range int32(20) {
			send(t, theirs, saidOfNewcomer(0, pid))
		}
		if !sandboxtest.Await(func() bool { return len(n.answers) == 1 }) { // it has read all that came before
			t.Fatal("nobody listens")
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.ends) > 0 {
			t.Errorf("%d processes that nobody has started", len(n.ends))
		}
	})
}
