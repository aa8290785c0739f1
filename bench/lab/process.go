package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Megabyte is a million bytes.
const Megabyte = 1_000_000

// Process is one of the machine's.
type Process struct {
	PID, Parent int
	Argv        []string
	State       byte
	Ticks       int // of a core that it has used
}

// Word returns an argument of the process, or nothing.
func (p Process) Word(i int) string {
	if i < len(p.Argv) {
		return p.Argv[i]
	}
	return ""
}

// Procs are the processes of the machine, by id.
type Procs map[int]Process

// Processes returns all processes but those that have ended.
func Processes() Procs {
	found := Procs{}
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(entry, "stat"))
		if err != nil {
			continue // gone
		}
		if p, ok := parseStat(pid, stat); ok && p.State != 'Z' {
			line, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
			p.Argv = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
			found[pid] = p
		}
	}
	return found
}

// parseStat reads /proc/PID/stat. The name, in parentheses, may hold anything.
func parseStat(pid int, stat []byte) (Process, bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return Process{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	return Process{PID: pid, Parent: number(1), State: fields[0][0], Ticks: number(11) + number(12)}, true
}

// Within reports whether a process is another one, or below it.
func (t Procs) Within(pid, ancestor int) bool {
	for pid > 1 && pid != ancestor {
		pid = t[pid].Parent
	}
	return pid == ancestor
}

// Below returns the processes below one, in order of their ids.
func (t Procs) Below(pid int) (list []Process) {
	for _, p := range t {
		if p.PID != pid && t.Within(p.PID, pid) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list
}

// Server returns the process of a service that serves: below the first one as root, else that one.
func (s *Service) Server() int {
	for _, p := range Processes() {
		if p.Parent == s.Cmd.Process.Pid && p.Word(1) == "serve" {
			return p.PID
		}
	}
	return s.Cmd.Process.Pid
}

// Executor returns the process of a service that makes sandboxes, or 0.
func (s *Service) Executor() int {
	server, all := s.Server(), Processes()
	for _, p := range all {
		if p.Word(1) == "executor" && (p.Parent == s.Cmd.Process.Pid || p.Parent == server) {
			return p.PID
		}
	}
	return 0
}

// Zygotes returns the interpreters of a service from which sandboxes are forked.
func (s *Service) Zygotes() (list []Process) {
	all := Processes()
	for _, p := range all.Below(s.Cmd.Process.Pid) {
		if strings.Contains(p.Word(0), "python") && !strings.Contains(all[p.Parent].Word(0), "python") {
			list = append(list, p)
		}
	}
	return list
}

// Sandboxes returns the first processes of the sandboxes that are forked from a zygote.
func (t Procs) Sandboxes(zygote int) (list []Process) {
	for _, p := range t {
		if p.Parent == zygote {
			list = append(list, p)
		}
	}
	return list
}

// Private returns what processes have of their own, in MB: pages that no other process maps.
func Private(pids ...int) (mb float64) {
	for _, pid := range pids {
		mb += Status(pid, "smaps_rollup", "Private_Clean", "Private_Dirty") * 1024 / Megabyte
	}
	return mb
}

// Status returns the sum of numbers in a file of lines "name: number" below /proc/PID.
func Status(pid int, file string, names ...string) (sum float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may be gone
	return status(text, names...)
}

func status(text []byte, names ...string) (sum float64) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); slices.Contains(names, name) && len(fields) > 0 {
			n, _ := strconv.ParseFloat(fields[0], 64)
			sum += n
		}
	}
	return sum
}

// OpenFiles returns what the descriptors of a process are of.
func OpenFiles(pid int) (targets []string) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		target, _ := os.Readlink(filepath.Join(folder, entry.Name())) // it may be closed
		targets = append(targets, target)
	}
	return targets
}

// Used returns what processes have used of a core, in seconds: a tick of /proc/PID/stat is longer than what many of
// them use in a minute.
func Used(pids ...int) (seconds float64) {
	for _, pid := range pids {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is good
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			used, _, _ := strings.Cut(string(text), " ")
			n, _ := strconv.ParseInt(used, 10, 64)
			seconds += float64(n) / 1e9
		}
	}
	return seconds
}
