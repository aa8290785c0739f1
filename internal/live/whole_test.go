package live

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// read returns the content of a file of a session.
func (p *place) read(session engine.ID, path string) (content string) {
	p.t.Helper()
	_, f, err := p.OpenFile(p.t.Context(), p.caller, session, path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	var b strings.Builder
	if _, err := f.WriteTo(&b); err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

// What a cell prints beyond the limit of its text is whole in a file of the workspace, of the cell and of no
// other name than it has in the text.
func TestWholeOutput(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	for _, row := range []struct {
		name, code, stream, file string
		want                     string
	}{
		{"short", "print('short')", "stdout", "", ""},
		{"stdout", "for n in range(15_000): print('0123456789' * 10)", "stdout", "stdout.txt",
			strings.Repeat(strings.Repeat("0123456789", 10)+"\n", 15_000)},
		{"a file of that name", "print('x' * 3_000_000)", "stdout", "stdout_2.txt",
			strings.Repeat("x", 3_000_000) + "\n"},
		{"a program", "import os; os.system('yes 2>&- | head -c 5000000 >&2')", "stderr", "stderr.txt",
			strings.Repeat("y\n", 2_500_000)},
		{"lost", "import os; os.system('yes 2>&- | head -c 5000000 >&2'); os._exit(3)", "stderr", "stderr_2.txt",
			strings.Repeat("y\n", 2_500_000)},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := p.run(session, row.code)
			out := text(c, OutputType(row.stream))
			if row.file == "" {
				checkCell(t, c, facts{Status: StatusOK, Stdout: "short\n"})
				return
			}
			if !c.Truncated || !strings.Contains(out, " bytes of output left out; all of it is in "+row.file+" ...]\n") ||
				len(out) > 1<<20 {
				t.Errorf("truncated %v: %d bytes, %d files", c.Truncated, len(out), len(c.Files))
			}
			found := false
			for _, f := range c.Files {
				found = found || f.Path == row.file && f.Size == int64(len(row.want))
			}
			if !found {
				t.Errorf("the cell has %d files, not %s", len(c.Files), row.file)
			}
			if got := p.read(session, row.file); got != row.want {
				t.Errorf("%s has %d bytes, want %d", row.file, len(got), len(row.want))
			}
		})
	}
}

// Output takes a quarter of a workspace at most. Where even that is full, the cell says so and is as it is otherwise.
func TestWholeOutputFullWorkspace(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Language: "python",
		Limits: engine.Limits{Workspace: 8 << 20, Files: engine.FileLimit{Bytes: 32 << 20, Total: 32 << 20}}})
	if err != nil {
		t.Fatal(err)
	}
	c := p.run(made.ID, "print('x' * 5_000_000)")
	if out := text(c, Stdout); !strings.Contains(out, " left out; its first 2097152 bytes are in stdout.txt ...]\n") {
		t.Errorf("%d bytes do not say that the first are there", len(out))
	}
	c = p.run(made.ID, "try: open('big', 'wb').write(bytes(1 << 30))\nexcept OSError: pass\nprint('z' * 5_000_000)")
	out := text(c, Stdout)
	if c.Status != StatusOK || !c.Truncated || !strings.Contains(out, " bytes of output left out ...]\n") {
		t.Errorf("%s, truncated %v, %d bytes", c.Status, c.Truncated, len(out))
	}
	want := []engine.DroppedFile{{Path: "stdout.txt", Reason: engine.DropWorkspace}}
	if diff := cmp.Diff(want, c.Dropped); diff != "" {
		t.Error(diff)
	}
	if c = p.run(made.ID, "import os; os.remove('big'); print(1)"); c.Status != StatusOK || text(c, Stdout) != "1\n" {
		t.Errorf("the next cell: %s, %q", c.Status, text(c, Stdout))
	}
}
