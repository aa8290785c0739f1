package linux

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// busy is a program that computes in a thread and in a child process while it waits for
// an answer, and then prints its processor time.
const busy = `
import os, struct, threading, time
def spin():
    while True: pass
child = os.fork()
if not child: spin()
threading.Thread(target=spin, daemon=True).start()
def used():
    fields = open("/proc/%d/stat" % child).read().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
body = b'{"id":1,"name":"wait","input":{}}'
before = used()
os.write(4, struct.pack(">I", len(body)) + body)
os.read(3, 4)
after = used()
os.kill(child, 9)
print(after - before, flush=True)
`

// pausing freezes its program while it answers a call.
type pausing struct {
	sandboxtest.Host
	t      *testing.T
	motion engine.Motion // in the meantime
	frozen time.Duration
	freeze func(engine.Motion) error
	output strings.Builder
}

func (h *pausing) Output(stream engine.Stream, data []byte) {
	if stream == engine.Stdout {
		h.output.Write(data)
	}
}

func (h *pausing) SetControls(controls engine.Controls) { h.freeze = controls.Freeze }

func (h *pausing) Call(ctx context.Context, _ string, input []byte) ([]byte, error) {
	set := func(motion engine.Motion) {
		if h.motion == engine.GoOn {
			return
		}
		if err := h.freeze(motion); err != nil {
			h.t.Error(err)
		}
	}
	set(h.motion)
	pause := time.NewTimer(h.frozen)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	set(engine.GoOn)
	return input, nil
}

func pausedSpec() *engine.Spec {
	spec := sandboxtest.Python(busy)
	spec.Calls = true
	spec.Limits.Timeout = 2 * time.Minute
	return spec
}

func usedInPause(t *testing.T, s engine.Sandbox, motion engine.Motion, pause time.Duration) float64 {
	t.Helper()
	host := &pausing{t: t, motion: motion, frozen: pause}
	o, err := s.Run(t.Context(), pausedSpec(), host)
	if err != nil {
		t.Fatal(err)
	}
	used, err := strconv.ParseFloat(strings.TrimSpace(host.output.String()), 64)
	if err != nil {
		t.Fatalf("%v, outcome %+v", err, o)
	}
	return used
}

// A frozen program does not compute, and continues afterwards.
func TestFrozenProgram(t *testing.T) {
	for name, s := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)} {
		t.Run(name, func(t *testing.T) {
			// A busy machine gives it less time: the pause must be long enough to show
			// it, beyond the time before a delayed freeze.
			most := 4 * engine.StopDelay.Seconds()
			pause, free := 2*time.Second, usedInPause(t, s, engine.GoOn, 2*time.Second)
			for ; free < most && pause < 16*time.Second; free = usedInPause(t, s, engine.GoOn, pause) {
				pause *= 2
			}
			if free < most {
				t.Errorf("%.2f s of processor time in %v without being frozen: this test shows nothing", free, pause)
			}
			for name, motion := range map[string]engine.Motion{"at once": engine.Stop, "soon": engine.StopSoon} {
				used := usedInPause(t, s, motion, pause)
				for ; used > free/2 && pause < 16*time.Second; used = usedInPause(t, s, motion, pause) { // the order came late
					pause *= 2
					free = usedInPause(t, s, engine.GoOn, pause)
				}
				if used > free/2 {
					t.Errorf("%s: %.2f s of processor time in a pause of %v, and %.2f s without being frozen", name, used, pause, free)
				}
			}
		})
	}
}

// A program that has its answer may start a process at once. On control groups of version 1 a frozen one has a
// thousandth of a processor, in which it could read the answer before it was allowed to have more processes.
func TestForkAfterPause(t *testing.T) {
	const forks = `
import os, struct
body = b'{"id":1,"name":"wait","input":{}}'
failed = []
for i in range(100):
    os.write(4, struct.pack(">I", len(body)) + body)
    os.read(3, 4)
    try:
        if not (child := os.fork()):
            os._exit(0)
        os.waitpid(child, 0)
    except OSError as error:
        failed.append(str(error))
    os.read(3, 1 << 16)
print(len(failed), failed[:1])`
	for name, s := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)} {
		t.Run(name, func(t *testing.T) {
			spec := sandboxtest.Python(forks)
			spec.Calls = true
			spec.Limits.Timeout = 5 * time.Minute
			host := &pausing{t: t, motion: engine.Stop, frozen: 20 * time.Millisecond}
			if o, err := s.Run(t.Context(), spec, host); err != nil || host.output.String() != "0 []\n" {
				t.Errorf("failed: %q, outcome %+v, %v", host.output.String(), o, err)
			}
		})
	}
}

// A program that continues before its delayed freeze is not frozen.
func TestStopInVain(t *testing.T) {
	s := startWarm(t)
	const goesOn = "end = time.process_time() + %f\nwhile time.process_time() < end: pass\n"
	spec := sandboxtest.Python(busy + fmt.Sprintf(goesOn, 4*engine.StopDelay.Seconds()))
	spec.Calls = true
	spec.Limits.Timeout = time.Minute
	o, err := s.Run(t.Context(), spec, &pausing{t: t, motion: engine.StopSoon, frozen: engine.StopDelay / 4})
	if err != nil || o.ExitCode == nil || *o.ExitCode != 0 || o.TimedOut {
		t.Errorf("%+v, %v", o, err)
	}
}

// A frozen program can be ended, and its resources are released.
func TestEndOfFrozenProgram(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	host := &pausing{t: t, motion: engine.Stop, frozen: time.Hour}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, pausedSpec(), host)
		ended <- err
	}()
	pause := time.NewTimer(500 * time.Millisecond)
	<-pause.C
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	spec := pausedSpec()
	spec.Limits.Timeout = time.Second
	o, err := s.Run(t.Context(), spec, host)
	if err != nil || !o.TimedOut {
		t.Errorf("%+v, %v", o, err)
	}
}

// thawing thaws its program again and again, until that has ended.
type thawing struct {
	sandboxtest.Host
	thawed sync.WaitGroup
}

func (h *thawing) Call(context.Context, string, []byte) ([]byte, error) { return nil, nil }

func (h *thawing) SetControls(controls engine.Controls) {
	h.thawed.Go(func() {
		for controls.Freeze(engine.GoOn) == nil {
			continue
		}
	})
}

// A message that comes as a program ends does not take its outcome with it.
func TestThawedAsItEnds(t *testing.T) {
	s := start(t)
	for range 50 {
		h := &thawing{}
		outcome, err := s.Run(t.Context(), sandboxtest.Python("raise SystemExit(7)"), h)
		h.thawed.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if outcome.ExitCode == nil || *outcome.ExitCode != 7 {
			t.Fatalf("%+v", outcome)
		}
	}
}
