package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is one line of /proc.
type process struct {
	pid, parent int
	command     string
	state       byte
	ticks       int // of a core that it has used
	resident    int // pages
}

// processes returns all of the machine's, by pid.
func processes() map[int]process {
	found := map[int]process{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(entry, "stat"))
		if err != nil {
			continue // gone
		}
		command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		if p, ok := parseStat(pid, stat); ok {
			p.command = string(bytes.ReplaceAll(bytes.TrimSuffix(command, []byte{0}), []byte{0}, []byte{' '}))
			found[pid] = p
		}
	}
	return found
}

// parseStat reads /proc/PID/stat. The name, in parentheses, may hold anything.
func parseStat(pid int, stat []byte) (process, bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return process{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	return process{pid: pid, parent: number(1), state: fields[0][0], ticks: number(11) + number(12), resident: number(21)},
		true
}

// family is an Airlock service as its processes show it.
type family struct {
	parent, service, executor []process // executor: with the keepers of its zygotes
	zygotes                   []zygote  // the smallest first
}

type zygote struct {
	process
	tier      string
	sandboxes [][]process // each with pid 1 and what is below it
}

// tiers are the names of our zygotes in order of size.
var tiers = []string{"bare", "light", "standard", tierLive, "numpy", "pandas", "full"}

const tierLive = "live"

// familyOf sorts the processes below root: a zygote is the first Python below
// the executor, and each child of it is a sandbox.
func familyOf(root int, all map[int]process) family {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	for _, list := range children {
		slices.SortFunc(list, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	}
	f := family{parent: []process{all[root]}}
	var below func(pid int) []process
	below = func(pid int) []process {
		var list []process
		for _, p := range children[pid] {
			list = append(append(list, p), below(p.pid)...)
		}
		return list
	}
	var executor func(p process)
	executor = func(p process) {
		if strings.Contains(p.command, "python") {
			z := zygote{process: p}
			for _, s := range children[p.pid] {
				z.sandboxes = append(z.sandboxes, append([]process{s}, below(s.pid)...))
			}
			f.zygotes = append(f.zygotes, z)
			return
		}
		f.executor = append(f.executor, p)
		for _, child := range children[p.pid] {
			executor(child)
		}
	}
	for _, p := range children[root] {
		if strings.Contains(p.command, "--launcher-socket") {
			f.service = append(f.service, p)
		} else {
			executor(p)
		}
	}
	slices.SortFunc(f.zygotes, func(a, b zygote) int { return cmp.Compare(a.resident, b.resident) })
	for i := range f.zygotes {
		f.zygotes[i].tier = fmt.Sprint(i + 1)
		if len(f.zygotes) == len(tiers) {
			f.zygotes[i].tier = tiers[i]
		}
	}
	return f
}
