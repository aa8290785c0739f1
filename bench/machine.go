package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where a run was made. Figures of two machines cannot be compared;
// their ratios can, with care.
type Machine struct {
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	MemoryBytes uint64  `json:"memory_bytes"`
	Kernel      string  `json:"kernel"`
	Arch        string  `json:"arch"`
	Python      string  `json:"python"`
	Isolation   string  `json:"isolation"` // what the sandbox can enforce here
	LoadBefore  float64 `json:"load_before"`
	LoadAfter   float64 `json:"load_after"`
}

func thisMachine(ctx context.Context, python string) (Machine, error) {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Arch: runtime.GOARCH, LoadBefore: loadAverage()}
	version, err := exec.CommandContext(ctx, python, "--version").Output()
	if err != nil {
		return m, fmt.Errorf("%s: %w", python, err)
	}
	m.Python = strings.TrimSpace(string(version))
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, err
	}
	m.Kernel = unix.ByteSliceToString(name.Release[:])
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, err
	}
	m.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // narrower on 32 bits
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m, nil
}

// loadAverage is how many processes wanted a core in the last minute; -1 if
// that cannot be told.
func loadAverage() float64 {
	load := -1.0
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// processors is how much time the machine's processors have had since it started,
// in the kernel's ticks, and how much of it a host gave to its other machines.
type processors struct{ all, stolen float64 }

// readProcessors reads it from the first line of /proc/stat.
func readProcessors(stat string) (p processors) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, field := range strings.Fields(line) {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil || i > stealField { // what comes then is counted before, too
			continue
		}
		p.all += ticks
		if i == stealField {
			p.stolen = ticks
		}
	}
	return p
}

// stealField is that of the time that was stolen, behind the line's name.
const stealField = 8

func processorsNow() processors {
	stat, _ := os.ReadFile("/proc/stat")
	return readProcessors(string(stat))
}

// stolenSince is the part of the processors' time that was stolen since before.
func (p processors) stolenSince(before processors) float64 {
	if p.all <= before.all {
		return 0
	}
	return (p.stolen - before.stolen) / (p.all - before.all)
}

func airlockVersion(ctx context.Context, binary string) (string, error) {
	text, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", binary, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line, nil
}

// isolation is what a service says of itself.
func isolation(s *server) (string, error) {
	c, err := dial(s.address)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.do(newRequest("GET", "/health", s.address, nil)); err != nil {
		return "", err
	}
	var health struct{ Isolation struct{ Summary string } }
	err = json.Unmarshal(c.body, &health)
	return health.Isolation.Summary, err
}
