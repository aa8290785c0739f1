package cgroup

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Demoted groups are not starved: if they got no time for a while, they have the
// default weight until they have had some.
func TestLongRunsGetTheirTurn(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "run")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	used := time.Duration(0)
	use := func(more time.Duration) {
		used += more
		if err := os.WriteFile(filepath.Join(folder, "cpuacct.usage"), []byte(strconv.FormatInt(int64(used), 10)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	use(time.Hour) // before it yielded
	yield, err := os.Create(filepath.Join(folder, "cpu.idle"))
	if err != nil {
		t.Fatal(err)
	}
	defer yield.Close()
	idle := func() bool {
		b, err := os.ReadFile(yield.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b) == "1"
	}
	l := newDemotedGroups()
	defer l.close()
	g := &Group{tree: &Tree{Version: 1, bases: map[string]string{"cpuacct": base}, long: l},
		folders: []string{folder}, yield: yield, idling: &idling{}}
	g.openAccounts("cpuacct", folder)
	defer g.cpuFile.Close()
	l.groups[g] = g.CPUTime() // without somebody who looks at the real time
	g.Idle(true)
	for i, step := range []struct {
		passed, used time.Duration // of one processor, out of all
		idle         bool
	}{
		{longTurn / 2, 0, true},
		{longTurn / 2, 0, false},    // nothing for a second
		{longTick, longTick, false}, // it stays its turn until it has had half of it
		{longTick, longTick, true},
		{longTick, 0, true},
		{longTurn, longTurn, true}, // more than its share
		{longTurn / 2, longTurn / 8, true},
		{longTurn * 2, longTurn / 20, false}, // less than its share
	} {
		share := time.Duration(runtime.NumCPU()) * step.used
		use(share)
		l.look(step.passed)
		if idle() != step.idle {
			t.Errorf("step %d: idle %v, want %v (owed %v)", i, idle(), step.idle, l.deficit.time)
		}
	}
	l.leave(g)
	if idle() {
		t.Error("what is no long run any more still lets others go first")
	}
}

// A killed group is boosted, and never demoted again.
func TestKilledGoesFirst(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "run")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu.idle", "cpu.shares"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	yield, err := os.OpenFile(filepath.Join(folder, "cpu.idle"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer yield.Close()
	l := newDemotedGroups()
	defer l.close()
	g := &Group{tree: &Tree{Version: 1, bases: map[string]string{"cpu": base}, long: l}, folders: []string{folder},
		yield: yield, idling: &idling{}}
	g.demote()
	if got := read(t, yield.Name()); got != "1" {
		t.Errorf("a long run is not idle: %q", got)
	}
	g.BoostForExit()
	g.demote()
	if idle, shares := read(t, yield.Name()), read(t, filepath.Join(folder, "cpu.shares")); idle != "0" ||
		shares != "10240" {
		t.Errorf("what is killed: idle %q, shares %q", idle, shares)
	}
}

// Only a program that computes is demoted; a waiting one is checked at intervals.
func TestAge(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "run")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	use := func(used time.Duration) {
		if err := os.WriteFile(filepath.Join(folder, "cpuacct.usage"), []byte(strconv.FormatInt(int64(used), 10)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &Group{tree: &Tree{Version: 1, bases: map[string]string{"cpuacct": base}}, folders: []string{folder}}
	now := time.Now()
	use(time.Hour) // by what was in the group before the program
	g.openAccounts("cpuacct", folder)
	defer g.cpuFile.Close()
	for i, step := range []struct{ used, wait time.Duration }{
		{0, firstLook}, {firstLook / 5, 2 * firstLook}, {firstLook / 5, 4 * firstLook}, {5 * firstLook, 0},
	} {
		use(time.Hour + step.used)
		next := g.DemoteIfBusy(now)
		if step.wait == 0 && !next.IsZero() || step.wait > 0 && next.Sub(now) != step.wait {
			t.Fatalf("look %d: the next after %v, want %v", i, next.Sub(now), step.wait)
		}
		now = next
	}
	now = time.Now()
	g.looked, g.used = now.Add(-time.Minute), g.CPUTime()
	if wait := g.DemoteIfBusy(now).Sub(now); wait != lastLook {
		t.Errorf("after a minute of waiting it is looked at after %v", wait)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A program that waited, or is interrupted, has the weight of a new one.
func TestRenewed(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "run")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string { return read(t, filepath.Join(folder, name)) }
	for _, name := range []string{"cpu.idle", "cpu.shares"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	yield, err := os.OpenFile(filepath.Join(folder, "cpu.idle"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer yield.Close()
	l := newDemotedGroups()
	defer l.close()
	for name, g := range map[string]*Group{
		"idle groups":    {yield: yield, idling: &idling{}},
		"no idle groups": {},
	} {
		g.tree = &Tree{Version: 1, bases: map[string]string{"cpu": base}, long: l}
		g.folders = []string{folder}
		yields := func() bool {
			return g.yield != nil && setting("cpu.idle") == "1" || g.yield == nil && setting("cpu.shares") == "51"
		}
		g.demote()
		g.looked = time.Now()
		if !yields() {
			t.Fatalf("%s: a long run does not yield: idle %q, shares %q", name, setting("cpu.idle"), setting("cpu.shares"))
		}
		if now := time.Now(); !g.Renew(now).Equal(now.Add(ShortRun)) || !g.looked.IsZero() {
			t.Errorf("%s: it was looked at %v", name, g.looked)
		}
		if yields() {
			t.Errorf("%s: it yields: idle %q, shares %q", name, setting("cpu.idle"), setting("cpu.shares"))
		}
	}
}

// While a killed program's processes exist, all of Airlock has priority over other
// processes of the machine.
func TestEndingGoesFirst(t *testing.T) {
	parent := filepath.Join(t.TempDir(), parentName)
	base := filepath.Join(parent, "instance")
	tree := &Tree{Version: 1, bases: map[string]string{"cpu": base}}
	make := func(name string) *Group {
		folder := filepath.Join(base, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		return &Group{tree: tree, folders: []string{folder}}
	}
	first, second, third := make("first"), make("second"), make("third")
	shares := filepath.Join(parent, "cpu.shares")
	if err := os.WriteFile(shares, []byte("200000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{first.BoostForExit, "102400"}, {first.BoostForExit, "102400"}, {second.BoostForExit, "102400"},
		{third.Remove, "102400"},
		{first.Remove, "102400"}, {second.Remove, "200000"},
	} {
		step.do()
		if got := strings.TrimSpace(read(t, shares)); got != step.want {
			t.Errorf("step %d: %s shares, not %s", i, got, step.want)
		}
	}
}
