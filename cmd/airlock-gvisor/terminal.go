package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the host's, and the processes that have it are the sandbox's. Its signals, as that of
// Ctrl-C, reach processes of the host alone: a process of its own attends each terminal, and tells of them.

// terminalArgument has this program attend the terminal at its stdin.
const terminalArgument = "terminal"

// terminalSignals are those that a terminal sends.
var terminalSignals = []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGWINCH, unix.SIGHUP}

// attendTerminal writes the number of each signal to file 3 until nobody reads there.
func attendTerminal() {
	told := make(chan os.Signal, 16)
	signal.Notify(told, terminalSignals...)
	_, _ = unix.Write(3, []byte{0}) // ready
	for s := range told {
		if _, err := unix.Write(3, []byte{byte(s.(syscall.Signal))}); err != nil {
			return
		}
	}
}

// attend starts a process that attends a terminal. watch passes its signals on to the foreground of a process, and end
// ends all of that.
func (a *answerer) attend(terminal *os.File) (watch func(pid int32), end func(), err error) {
	signals, told, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer told.Close()
	c := exec.Command("/proc/self/exe", terminalArgument)
	c.Env, c.Dir, c.Stdin, c.ExtraFiles = []string{}, "/", terminal, []*os.File{told}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0, Pdeathsig: unix.SIGKILL}
	if err := c.Start(); err != nil {
		signals.Close()
		return nil, nil, err
	}
	end = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		signals.Close()
	}
	one := make([]byte, 1)
	if _, err := signals.Read(one); err != nil {
		end()
		return nil, nil, err
	}
	return func(pid int32) {
		go func() {
			for {
				if _, err := signals.Read(one); err != nil {
					return
				}
				_ = a.made.Sandbox.SignalProcess(id, pid, unix.Signal(one[0]), true) // it may have ended
			}
		}()
	}, end, nil
}
