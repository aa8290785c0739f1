package live

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// waiting is how many sandboxes wait for interpreters.
func (p *place) waiting() int {
	p.t.Helper()
	pools, err := p.sandbox.Pools(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, pool := range pools {
		if pool.Name == "live" {
			return pool.Waiting
		}
	}
	return 0
}

// TestWaiting has a session get an interpreter that was there before it.
func TestWaiting(t *testing.T) {
	p := openAlone(t, Config{})
	if n := p.waiting(); n != 0 {
		t.Errorf("%d wait before anybody asked for one", n)
	}
	first := p.session("python")
	p.want(p.run(first, "x = 1; open('a', 'w').close(); 1/0"), StatusError)
	p.await(func() bool { return p.waiting() > 1 })

	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	const ticks = 100 // a second
	before := int(now.Nano() * ticks / 1e9)
	s := p.session("python")
	c := p.want(p.run(s, "int(open('/proc/self/stat').read().rpartition(')')[2].split()[19])"), StatusOK)
	if began, err := strconv.Atoi(plain(t, c)); err != nil || began > before || c.ExecutionCount != 1 || c.Restarted {
		t.Errorf("the interpreter began at tick %s, the session was made at %d; %+v", plain(t, c), before, c)
	}
	const traces = `import os, sys
os.listdir(), 'x' in globals(), '_1' in globals() and _1 > 0, len(In), hasattr(sys, 'last_value'), os.getcwd()`
	if got := plain(t, p.run(s, traces)); got != "([], False, True, 3, False, '/workspace')" {
		t.Errorf("a new interpreter has %s", got)
	}
	if got := plain(t, p.run(first, "x, os.listdir()")); got != "" { // os is not imported there
		t.Errorf("the first has %s", got)
	}

	// Its files are put where it waits.
	stored := p.want(p.run(s, "open('t.txt', 'w').write('abc')"), StatusOK).Files
	if len(stored) != 1 {
		t.Fatalf("%+v", stored)
	}
	made, err := p.Create(t.Context(), p.caller, Request{Files: []engine.FileRef{{ID: stored[0].ID, Path: "d/t.txt"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := plain(t, p.run(made.ID, "open('d/t.txt').read()")); got != "'abc'" {
		t.Errorf("the file is %s", got)
	}
	for i := range 20 { // more than wait
		if got := plain(t, p.run(p.session("python"), fmt.Sprint(i, "+1"))); got != strconv.Itoa(i+1) {
			t.Errorf("%d+1 is %s", i, got)
		}
	}
}

// TestTasksGoOn checks that the tasks of a finished cell continue before the next cell.
func TestTasksGoOn(t *testing.T) {
	p := openAlone(t, Config{})
	s := p.session("python")
	const leave = `import asyncio
async def work():
    global done
    for _ in range(1000):
        await asyncio.sleep(0)
    done = True
done, task = False, asyncio.get_running_loop().create_task(work())`
	p.want(p.run(s, leave), StatusOK)
	for tries := 100; ; tries-- { // how far it gets before the next cell is a matter of the machine
		if got := plain(t, p.run(s, "done")); got == "True" {
			return
		} else if tries == 0 {
			t.Fatalf("the task is done: %s", got)
		}
		<-time.After(10 * time.Millisecond)
	}
}
