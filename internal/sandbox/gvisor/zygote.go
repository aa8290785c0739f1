package gvisor

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A zygote is a stored sandbox: that of a Python process which has imported the packages of a tier and waits
// for a program on its stdin, a socket. A copy of it goes on there, in a workspace and with a socket of
// its own. What copies have in common, as the states of generators of random numbers, the process gives up when
// its program comes; see store in server.py.
type zygote struct {
	wall    *wall
	options executor.ZygoteOptions
	program *executor.RunRequest
	folder  string
	cell    *cell          // of the process, until it is stored
	link    *executor.Link // to it
	dead    atomic.Bool
}

// storedPath has a folder for each stored sandbox, in memory.
const storedPath = "/stored"

// StartZygote implements Wall.
func (l *wall) StartZygote(options executor.ZygoteOptions) (_ executor.Zygote, err error) {
	env := options.Environment
	z := &zygote{wall: l, options: options, folder: path.Join(storedPath, engine.NewID().String()),
		program: &executor.RunRequest{Argv: []string{env.Python, guest.ZygotePath, guest.StoreArgument},
			Root: image.RootWorkspace, Workspace: math.MaxInt64, Live: options.Tier.Live}}
	uid := cmp.Or(options.UID, l.Users.First)
	tmp, err := executor.NewTmpfs(executor.TmpSize, executor.TmpInodes, uid, "1777")
	if err != nil {
		return nil, err
	}
	workspace, err := executor.NewTmpfs(executor.TmpSize, executor.TmpInodes, uid, "755")
	if err != nil {
		tmp.Close()
		return nil, err
	}
	box := &executor.Box{Machine: l.Machine, Environment: env, Request: z.program, UID: uid, Tmp: tmp,
		Workspace: &executor.Workspace{Root: workspace}, Group: options.Group, Layers: options.Layers}
	defer executor.CloseAll(tmp, workspace)
	z.cell = &cell{Box: box, wall: l, program: z.program}
	if err := box.LinkFontCache(); err != nil {
		return nil, err
	}
	if z.link, err = z.cell.startWaiting("--store=" + z.folder); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

// startWaiting starts the command with a socket as the process's stdin, and returns the other end.
func (w *cell) startWaiting(how string) (*executor.Link, error) {
	ours, theirs, err := executor.NewLinkPair()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(image.Path+"/dev/null", os.O_RDWR, 0)
	if err == nil {
		err = w.start([]*os.File{theirs, null, null}, "cell", how)
		null.Close()
	}
	theirs.Close()
	if err == nil {
		err = w.await(executor.Started)
	}
	if err != nil {
		ours.Close()
		return nil, err
	}
	return ours, nil
}

// startTime bounds the start of a sandbox, and readyTime the import of packages.
const (
	startTime = 30 * time.Second
	readyTime = 3 * time.Minute
)

// await waits for a report.
func (w *cell) await(kind executor.EventKind) error {
	list := []unix.PollFd{{Fd: int32(w.reports.Fd()), Events: unix.POLLIN}}
	if n, err := executor.PollUntil(list, time.Now().Add(startTime)); n == 0 || err != nil {
		return errors.Join(errors.New("gVisor did not answer in time"), err)
	}
	switch event := w.Next(executor.PolledReports); event.Kind {
	case kind:
		return nil
	case executor.Failed:
		return event.Err
	default:
		return errors.New("gVisor has ended")
	}
}

// Ready implements Zygote. It stores the sandbox.
func (z *zygote) Ready() error {
	if err := z.link.Send(guest.Hello{Preload: append([]string{}, z.options.Tier.Preload...),
		Learned: append([]string{}, z.options.Tier.Learned...), Env: z.options.Environment.Usual,
		Live: z.options.Tier.Live}); err != nil {
		return err
	}
	z.link.SetReadDeadline(time.Now().Add(readyTime))
	var ready guest.Ready
	files, err := z.link.Receive(&ready)
	executor.CloseAll(files...)
	if err != nil {
		return fmt.Errorf("their interpreter ended while it imported packages: %w", err)
	}
	for name, reason := range ready.LeftOut {
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote goes without %s: %s\n", z.options.Tier.Name, name, reason)
	}
	if err := unix.PidfdSendSignal(z.cell.pidfd, unix.SIGUSR1, nil, 0); err != nil {
		return err
	}
	if err := z.cell.await(executor.Stored); err != nil {
		return fmt.Errorf("store the interpreter: %w", err)
	}
	z.end()
	return nil
}

// end ends the process itself.
func (z *zygote) end() {
	if z.cell != nil {
		z.cell.Close()
		z.cell = nil
	}
	if z.link != nil {
		z.link.Close()
		z.link = nil
	}
}

// Fork implements Zygote.
func (z *zygote) Fork(b *executor.Box, how executor.StartMode) (executor.Cell, error) {
	w := &cell{Box: b, wall: z.wall, program: z.program, stored: z.folder}
	var err error
	if w.link, err = w.startWaiting("--stored=" + z.folder); err == nil && how != executor.OnDemand {
		err = w.rehearse()
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// rehearse has a copy touch the memory that its program will need: a first touch takes its kernel long.
func (w *cell) rehearse() error {
	if err := w.link.SendRaw([]byte(guest.Rehearse)); err != nil {
		return err
	}
	w.link.SetReadDeadline(time.Now().Add(startTime))
	defer w.link.SetReadDeadline(time.Time{})
	var ready guest.Ready
	files, err := w.link.Receive(&ready)
	executor.CloseAll(files...)
	return err
}

// hand hands a program to the process that waits.
func (w *cell) hand(files []*os.File) error {
	message, err := w.Request.Message(w.Environment.Usual)
	if err != nil {
		return err
	}
	head := make([]byte, 0, 32+len(message))
	soft, hard := uint64(math.MaxUint64), uint64(math.MaxUint64)
	if w.Request.CPUTime > 0 {
		soft = uint64((w.Request.CPUTime + time.Second - 1) / time.Second)
		hard = soft + 1
	}
	for _, limit := range []uint64{soft, hard, uint64(w.Request.Workspace), uint64(w.Request.Workspace)} {
		head = binary.NativeEndian.AppendUint64(head, limit)
	}
	return w.link.SendRaw(append(head, message...), files...)
}

// AddWaiter implements Zygote: each copy is made for itself.
func (z *zygote) AddWaiter(int) {}

// Dead implements Zygote.
func (z *zygote) Dead() bool { return z.dead.Load() }

// Close implements Zygote.
func (z *zygote) Close() {
	z.dead.Store(true)
	z.end()
	_ = os.RemoveAll(z.folder)
}
