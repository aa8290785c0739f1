package e2e

import (
	"bytes"
	"os"
	"path/filepath"
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

// executors returns the executors below a process. What an executor forks has
// its command line too, so only the outermost count.
func executors(root int) []process {
	named := func(p process) bool { return len(p.argv) > 1 && p.argv[1] == "executor" }
	var outermost []process
	for _, p := range processes(func(p process) bool { return named(p) && below(p, root) }) {
		if len(processes(func(q process) bool { return q.pid == p.parent && named(q) })) == 0 {
			outermost = append(outermost, p)
		}
	}
	return outermost
}

func below(p process, root int) bool {
	for p.parent > 1 {
		if p.parent == root {
			return true
		}
		up := processes(func(q process) bool { return q.pid == p.parent })
		if len(up) == 0 {
			return false
		}
		p = up[0]
	}
	return false
}
