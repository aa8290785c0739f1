package linux

import (
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
// each, while somebody waits for the program's end.
func (g *group) openAccounts(controller, folder string) {
	open := func(place **os.File, name string, flag int) {
		if name != "" {
			*place, _ = openControl(folder, name, flag)
		}
	}
	names := accounts[controller]
	counts := unix.O_RDONLY
	if g.tree.version == 1 {
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
func (g *group) counts() []*os.File {
	return []*os.File{g.processesFile, g.cpuFile, g.peakFile, g.memoryFile, g.socketFile, g.oomFile}
}

// meter opens what a group has used once more, for the service, which may not open
// it: a live interpreter is asked after each cell. Nil without a group.
func (g *group) meter() []*os.File {
	if g == nil || g.cpuFile == nil || g.peakFile == nil {
		return nil
	}
	var files []*os.File
	for _, f := range []*os.File{g.cpuFile, g.peakFile} {
		again, err := openControl(path.Dir(f.Name()), path.Base(f.Name()), unix.O_RDONLY)
		if err != nil {
			closeAll(files)
			return nil
		}
		files = append(files, again)
	}
	return files
}

// readMeter reads what a meter shows.
func readMeter(files []*os.File) (cpu time.Duration, memoryPeak int64) {
	var texts [2]string
	for i, f := range files[:len(texts)] {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Read(func(fd uintptr) bool { // one that is closed reads as nothing
				texts[i] = readStart(int(fd))
				return true
			})
		}
	}
	if used := valueOf(texts[0], "usage_usec"); used > 0 { // version 2
		return time.Duration(used) * time.Microsecond, parseInt(texts[1])
	}
	return time.Duration(parseInt(texts[0])), parseInt(texts[1])
}

// processes counts the group's processes and threads; 0 if that is not known.
func (g *group) processes() int64 { return parseInt(readAgain(g.processesFile)) }

// cpu is the processor time used so far.
func (g *group) cpu() time.Duration {
	if g.tree.version == 2 {
		return time.Duration(valueOf(readAgain(g.cpuFile), "usage_usec")) * time.Microsecond
	}
	return time.Duration(parseInt(readAgain(g.cpuFile)))
}

// memoryPeak is the most memory that was used at once, in bytes.
func (g *group) memoryPeak() int64 { return parseInt(readAgain(g.peakFile)) }

// memoryNow is the memory in use, in bytes.
func (g *group) memoryNow() int64 {
	if g.tree.version == 2 {
		return parseInt(readSmall(g.folders[0], "memory.current"))
	}
	return parseInt(readAgain(g.memoryFile))
}

// oomKills counts the processes that the kernel killed for want of memory.
func (g *group) oomKills() int64 {
	if g.tree.version == 2 {
		return readKey(g.folders[0], "memory.events", "oom_kill")
	}
	return valueOf(readAgain(g.oomFile), "oom_kill")
}

func parseInt(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}

// readKey reads one line of a "key value" file.
func readKey(folder, name, key string) int64 { return valueOf(readSmall(folder, name), key) }

func valueOf(text, key string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return parseInt(fields[1])
		}
	}
	return 0
}

// readSmall reads a file of the kernel's that fits into a page; "" if it is
// not there.
func readSmall(folder, name string) string {
	fd, err := unix.Open(folder+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return readStart(fd)
}

// readAgain reads one that is open; "" if it is not.
func readAgain(f *os.File) string {
	if f == nil {
		return ""
	}
	return readStart(int(f.Fd()))
}

func readStart(fd int) string {
	var page [4096]byte
	n, _ := unix.Pread(fd, page[:], 0)
	return string(page[:max(n, 0)])
}
