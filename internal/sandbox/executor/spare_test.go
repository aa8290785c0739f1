package executor

import (
	"errors"
	"io"
	"os"
	"testing"
)

// Pooled pairs are bounded, used once, and closed with the sandbox.
func TestSpares(t *testing.T) {
	made := 0
	s := pairPool[*os.File]{create: func() (ends[*os.File], error) {
		made++
		return newOutputEnds()
	}, enough: sparePipes}
	s.refill()
	s.refill()
	if made != sparePipes || len(s.list) != sparePipes {
		t.Fatalf("%d were made, %d are spare", made, len(s.list))
	}
	seen := map[*os.File]bool{}
	for range sparePipes + 1 {
		p, err := s.get()
		if err != nil || seen[p.ours] {
			t.Fatalf("taken twice, or %v", err)
		}
		seen[p.ours] = true
		if _, err := p.theirs.WriteString("x"); err != nil {
			t.Error(err)
		}
		p.theirs.Close()
		if text, err := io.ReadAll(p.ours); err != nil || string(text) != "x" {
			t.Errorf("%q, %v", text, err)
		}
		p.ours.Close()
	}
	if made != sparePipes+1 {
		t.Errorf("%d were made", made)
	}
	s.refill()
	left := s.list[0]
	s.close((*os.File).Close)
	if err := left.ours.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a spare one stays open: %v", err)
	}
	if s.refill(); len(s.list) != 0 {
		t.Error("one is made after the end")
	}
}
