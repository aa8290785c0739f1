package linux

import (
	"slices"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Empty folders leave a marker file if the run asks for it.
func TestEmptyFolders(t *testing.T) {
	const code = `
import os
for path in ["empty", "a/b/c", "full/x", ".hidden/x", "p/__pycache__", "n\udcff"]: os.makedirs(path)
open("full/y", "w").close()
os.symlink("empty", "link")
`
	for name, s := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarm(t)} {
		for wanted, want := range map[bool][]string{
			true:  {"a/b/c/.dirkeep", "empty/.dirkeep", "full/x/.dirkeep", "full/y"},
			false: {"full/y"},
		} {
			spec := sandboxtest.Python(code)
			spec.Folders = wanted
			o, err := s.Run(t.Context(), spec, silent{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, out := range o.Outputs {
				if out.Size != 0 || out.Input {
					t.Errorf("%+v", out)
				}
				got = append(got, out.Path)
				out.File.Close()
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		spec := sandboxtest.Python("import os\nfor i in range(9): os.mkdir('d%d' % i)")
		spec.Folders, spec.Limits.Files.Count = true, 4
		o, err := s.Run(t.Context(), spec, silent{})
		if err != nil || len(o.Outputs) != 4 {
			t.Fatalf("%d marks of at most 4, %v", len(o.Outputs), err)
		}
		for _, out := range o.Outputs {
			out.File.Close()
		}
	}
}
