package cgroup

import (
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
)

// This file reads the resource usage of a control group as the kernel counts it.

// accounts are the files with a group's usage, by controller; on version 2 one folder
// has all of them. Memory includes the part that was swapped out, because it is charged
// again when it is swapped in.
var accounts = map[string]struct{ processes, refused, cpu, memoryPeak, memory, sockets, oom string }{
	"":        {processes: "pids.current", refused: "pids.events", cpu: "cpu.stat", memoryPeak: "memory.peak"},
	"pids":    {processes: "pids.current", refused: "pids.events"},
	"cpuacct": {cpu: "cpuacct.usage"},
	"memory": {
		memoryPeak: "memory.max_usage_in_bytes", memory: "memory.memsw.usage_in_bytes",
		sockets: "memory.kmem.tcp.usage_in_bytes", oom: "memory.oom_control",
	},
}

// openAccounts opens the files of one controller. Reading an open file takes one call,
// while a request waits for the program's end.
func (g *Group) openAccounts(controller, folder string) {
	open := func(place **os.File, name string, flag int) {
		if name != "" {
			*place, _ = openControl(folder, name, flag)
		}
	}
	names := accounts[controller]
	counts := unix.O_RDONLY
	if g.tree.Version == 1 {
		counts = unix.O_RDWR // to reset them
	}
	open(&g.processesFile, names.processes, unix.O_RDONLY)
	open(&g.refusedFile, names.refused, unix.O_RDONLY)
	open(&g.cpuFile, names.cpu, counts)
	open(&g.peakFile, names.memoryPeak, counts)
	open(&g.memoryFile, names.memory, unix.O_RDONLY)
	open(&g.socketFile, names.sockets, unix.O_RDONLY)
	open(&g.oomFile, names.oom, unix.O_RDONLY)
	if names.memory != "" && g.memoryFile == nil { // a kernel without swap accounting
		open(&g.memoryFile, "memory.usage_in_bytes", unix.O_RDONLY)
	}
}

// counts returns the open files of a group's accounts, nil for each that is missing.
func (g *Group) counts() []*os.File {
	return []*os.File{g.processesFile, g.refusedFile, g.cpuFile, g.peakFile, g.memoryFile, g.socketFile, g.oomFile}
}

// Meter reopens the files of a group's usage, for a process that may not open them: see
// ReadMeter. It returns nil without a group.
func (g *Group) Meter() []*os.File {
	if g == nil || g.cpuFile == nil || g.peakFile == nil {
		return nil
	}
	var files []*os.File
	for _, f := range []*os.File{g.cpuFile, g.peakFile} {
		again, err := openControl(path.Dir(f.Name()), path.Base(f.Name()), unix.O_RDONLY)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil
		}
		files = append(files, again)
	}
	return files
}

// ReadMeter reads the usage from the files of a Meter.
func ReadMeter(files []*os.File) (cpu time.Duration, memoryPeak int64) {
	var texts [2]string
	for i, f := range files[:len(texts)] {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Read(func(fd uintptr) bool { // a closed file reads as empty
				texts[i] = kernelfile.ReadFD(int(fd))
				return true
			})
		}
	}
	if used := kernelfile.Value(texts[0], "usage_usec"); used > 0 { // version 2
		return time.Duration(used) * time.Microsecond, kernelfile.Int(texts[1])
	}
	return time.Duration(kernelfile.Int(texts[0])), kernelfile.Int(texts[1])
}

// Processes returns the number of the group's processes and threads, 0 if it is not known.
func (g *Group) Processes() int64 {
	if g == nil {
		return 0
	}
	return kernelfile.Int(kernelfile.ReadOpen(g.processesFile))
}

// Refused returns how many processes and threads the limit has refused.
func (g *Group) Refused() int64 { return kernelfile.Value(kernelfile.ReadOpen(g.refusedFile), "max") }

// CPUTime returns the processor time used so far.
func (g *Group) CPUTime() time.Duration {
	if g.tree.Version == 2 {
		return time.Duration(kernelfile.Value(kernelfile.ReadOpen(g.cpuFile), "usage_usec")) * time.Microsecond
	}
	return time.Duration(kernelfile.Int(kernelfile.ReadOpen(g.cpuFile)))
}

// MemoryPeak returns the peak memory usage, in bytes.
func (g *Group) MemoryPeak() int64 { return kernelfile.Int(kernelfile.ReadOpen(g.peakFile)) }

// MemoryInUse returns the memory in use, in bytes.
func (g *Group) MemoryInUse() int64 {
	if g.tree.Version == 2 {
		return kernelfile.Int(kernelfile.Read(g.folders[0], "memory.current"))
	}
	return kernelfile.Int(kernelfile.ReadOpen(g.memoryFile))
}

// OOMKills returns how many processes the kernel killed for want of memory.
func (g *Group) OOMKills() int64 {
	if g.tree.Version == 2 {
		return kernelfile.Value(kernelfile.Read(g.folders[0], "memory.events"), "oom_kill")
	}
	return kernelfile.Value(kernelfile.ReadOpen(g.oomFile), "oom_kill")
}

// TaskLimit returns how many processes and threads a process may have together with all
// others of its control group, or of one around it. own is the content of
// /proc/self/cgroup, and root holds the mounted hierarchies. It reports whether there is
// such a limit.
func TaskLimit(root, own string) (most int64, bounded bool) {
	place := parseOwnGroups(own)
	bases := [][2]string{{root, place[""]}, {filepath.Join(root, "unified"), place[""]},
		{filepath.Join(root, "pids"), place["pids"]}}
	for _, base := range bases {
		for at := filepath.Join("/", base[1]); ; at = filepath.Dir(at) {
			if n := kernelfile.Int(kernelfile.Read(base[0]+at, "pids.max")); n > 0 && (!bounded || n < most) { // not "max"
				most, bounded = n, true
			}
			if at == "/" {
				break
			}
		}
	}
	return most, bounded
}
