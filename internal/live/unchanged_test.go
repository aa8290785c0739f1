package live

import (
	"slices"
	"testing"
)

// TestUnchanged has cells change files in many ways, and others in between that change
// none, of whose files the executor is not asked.
func TestUnchanged(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	for _, step := range []struct {
		code, changed, deleted string
	}{
		{code: "open('a', 'w').write('one')", changed: "a"},
		{code: "open('a', 'w').write('three')", changed: "a"},
		{code: "f = open('a', 'r+'); f.write('THREE'); f.flush()", changed: "a"},
		{code: "f.seek(0), f.write('three'), f.close()", changed: "a"},
		{code: "import os; os.makedirs('d/e')"},
		{code: "!echo text > d/e/b", changed: "d/e/b"},
		{code: "import mmap; f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 65; m.flush()", changed: "a"},
		{code: "os.rename('a', 'c')", changed: "c", deleted: "a"},
		{code: "os.scandir = os.stat = None; open('c', 'a').write('!')", changed: "c"},
		{code: "1/0 if open('g', 'w').close() is None else 0", changed: "g"},
		{code: "os.remove('d/e/b')", deleted: "d/e/b"},
	} {
		c := p.run(s, step.code)
		var changed []string
		for _, f := range c.Files {
			changed = append(changed, f.Path)
		}
		if got := slices.Concat(changed, []string{"|"}, c.Deleted); !slices.Equal(got, named(step.changed, "|", step.deleted)) {
			t.Errorf("%s: %v, wanted %q, and %q deleted", step.code, got, step.changed, step.deleted)
		}
		between := p.want(p.run(s, "sum(range(1_000_000))"), StatusOK)
		if len(between.Files)+len(between.Deleted) > 0 || between.Usage.CPU <= 0 || between.Usage.MemoryPeak <= 0 {
			t.Errorf("after %s a sum has %+v", step.code, between)
		}
	}
}

func named(words ...string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}
