package executor

import "testing"

// However often a program is frozen, thawed and ended, it counts once or not at all.
func TestCountProgram(t *testing.T) {
	e := &executor{}
	first, second := e.countProgram(), e.countProgram()
	for i, step := range []struct {
		program *countedProgram
		count   bool
		want    int32
	}{
		{first, true, 2}, {first, false, 1}, {first, false, 1}, {second, false, 0}, {second, false, 0}, {first, true, 1},
		{first, true, 1}, {first, false, 0},
	} {
		if step.program.count(step.count); e.running.Load() != step.want {
			t.Errorf("step %d: %d programs, want %d", i, e.running.Load(), step.want)
		}
	}
}
