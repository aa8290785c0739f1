package typescript

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func compile(t *testing.T, files map[string]string) (result, said string, code int) {
	t.Helper()
	folder, build := t.TempDir(), t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	code = Main([]string{filepath.Join(folder, "main.ts"), filepath.Join(build, "main.mjs")}, &stderr)
	text, err := os.ReadFile(filepath.Join(build, "main.mjs"))
	if err != nil && code == 0 {
		t.Fatal(err)
	}
	if link, err := os.Readlink(filepath.Join(build, EntryLink)); err != nil || link != filepath.Join(folder, "main.ts") {
		t.Errorf("the entry is %q, %v", link, err)
	}
	return string(text), stderr.String(), code
}

func TestMainCompiles(t *testing.T) {
	result, said, code := compile(t, map[string]string{
		"main.ts": "import { two, type N } from './two'\nimport fs from 'fs'\nconst x: N = await two()\n" +
			"console.log(x, fs, import.meta.filename)",
		"two.ts": "export type N = number\nexport const two = async (): Promise<N> => 2\n",
	})
	if code != 0 || said != "" {
		t.Fatalf("exit code %d, said %q", code, said)
	}
	for _, want := range []string{"await two()", `from "fs"`, "/main.ts\")", "sourceMappingURL=data:"} {
		if !strings.Contains(result, want) {
			t.Errorf("it lacks %s:\n%s", want, result)
		}
	}
	if strings.Contains(result, ": N") {
		t.Errorf("types are left:\n%s", result)
	}
}

func TestMainComplains(t *testing.T) {
	for name, test := range map[string]struct{ code, want string }{
		"syntax":  {"let a = 1\nlet b: = 2", "main.ts:2:7:"},
		"import":  {"import { x } from './gone'\nconsole.log(x)", "main.ts:1:18:"},
		"package": {"import 'no-such-package'", "main.ts:1:7:"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, said, code := compile(t, map[string]string{"main.ts": test.code}); code != 1 ||
				!strings.Contains(said, test.want) {
				t.Errorf("exit code %d, said %q", code, said)
			}
		})
	}
	if code := Main(nil, &bytes.Buffer{}); code != 2 {
		t.Errorf("without arguments: exit code %d", code)
	}
}
