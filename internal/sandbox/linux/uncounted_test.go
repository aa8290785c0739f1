package linux

import (
	"slices"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// Without control groups the address space is limited, except for Node.
func TestAddressSpaceIsBounded(t *testing.T) {
	for program, bounded := range map[string]bool{"/usr/bin/python3": true, "/bin/bash": true, executor.NodePath: false} {
		request := &executor.RunRequest{Argv: []string{program}, Timeout: time.Second}
		s := &sandbox{wall: &wall{}, Box: &executor.Box{Request: request}}
		has := func() bool {
			return slices.ContainsFunc(s.limits(), func(s spawn.Step) bool { return s.Name == "limit address space" })
		}
		if has() != bounded {
			t.Errorf("%s: bounded %v", program, has())
		}
		if s.Group = (&cgroup.Group{}); has() {
			t.Errorf("%s is bounded in a control group", program)
		}
	}
}
