package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// textModule is what of matplotlib's text.py scripts.py uses.
const textModule = `import functools

class FontProperties: pass

class Text:
    def set_text(self, s): pass
`

// withMatplotlib returns an installer of a set with a matplotlib of three modules.
func withMatplotlib(t *testing.T) (in *installer, text, work string) {
	t.Helper()
	in, _ = bench(t, lockOf(""), "")
	text, work = in.drawsText("set"), t.TempDir()
	if err := os.MkdirAll(filepath.Dir(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"__init__.py": "", "text.py": textModule,
		"font_manager.py": "class FontManager: pass\nimport os\n" +
			"with open(os.environ['MPLCONFIGDIR'] + '/fontlist.json', 'w') as file: file.write('new')\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(text), name), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return in, text, work
}

// What setup adds to matplotlib is added once, also to a set that an earlier version of
// Airlock installed, and the list of fonts is made again when fonts come or go.
func TestFonts(t *testing.T) {
	in, text, work := withMatplotlib(t)
	const older = "\n\n\n# What follows is Airlock's: " +
		"behind the fonts that a text asks for come the system's fonts\nolder()\n"
	for name, begin := range map[string]string{"new": textModule, "older": textModule + older} {
		if err := os.WriteFile(text, []byte(begin), 0o644); err != nil {
			t.Fatal(err)
		}
		if in.fontsFit("set") {
			t.Errorf("%s: nothing to do", name)
		}
		for range 2 {
			if err := in.fonts(t.Context(), "set", work); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(text)
		if want := textModule + "\n\n" + string(addScripts); err != nil || string(got) != want {
			t.Errorf("%s: %v, text.py is\n%s\nwant\n%s", name, err, got, want)
		}
		if !in.fontsFit("set") {
			t.Errorf("%s: there is still something to do", name)
		}
	}
	if list, err := os.ReadFile(in.path("matplotlib", "fontlist.json")); string(list) != "new" {
		t.Errorf("the list of fonts: %q, %v", list, err)
	}
	before := time.Unix(1, 0)
	if err := os.Chtimes(in.fontsMark(), before, before); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fontsFolder); err == nil && in.fontsFit("set") {
		t.Error("fonts that are newer than their list do not matter")
	}
}

// A matplotlib whose text has one font only is left as it is.
func TestFontsOfOldMatplotlib(t *testing.T) {
	in, _, work := withMatplotlib(t)
	if err := in.fonts(t.Context(), "set", work); err != nil {
		t.Fatal(err)
	}
	out, err := pythonCommand(t.Context(), []string{"MPLCONFIGDIR=" + work}, in.python, "-c",
		"import sys; sys.path.insert(0, sys.argv[1]); import matplotlib.text as t; print(t.Text.set_text.__qualname__)",
		in.path("sets", "set")).CombinedOutput()
	if strings.TrimSpace(string(out)) != "Text.set_text" {
		t.Errorf("%s, %v", out, err)
	}
}
