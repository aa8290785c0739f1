package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
)

// A request is a message of the executor to the sandbox that runs. One of its other fields is set.
type request struct {
	ID     int
	Start  *startRequest  `json:",omitempty"` // with the process's stdin, stdout and stderr
	Signal *signalRequest `json:",omitempty"`
	Count  string         `json:",omitempty"` // the processes of this job
	Dial   int            `json:",omitempty"` // a port of the loopback, with the socket to connect
	Store  bool           `json:",omitempty"` // the sandbox, with the pipe to write to; it stops
	Settle *settleRequest `json:",omitempty"` // what becomes of a sandbox that was stored
	Proxy  string         `json:",omitempty"` // see listen
}

// settleRequest has a sandbox that was stored go on, or end.
type settleRequest struct{ GoOn bool }

// startRequest starts a process, in a job of its own.
type startRequest struct {
	Job       string
	Argv, Env []string
	Dir       string
	User      uint32
	Terminal  bool // its files are a terminal
}

// signalRequest sends a signal to a process group or, if there is none, to a whole job.
type signalRequest struct {
	Job    string
	Group  int32
	Number unix.Signal
}

// A reply answers the request with its ID or, without one, tells that the process of a job has ended.
type reply struct {
	ID     int    `json:",omitempty"`
	PID    int32  `json:",omitempty"`
	Job    string `json:",omitempty"`
	Status int32  `json:",omitempty"` // as wait(2) gives it
	Count  int    `json:",omitempty"`
	Error  string `json:",omitempty"`
}

// maxRequest is more than a request of the executor can have.
const maxRequest = 256 << 10

// answerer answers the executor's requests.
type answerer struct {
	made    *container.Container
	conf    *config.Config
	socket  int
	layers  []layer
	proxy   string // see listen; empty: there is none
	sending sync.Mutex
}

// answerAll answers requests until the executor closes its end.
func (a *answerer) answerAll() {
	body, rights := make([]byte, maxRequest), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, rn, _, _, err := unix.Recvmsg(a.socket, body, rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		files := received(rights[:rn])
		var r request
		if err := json.Unmarshal(body[:n], &r); err != nil {
			closeAll(files)
			return
		}
		go func() {
			defer closeAll(files)
			answer, err := a.answer(&r, files)
			if answer.ID = r.ID; err != nil {
				answer.Error = err.Error()
			}
			a.send(answer)
			if r.Settle != nil && !r.Settle.GoOn {
				tell(report{Status: new(int32(0)), Alone: true})
				os.Exit(0)
			}
		}()
	}
}

// received returns the open files of a message.
func received(rights []byte) (files []*os.File) {
	messages, _ := unix.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (a *answerer) send(r reply) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	a.sending.Lock()
	defer a.sending.Unlock()
	_ = unix.Sendmsg(a.socket, line, nil, nil, unix.MSG_NOSIGNAL)
}

func (a *answerer) answer(r *request, files []*os.File) (reply, error) {
	switch {
	case r.Start != nil && len(files) == 3:
		pid, err := a.start(r.Start, files)
		return reply{PID: pid}, err
	case r.Signal != nil:
		return reply{}, a.signal(r.Signal)
	case r.Count != "":
		list, err := a.made.Sandbox.Processes(r.Count)
		return reply{Count: len(list)}, err
	case r.Dial != 0 && len(files) == 1:
		return reply{}, a.made.PortForward(&boot.PortForwardOpts{ContainerID: id, Port: uint16(r.Dial),
			FilePayload: urpc.FilePayload{Files: files}})
	case r.Proxy != "":
		return reply{}, a.listen(r.Proxy)
	case r.Store && len(files) == 1:
		return reply{}, a.store(files[0])
	case r.Settle != nil && r.Settle.GoOn:
		return reply{}, a.goOn()
	case r.Settle != nil:
		return reply{}, nil // this process ends, and the sandbox with it
	}
	return reply{}, errors.New("no such request")
}

func (a *answerer) start(r *startRequest, files []*os.File) (pid int32, err error) {
	end := func() {}
	watch := func(int32) {}
	if r.Terminal {
		if watch, end, err = a.attend(files[0]); err != nil {
			return 0, fmt.Errorf("attend the terminal: %w", err)
		}
	}
	pid, err = a.made.Execute(a.conf, &control.ExecArgs{Argv: r.Argv, Envv: r.Env, WorkingDirectory: r.Dir,
		KUID: auth.KUID(r.User), KGID: auth.KGID(r.User), NoNewPrivileges: true, Capabilities: &auth.TaskCapabilities{},
		StdioIsPty: r.Terminal, Job: r.Job,
		FilePayload: control.NewFilePayload(map[int]*os.File{0: files[0], 1: files[1], 2: files[2]}, nil)})
	if err != nil {
		end()
		return 0, err
	}
	watch(pid)
	go func() {
		status, err := a.made.WaitPID(pid)
		if err != nil { // the sandbox has gone
			status = unix.WaitStatus(unix.SIGKILL)
		}
		end()
		a.send(reply{Job: r.Job, Status: int32(status)})
	}()
	return pid, nil
}

func (a *answerer) signal(r *signalRequest) error {
	if r.Group == 0 {
		return a.made.Sandbox.SignalContainer(r.Job, r.Number, true)
	}
	return a.made.Sandbox.SignalProcessGroup(r.Job, r.Group, r.Number)
}
