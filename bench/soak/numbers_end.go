package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// reluctant are programs that put off their own end: they keep the processor from
// the process that has to end them, or from themselves when they are to die. Each runs with as
// many processes as it gets, and with a word on their command lines.
var reluctant = []string{
	`for which in (0, 1, 2):
    for who in (0, 1, os.getuid()):
        try: os.setpriority(which, who, 19)
        except OSError: pass
spread(110)`,
	`for name in ("autogroup", "sched", "timerslack_ns"):
    try: open("/proc/self/" + name, "w").write("19")
    except OSError: pass
spread(110, lambda: (os.setsid(), os.nice(19)))`,
	`spread(20, lambda: os.nice(19), born)`,
	`import threading
for i in range(100):
    try: threading.Thread(target=spin).start()
    except RuntimeError: break
spin()`,
	`spread(60, lambda: [signal.signal(s, signal.SIG_IGN) for s in range(1, 32) if s not in (9, 19)], wait_for_disk)`,
	`spread(60, lambda: os.kill(os.getpid(), signal.SIGSTOP) if os.getpid() % 2 else os.nice(19))`,
	`memory = [bytearray(1 << 20) for i in range(100)]
spread(60, lambda: os.nice(19))`,
}

const reluctantPrelude = `import os, signal, time
def spin():
    while True: pass
def born():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
                if os.fork(): os._exit(0)
        except OSError: pass
def wait_for_disk():
    while True:
        for path in ("/usr/bin/python3", "/usr/bin/bash", "/usr/bin/env"):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            while os.read(fd, 1 << 16): pass
            os.close(fd)
def spread(count, first=lambda: None, then=spin):
    for i in range(count):
        try:
            if os.fork() == 0: first(); then()
        except OSError: break
    first(); then()
`

// measurePriorities ends programs that put it off, while the machine has other things
// to do.
func measurePriorities(ctx context.Context, o options) (figure, error) {
	const limit = time.Second // they need some time to become many
	runs := o.runs
	if runs == 0 {
		runs = 140
	}
	return with(ctx, o, func(_ *service, who tenant) (f figure, err error) {
		hogs, err := startHogs(ctx, 2*runtime.NumCPU())
		defer func() { err = errors.Join(err, stopHogs(hogs)) }()
		if err != nil {
			return figure{}, err
		}
		var answers, ends lab.Sample
		for i := range runs {
			word := fmt.Sprintf("reluctant-%d", time.Now().UnixNano())
			code := "exec python3 -c '" + reluctantPrelude + reluctant[i%len(reluctant)] + "' $1"
			answered, end, err := overdue(ctx, who, client.RunRequest{
				Language: "bash", Code: code, Args: []string{word}, Timeout: limit}, word)
			if err != nil {
				return figure{}, err
			}
			answers, ends = append(answers, answered), append(ends, end)
		}
		ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
		return figure{
			found: fmt.Sprintf("gone after p50 %v, p99 %v; answered after p50 %v, p99 %v (%d runs of %d kinds beside %d hogs)",
				ms(ends.At(50)), ms(ends.At(99)), ms(answers.At(50)), ms(answers.At(99)), runs, len(reluctant),
				len(hogs)),
			over: ends.At(99) > 500*time.Millisecond,
		}, nil
	})
}

// startHogs starts processes of this machine that compute. Those that it could start
// are returned with an error, too.
func startHogs(ctx context.Context, count int) (hogs []*exec.Cmd, err error) {
	for range count {
		hog := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := hog.Start(); err != nil {
			return hogs, err
		}
		hogs = append(hogs, hog)
	}
	return hogs, nil
}

// stopHogs ends them.
func stopHogs(hogs []*exec.Cmd) (err error) {
	for _, hog := range hogs {
		err = errors.Join(err, hog.Process.Kill())
		_ = hog.Wait() // it was killed
	}
	return err
}
