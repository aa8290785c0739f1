package linux

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
)

// Where there are no control groups the executor itself looks, again and
// again, at what the processes of a sandbox use together, and ends it when
// that is too much. It is weaker than the kernel's limit: between two looks a
// program can be over it. What cannot be counted from outside does not exist there:
// see withoutGroups, replaceZero and socketMemory.

const pollInterval = 20 * time.Millisecond

// poller watches the memory of one sandbox.
type poller struct {
	pid     int // pid 1 of the sandbox
	entered *entered
	limit   int64
	peak    int64
	cpu     time.Duration
	over    bool

	most     uncounted
	shared   int64     // by its mappings, when they were last looked at,
	lookNext time.Time // and when they are again

	stop chan struct{}
	done sync.WaitGroup
}

// startPoller looks until finish is called, and calls kill once.
func startPoller(pid int, entered *entered, limit int64, most uncounted, kill func()) *poller {
	p := &poller{pid: pid, entered: entered, limit: limit, most: most, stop: make(chan struct{})}
	p.done.Go(func() {
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
			}
			if p.look() {
				p.over = true
				kill()
				return
			}
		}
	})
	return p
}

// finish ends the looking, after a last look; then the account may be read.
func (p *poller) finish() {
	close(p.stop)
	p.done.Wait()
	p.look()
}

// look reports whether the limit is exceeded. What is resident is cheap to ask for
// and counts shared pages in each process; only when that would exceed the limit is
// the exact share computed.
func (p *poller) look() bool {
	pids := p.entered.among(p.pid)
	p.cpu = max(p.cpu, p.entered.cpu(p.pid, pids))
	other := p.sockets() + p.mapped(pids)
	resident := other
	for _, pid := range pids {
		m := memoryOf(pid)
		resident += m.pages + m.tables
		other += m.tables
	}
	if resident <= p.limit {
		p.peak = max(p.peak, resident)
		return false
	}
	share := other
	for _, pid := range pids {
		share += proportionalBytes(pid)
	}
	p.peak = max(p.peak, share)
	return share > p.limit
}

// descendants are the processes of a sandbox without its pid 1, whose memory
// is the executor's. An orphan becomes a child of pid 1, so none is missed.
func descendants(pid int) (all []int) {
	folder := procPath + "/" + strconv.Itoa(pid) + "/task"
	// A folder has two links and one for each folder in it, here threads: of one
	// there is no need to list them.
	var st unix.Stat_t
	if err := unix.Stat(folder, &st); err != nil {
		return nil
	}
	if st.Nlink == 2+1 {
		return withDescendants(childrenOf(folder + "/" + strconv.Itoa(pid)))
	}
	tasks, _ := os.ReadDir(folder)
	for _, task := range tasks {
		all = append(all, withDescendants(childrenOf(folder+"/"+task.Name()))...)
	}
	return all
}

func withDescendants(children []int) (all []int) {
	for _, child := range children {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// ofInit are the children of a sandbox's first process, which has one thread.
func ofInit(pid int) []int {
	number := strconv.Itoa(pid)
	return childrenOf(procPath + "/" + number + "/task/" + number)
}

// childrenOf are those of one thread.
func childrenOf(task string) (children []int) {
	list := kernelfile.Read(task, "children")
	if len(list) > 2048 { // there may be more than fit into a page
		long, _ := os.ReadFile(task + "/children")
		list = string(long)
	}
	for field := range strings.FieldsSeq(list) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// cpuTime is what the processes of a sandbox have used, those that pid 1 has
// reaped included.
func cpuTime(init int, pids []int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go knows
	var ticks int64
	for _, pid := range append([]int{init}, pids...) {
		b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", procPath, pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(afterName(b))
		if len(fields) < 15 {
			continue
		}
		for _, field := range fields[11:15] { // utime, stime, cutime, cstime
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
}

// tasks is the number of a process's threads.
func tasks(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("%s/%d/task", procPath, pid))
	return len(list)
}

// afterName is what stands in a stat file behind a process's name. That one is
// the program's to choose, parentheses included.
func afterName(stat []byte) string {
	return string(bytes.TrimPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")))
}

// memoryUse is what one process has, in bytes.
type memoryUse struct {
	pages  int64 // resident or swapped out
	tables int64 // that say where they are
}

func memoryOf(pid int) (m memoryUse) {
	for name, bytes := range sizes(fmt.Sprintf("%s/%d/status", procPath, pid)) {
		switch name {
		case "VmRSS", "VmSwap":
			m.pages += bytes
		case "VmPTE":
			m.tables += bytes
		}
	}
	return m
}

// proportionalBytes is what a process has, where what it shares with others is
// divided among them.
func proportionalBytes(pid int) (sum int64) {
	for name, bytes := range sizes(fmt.Sprintf("%s/%d/smaps_rollup", procPath, pid)) {
		if name == "Pss" || name == "SwapPss" {
			sum += bytes
		}
	}
	return sum
}

// sizes are the lines "name: number kB" of a file, in bytes.
func sizes(path string) iter.Seq2[string, int64] {
	b, _ := os.ReadFile(path) // of a process that has ended there is nothing
	return func(yield func(string, int64) bool) {
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			if number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok && !yield(name, kernelfile.Int(number)<<10) {
				return
			}
		}
	}
}
