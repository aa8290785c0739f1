//go:build ablation

package guest

import (
	"bytes"
	"io/fs"
	"testing/fstest"

	"github.com/airlock-run/airlock/internal/trick"
)

// ablations says which functions end at once without a trick, and with what.
var ablations = []struct{ trick, file, function, end string }{
	{trick.IPython, "live.py", "is_python(self, code)", "return False"},
	{trick.IPython, "live.py", "form(self, value)", "return None"},
	{trick.IPython, "live.py", "statement(cell, name, flags)", "return None"},
	{trick.IPython, "live.py", "unobserve(thing, *names)", "return"},
	{trick.Marks, "live.py", "changed(self)", "return True"},
	{trick.Rehearsal, "live.py", "rehearse(self)", "return"},
	{trick.Specialize, "warmup.py", "specialize(run)", "return run()"},
	{trick.Compact, "warmup.py", "compact_heap(libc)", "return gc.collect()"},
}

// ablated returns the files without the tricks that are not used.
func ablated(files fs.FS) fs.FS {
	left := fstest.MapFS{}
	names, _ := fs.Glob(files, "*")
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		for _, a := range ablations {
			if a.file != name || trick.On(a.trick) {
				continue
			}
			before, after, found := bytes.Cut(text, []byte("def "+a.function+":\n"))
			if !found {
				panic(name + " has no function " + a.function)
			}
			indent := before[bytes.LastIndexByte(before, '\n')+1:]
			text = bytes.Join([][]byte{before, []byte("def " + a.function + ":\n" + string(indent) + "    " + a.end + "\n"), after}, nil)
		}
		left[name] = &fstest.MapFile{Data: text, Mode: 0o444}
	}
	return left
}
