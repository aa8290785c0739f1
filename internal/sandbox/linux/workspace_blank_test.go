package linux

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The free inodes decide whether the folder of a warm program is listed at its end. Its
// outputs must equal a cold program's, whatever the program does to its few files.
func TestNothingLeftIsMissed(t *testing.T) {
	programs := map[string][]string{
		"print(1)":                                                                                     nil,
		"open('a.txt', 'w').close()":                                                                   {"a.txt"},
		"import os\nos.rename('main.py', 'b.py')":                                                      {"b.py"},
		"import os\nos.link('main.py', 'c.py')":                                                        {"c.py"},
		"import os\nos.remove('main.py')":                                                              nil,
		"import os\nos.remove('main.py'); open('d', 'w')":                                              {"d"},
		"import os\nos.remove('main.py'); os.mkdir('e')":                                               nil,
		"open('main.py', 'a').write('# more')":                                                         nil,
		"import os\nos.symlink('main.py', 'f')":                                                        nil,
		"import os\nopen('g', 'w'); os.remove('g')":                                                    nil,
		"import os\nopen('h', 'w'); os.rename('h', 'main.py')":                                         nil,
		"import os\nos.rename('main.py', 'i'); open('main.py', 'w')":                                   {"i"},
		"import os\nos.link('main.py', 'j'); os.remove('main.py')":                                     {"j"},
		"import os\nfd = os.open('.', os.O_TMPFILE | os.O_RDWR)\nopen('k', 'w')\nos.remove('main.py')": {"k"},
		"import os, time\nif os.fork() == 0:\n  open('l', 'w').write('x')\n  os._exit(0)\nos.wait()":   {"l"},
	}
	cold, warm := start(t), startWarm(t)
	for code, want := range programs {
		for path, s := range map[string]*executor.Sandbox{"cold": cold, "warm": warm} {
			r := sandboxtest.Run(t, s, sandboxtest.Python(code))
			got := slices.Sorted(maps.Keys(r.Files))
			if diff := cmp.Diff(want, got); diff != "" || r.Code() != 0 {
				t.Errorf("%s, %q: exit code %d, stderr %q, files (-want +got)\n%s", path, code, r.Code(), r.Stderr, diff)
			}
		}
	}
}
