package cgroup

import (
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
)

// What a control group has used, as the kernel counts it.

// accounts are the files of what a group has used, by controller; on version 2
// one folder has all of them. Memory is counted with what of it was swapped out:
// whatever comes back is charged again.
var accounts = map[string]struct{ processes, cpu, memoryPeak, memory, sockets, oom string }{
	"":        {processes: "pids.current", cpu: "cpu.stat", memoryPeak: "memory.peak"},
	"pids":    {processes: "pids.current"},
	"cpuacct": {cpu: "cpuacct.usage"},
	"memory": {
		memoryPeak: "memory.max_usage_in_bytes", memory: "memory.memsw.usage_in_bytes",
		sockets: "memory.kmem.tcp.usage_in_bytes", oom: "memory.oom_control",
	},
}

// openAccounts opens those of one controller. Reading them then takes a call
// each, while a request waits for the program's end.
func (g *Group) openAccounts(controller, folder string) {
	open := func(place **os.File, name string, flag int) {
		if name != "" {
			*place, _ = openControl(folder, name, flag)
		}
	}
	names := accounts[controller]
	counts := unix.O_RDONLY
	if g.tree.Version == 1 {
		counts = unix.O_RDWR // to set them back
	}
	open(&g.processesFile, names.processes, unix.O_RDONLY)
	open(&g.cpuFile, names.cpu, counts)
	open(&g.peakFile, names.memoryPeak, counts)
	open(&g.memoryFile, names.memory, unix.O_RDONLY)
	open(&g.socketFile, names.sockets, unix.O_RDONLY)
	open(&g.oomFile, names.oom, unix.O_RDONLY)
	if names.memory != "" && g.memoryFile == nil { // a kernel that does not count what is swapped out
		open(&g.memoryFile, "memory.usage_in_bytes", unix.O_RDONLY)
	}
}

// counts are the open files of a group's accounts, nil where there is none.
func (g *Group) counts() []*os.File {
	return []*os.File{g.processesFile, g.cpuFile, g.peakFile, g.memoryFile, g.socketFile, g.oomFile}
}

// Meter opens once more what tells what a group has used, for a process that may not
// open it: see ReadMeter. Nil without a group.
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

// ReadMeter reads what a meter shows.
func ReadMeter(files []*os.File) (cpu time.Duration, memoryPeak int64) {
	var texts [2]string
	for i, f := range files[:len(texts)] {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Read(func(fd uintptr) bool { // one that is closed reads as nothing
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

// Processes counts the group's processes and threads; 0 if that is not known.
func (g *Group) Processes() int64 {
	if g == nil {
		return 0
	}
	return kernelfile.Int(kernelfile.ReadOpen(g.processesFile))
}

// CPUTime is the processor time used so far.
func (g *Group) CPUTime() time.Duration {
	if g.tree.Version == 2 {
		return time.Duration(kernelfile.Value(kernelfile.ReadOpen(g.cpuFile), "usage_usec")) * time.Microsecond
	}
	return time.Duration(kernelfile.Int(kernelfile.ReadOpen(g.cpuFile)))
}

// MemoryPeak is the most memory that was used at once, in bytes.
func (g *Group) MemoryPeak() int64 { return kernelfile.Int(kernelfile.ReadOpen(g.peakFile)) }

// MemoryInUse is the memory in use, in bytes.
func (g *Group) MemoryInUse() int64 {
	if g.tree.Version == 2 {
		return kernelfile.Int(kernelfile.Read(g.folders[0], "memory.current"))
	}
	return kernelfile.Int(kernelfile.ReadOpen(g.memoryFile))
}

// OOMKills counts the processes that the kernel killed for want of memory.
func (g *Group) OOMKills() int64 {
	if g.tree.Version == 2 {
		return kernelfile.Value(kernelfile.Read(g.folders[0], "memory.events"), "oom_kill")
	}
	return kernelfile.Value(kernelfile.ReadOpen(g.oomFile), "oom_kill")
}
