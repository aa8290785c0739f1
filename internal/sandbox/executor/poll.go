package executor

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

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Without control groups the executor itself polls the resources that the processes of
// a sandbox use together, and ends the sandbox if they exceed the limit. This is weaker
// than the kernel's limit: a program can exceed it between two polls. Resources that
// cannot be counted from outside are blocked: see withoutGroups, replaceZero and
// socketMemory.

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
	shared   int64     // by its mappings, at the last check,
	lookNext time.Time // and the time of the next check

	stop chan struct{}
	done sync.WaitGroup
}

// startPoller polls until finish is called. It calls kill at most once.
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

// finish stops polling after a last poll; then the account may be read.
func (p *poller) finish() {
	close(p.stop)
	p.done.Wait()
	p.look()
}

// look reports whether the limit is exceeded. Resident memory is cheap to read, but
// counts shared pages in each process. look computes the exact share only if the
// resident memory exceeds the limit.
func (p *poller) look() bool {
	pids := p.entered.list(p.pid)
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

// Descendants returns the processes of a sandbox without its pid 1, whose memory is the
// executor's. An orphan becomes a child of pid 1, so none is missed.
func Descendants(pid int) (all []int) {
	folder := image.ProcPath + "/" + strconv.Itoa(pid) + "/task"
	// A folder has two links and one for each subfolder, here a thread. A process with
	// a single thread needs no listing.
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
		all = append(append(all, child), Descendants(child)...)
	}
	return all
}

// ChildrenOfInit returns the children of a sandbox's first process, which has one thread.
func ChildrenOfInit(pid int) []int {
	number := strconv.Itoa(pid)
	return childrenOf(image.ProcPath + "/" + number + "/task/" + number)
}

// childrenOf returns the children of one thread.
func childrenOf(task string) (children []int) {
	list := kernelfile.Read(task, "children")
	if len(list) > 2048 { // the list may exceed one page
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

// cpuTime returns the processor time of a sandbox's processes, including those that pid
// 1 has reaped.
func cpuTime(init int, pids []int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go knows
	var ticks int64
	for _, pid := range append([]int{init}, pids...) {
		b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", image.ProcPath, pid))
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

// tasks returns the number of a process's threads.
func tasks(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("%s/%d/task", image.ProcPath, pid))
	return len(list)
}

// afterName returns the part of a stat file after a process's name. The program chooses
// the name, which may contain parentheses.
func afterName(stat []byte) string {
	return string(bytes.TrimPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")))
}

// memoryUse is the memory of one process, in bytes.
type memoryUse struct {
	pages  int64 // resident or swapped out
	tables int64 // page tables
}

func memoryOf(pid int) (m memoryUse) {
	for name, bytes := range sizes(fmt.Sprintf("%s/%d/status", image.ProcPath, pid)) {
		switch name {
		case "VmRSS", "VmSwap":
			m.pages += bytes
		case "VmPTE":
			m.tables += bytes
		}
	}
	return m
}

// proportionalBytes returns a process's memory, in which each shared page is divided
// among the processes that share it.
func proportionalBytes(pid int) (sum int64) {
	for name, bytes := range sizes(fmt.Sprintf("%s/%d/smaps_rollup", image.ProcPath, pid)) {
		if name == "Pss" || name == "SwapPss" {
			sum += bytes
		}
	}
	return sum
}

// sizes returns the lines "name: number kB" of a file, in bytes.
func sizes(path string) iter.Seq2[string, int64] {
	b, _ := os.ReadFile(path) // empty for a process that has ended
	return func(yield func(string, int64) bool) {
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			if number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok && !yield(name, kernelfile.Int(number)<<10) {
				return
			}
		}
	}
}
