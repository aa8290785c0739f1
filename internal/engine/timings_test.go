package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLaps(t *testing.T) {
	var l timings
	l.start()
	l.last = l.last.Add(-time.Hour)
	l.end("sandbox")
	whole := l.all[0].Took
	l.split("program", 40*time.Minute)
	if whole < time.Hour || l.all[0].Took != whole-40*time.Minute {
		t.Errorf("an hour became %v", l.all)
	}
	l.split("more than there is", 2*time.Hour)
	var names []string
	for _, part := range l.all {
		names = append(names, part.Name)
	}
	if diff := cmp.Diff([]string{"sandbox", "program", "more than there is"}, names); diff != "" {
		t.Error(diff)
	}
	if l.all[2].Took != 40*time.Minute || l.all[1].Took != 0 {
		t.Errorf("a part took longer than the whole: %v", l.all)
	}
}
