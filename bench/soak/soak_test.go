package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSoak is the short form of the soak, for every push.
func TestSoak(t *testing.T) {
	dir, err := os.MkdirTemp("", "airlock-soak-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := options{binary: filepath.Join(dir, "airlock"), duration: 15 * time.Second, say: t.Output()}
	make := exec.CommandContext(t.Context(), "go", "build", "-o", o.binary, "github.com/airlock-run/airlock/cmd/airlock")
	if made := os.Getenv("AIRLOCK_TEST_BINARY"); made != "" {
		make = exec.CommandContext(t.Context(), "cp", made, o.binary)
	}
	out, err := make.CombinedOutput()
	if err != nil || os.Chmod(dir, 0o755) != nil { // another user executes it
		t.Fatalf("%v: %s", err, out)
	}
	if data := os.Getenv("AIRLOCK_TEST_DATA"); data != "" {
		o.runtimes = filepath.Join(data, "runtimes")
	}
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// A verdict can go against the service, of each gauge.
func TestVerdict(t *testing.T) {
	rise := func(gauge int, of func(i int) int) error {
		var all []sample
		for i := range 90 {
			all = append(all, sample{at: time.Duration(i) * 5 * time.Second})
			all[i].of[gauge] = of(i)
		}
		return judge(all)
	}
	base := rest{kinds: map[string]bool{"init": true}}
	base.of[liveHeap] = 1
	folders, files := sizes()
	grown := base
	grown.of[sandboxes], grown.of[processes], grown.of[groups], grown.of[executorFiles] = 2, 2*waitingProcesses, 2*folders,
		2*(waitingFiles+files)
	strange, dirty, unseen := base, base, base
	strange.kinds, dirty.parts, unseen.of[liveHeap] = map[string]bool{"sleep 100": true}, []string{"half an upload"}, 0
	if left := leftovers(base, grown); len(left) > 0 {
		t.Errorf("two sandboxes more that wait: %v", left)
	}
	for _, after := range []rest{strange, dirty, unseen} {
		if len(leftovers(base, after)) == 0 {
			t.Errorf("nothing is said of %+v", after)
		}
	}
	for gauge, r := range rules {
		for _, after := range []rest{base, grown} {
			after.of[gauge] += max(r.floor-after.of[gauge], 0) + r.slack
			within := len(leftovers(base, after))
			after.of[gauge]++
			if said := len(leftovers(base, after)); r.rests && (within > 0 || said == 0) {
				t.Errorf("%s at rest: %d of what is allowed, %d of one more", r.name, within, said)
			}
		}
		if r.most > 0 && (rise(gauge, func(i int) int { return i / 80 * r.most }) != nil ||
			rise(gauge, func(i int) int { return i / 80 * (r.most + 1) }) == nil) {
			t.Errorf("%s at most", r.name)
		}
		for name, of := range map[string]func(i int) int{
			"a wave": func(i int) int { return i % 17 * r.climb }, "warm-up": func(i int) int { return min(i, 25) * r.climb },
			"a burst at the end": func(i int) int { return max(i-70, 0) * r.climb },
		} {
			if err := rise(gauge, of); r.climb > 0 && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if rise(gauge, func(i int) int { return (i%17*20 + i) * r.climb / 20 }) == nil && r.climb > 0 {
			t.Errorf("%s: nothing is said of a leak", r.name)
		}
	}
	l := &load{faults: map[string]int{}, done: map[string]int{}}
	l.ended.Store(1)
	l.perform(act{do: func(context.Context, *load, tenant) error { return os.ErrInvalid }}, tenant{})
	if l.verdict() == nil || judge(nil) == nil {
		t.Error("nothing is said of a wrong answer, or of no samples")
	}
}
