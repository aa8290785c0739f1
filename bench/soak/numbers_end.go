package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// ending is a number about programs that exceed their time limit. A run is answered within half a second (p99).
type ending struct {
	programs    []string
	limit, gone time.Duration // of a program, and of its last process beyond that (p99)
	hogs        int           // for each processor
}

// endless are programs that do not end by themselves. Each has its argument on the command lines of its processes.
var endless = []string{
	"sleep $1",
	"trap '' TERM; sleep $1 & sleep $1",
	"for i in 1 2 3 4 5; do setsid sleep $1 & done; while :; do :; done",
}

// reluctant are programs that put off their own end: they keep the processor from the process that has to end them, or
// from themselves when they are to die. Each runs with as many processes as it gets.
var reluctant = []string{
	prelude + `for which in (0, 1, 2):
    for who in (0, 1, os.getuid()):
        try: os.setpriority(which, who, 19)
        except OSError: pass
spread(110, lambda: (os.setsid(), os.nice(19)))' $1`,
	prelude + `def born():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
                if os.fork(): os._exit(0)
        except OSError: pass
spread(20, lambda: os.nice(19), born)' $1`,
	prelude + `import threading
for i in range(100): threading.Thread(target=spin).start()
spin()' $1`,
	prelude + `memory = [bytearray(1 << 20) for i in range(100)]
deaf = lambda: [signal.signal(s, signal.SIG_IGN) for s in range(1, 32) if s not in (9, 19)]
spread(60, lambda: os.kill(os.getpid(), signal.SIGSTOP) if os.getpid() % 2 else deaf())' $1`,
}

const prelude = `exec python3 -c 'import os, signal
def spin():
    while True: pass
def spread(count, first=lambda: None, then=spin):
    for i in range(count):
        try:
            if os.fork() == 0: first(); then()
        except OSError: break
    first(); then()
`

// measure runs the programs, and looks from outside when the last of their processes has ended.
func (e ending) measure(ctx context.Context, o options, _ *service, who tenant) (string, error) {
	computing, stop := context.WithCancel(ctx)
	defer stop()
	for range e.hogs * runtime.NumCPU() {
		hog := exec.CommandContext(computing, "sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := hog.Start(); err != nil {
			return "", err
		}
		defer func() { stop(); _ = hog.Wait() }() // it is killed
	}
	var answers, ends lab.Sample
	for i := range o.runs {
		answered, gone, err := overdue(ctx, who, e.programs[i%len(e.programs)], e.limit)
		if err != nil {
			return "", err
		}
		answers, ends = append(answers, answered), append(ends, gone)
	}
	return fmt.Sprintf("answered after p50 %.0f ms, p99 %.0f ms; gone after p50 %.0f ms, p99 %.0f ms (%d of %d kinds)",
			answers.P50(), answers.P99(), ends.P50(), ends.P99(), o.runs, len(e.programs)),
		missed(answers.P99() > 500 || ends.At(99) > e.gone)
}

// overdue runs a program that does not end by itself. It returns how long after its time limit it was answered, and
// how long after that limit its last process was gone: one had been seen, or the run was over, since on a busy machine
// one may come and go unseen. It begins to look at the limit, as looking before would use up the program's CPU share.
func overdue(
	ctx context.Context, who tenant, code string, limit time.Duration,
) (answered, gone time.Duration, err error) {
	word := fmt.Sprintf("1000.%d", time.Now().UnixNano()) // on its command lines; a time to sleep, too
	end := time.Now().Add(limit)
	ended := make(chan error, 1)
	go func() {
		run, err := who.Run(ctx, client.RunRequest{Language: "bash", Code: code, Args: []string{word}, Timeout: limit})
		answered = time.Since(end)
		if err == nil && run.Status != client.StatusTimeout {
			err = errors.New("wanted a timeout, got " + describe(run))
		}
		ended <- err
	}()
	lab.Pause(ctx, limit)
	for seen, over := false, false; gone == 0 || !over; lab.Pause(ctx, 2*time.Millisecond) {
		select {
		case err = <-ended:
			over = true
		default:
		}
		alive := false
		for _, p := range lab.Processes() {
			alive = alive || slices.Contains(p.Argv, word)
		}
		if seen = seen || alive; gone == 0 && !alive && (seen || over) {
			gone = time.Since(end)
		}
	}
	return answered, gone, err
}
