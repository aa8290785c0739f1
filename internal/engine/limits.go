package engine

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Or returns l with its zero fields taken from defaults, each by itself.
func (l Limits) Or(defaults Limits) Limits {
	l.Timeout = cmp.Or(l.Timeout, defaults.Timeout)
	l.CPUTime = cmp.Or(l.CPUTime, defaults.CPUTime)
	l.Memory = cmp.Or(l.Memory, defaults.Memory)
	l.Processes = cmp.Or(l.Processes, defaults.Processes)
	l.CPUs = cmp.Or(l.CPUs, defaults.CPUs)
	l.Workspace = cmp.Or(l.Workspace, defaults.Workspace)
	l.Inodes = cmp.Or(l.Inodes, defaults.Inodes)
	l.Output.Bytes = cmp.Or(l.Output.Bytes, defaults.Output.Bytes)
	l.Output.HeadOnly = cmp.Or(l.Output.HeadOnly, defaults.Output.HeadOnly)
	l.Output.Marker = cmp.Or(l.Output.Marker, defaults.Output.Marker)
	l.Files.Count = cmp.Or(l.Files.Count, defaults.Files.Count)
	l.Files.Bytes = cmp.Or(l.Files.Bytes, defaults.Files.Bytes)
	l.Files.Total = cmp.Or(l.Files.Total, defaults.Files.Total)
	return l
}

// atLeast returns the maxima l, each raised to its default if it is below.
func (l Limits) atLeast(defaults Limits) Limits {
	native := nativeDefaults
	native.Timeout = nativeMaxTimeout
	l = l.Or(native)
	l.Timeout = max(l.Timeout, defaults.Timeout)
	l.Memory = max(l.Memory, defaults.Memory)
	l.Processes = max(l.Processes, defaults.Processes)
	l.Workspace = max(l.Workspace, defaults.Workspace)
	l.Inodes = max(l.Inodes, defaults.Inodes)
	l.Output.Bytes = max(l.Output.Bytes, defaults.Output.Bytes)
	l.Files.Count = max(l.Files.Count, defaults.Files.Count)
	l.Files.Bytes = max(l.Files.Bytes, defaults.Files.Bytes)
	l.Files.Total = max(l.Files.Total, defaults.Files.Total)
	return l
}

// leastMemory is the smallest limit of memory that a sandbox takes.
const leastMemory = 1 << 20

// limits fills the zero fields of the requested limits. It refuses a limit that
// is negative or above its maximum, by name.
func (s *Service) limits(asked Limits) (Limits, error) {
	most := s.cfg.Maxima
	given := asked.Or(s.cfg.Defaults)
	given.CPUTime = cmp.Or(given.CPUTime, most.CPUTime)
	given.CPUs = cmp.Or(given.CPUs, most.CPUs)
	if given.Memory >= 0 && given.Memory < leastMemory {
		return Limits{}, Invalid("limits.memory", "is %s, at least %s is needed", byteCount(given.Memory),
			byteCount(leastMemory))
	}
	for _, err := range []error{
		within("limits.timeout", given.Timeout, most.Timeout, DurationText),
		within("limits.cpu_time", given.CPUTime, most.CPUTime, DurationText),
		within("limits.memory", given.Memory, most.Memory, byteCount),
		within("limits.processes", given.Processes, most.Processes, nil),
		within("limits.cpus", given.CPUs, most.CPUs, nil),
		within("limits.workspace", given.Workspace, most.Workspace, byteCount),
		within("limits.inodes", given.Inodes, most.Inodes, nil),
		within("limits.output.bytes", given.Output.Bytes, most.Output.Bytes, nil),
		within("limits.files.count", given.Files.Count, most.Files.Count, nil),
		within("limits.files.bytes", given.Files.Bytes, most.Files.Bytes, byteCount),
		within("limits.files.total", given.Files.Total, most.Files.Total, byteCount),
	} {
		if err != nil {
			return Limits{}, err
		}
	}
	return given, nil
}

// settingOf names the settings of the limits that have one.
var settingOf = map[string]string{"limits.timeout": "max_timeout", "limits.memory": "max_memory",
	"limits.processes": "max_processes", "limits.output.bytes": "max_output"}

func within[T int | int64 | float64 | time.Duration](field string, given, most T, words func(T) string) error {
	if given < 0 || math.IsNaN(float64(given)) {
		return Invalid(field, "must not be negative")
	}
	if most == 0 || given <= most {
		return nil
	}
	if words == nil {
		words = func(n T) string { return fmt.Sprint(n) }
	}
	refused := &Error{Op: "check", Kind: ErrInvalid, ID: field,
		Err: fmt.Errorf("is %s, at most %s is allowed", words(given), words(most))}
	if setting := settingOf[field]; setting != "" {
		refused.Hint = fmt.Sprintf("The operator can allow more with %s (`airlock serve --%s`, AIRLOCK_%s).", setting,
			strings.ReplaceAll(setting, "_", "-"), strings.ToUpper(setting))
	}
	return refused
}
