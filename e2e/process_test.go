package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is a line of /proc.
type process struct {
	pid, parent int
	argv        []string
}

// processes returns every process that matches.
func processes(match func(process) bool) []process {
	var found []process
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		p := process{}
		p.pid, _ = strconv.Atoi(filepath.Base(entry))
		raw, err := os.ReadFile(filepath.Join(entry, "cmdline"))
		if err != nil || len(raw) == 0 {
			continue // gone, a thread of the kernel, or dead and not yet reaped
		}
		for _, word := range bytes.Split(bytes.TrimSuffix(raw, []byte{0}), []byte{0}) {
			p.argv = append(p.argv, string(word))
		}
		stat, err := os.ReadFile(filepath.Join(entry, "stat"))
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold spaces.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 {
			p.parent, _ = strconv.Atoi(fields[1])
		}
		if match(p) {
			found = append(found, p)
		}
	}
	return found
}

// withWord returns the processes that have a word on their command line.
func withWord(word string) []process {
	return processes(func(p process) bool {
		for _, w := range p.argv {
			if w == word {
				return true
			}
		}
		return false
	})
}

// family returns a process and all below it. It reads each process of the machine once:
// beside hundreds of sandboxes a walk that reads them at each step takes a minute.
func family(root int) (found []process) {
	all := processes(func(process) bool { return true })
	in := map[int]bool{root: true}
	for grown := 0; grown < len(in); {
		grown = len(in)
		for _, p := range all {
			if in[p.parent] {
				in[p.pid] = true
			}
		}
	}
	for _, p := range all {
		if in[p.pid] {
			found = append(found, p)
		}
	}
	return found
}

// executorsOf returns the executors in a family. What an executor forks has its command
// line too, so only the outermost count.
func executorsOf(members []process) (found []process) {
	named := func(p process) bool { return len(p.argv) > 1 && p.argv[1] == "executor" }
	for _, p := range members {
		if named(p) && !slices.ContainsFunc(members, func(q process) bool { return q.pid == p.parent && named(q) }) {
			found = append(found, p)
		}
	}
	return found
}
