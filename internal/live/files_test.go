package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// stored returns the paths of a session's stored files.
func (p *place) stored(session engine.ID) (paths []string) {
	p.t.Helper()
	_, places, err := p.engine.SessionFiles(p.t.Context(), p.caller, session)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, place := range places {
		paths = append(paths, place.Path)
	}
	return paths
}

// TestAnsweredIsStored looks for changes in the store at once when their callers have the answer.
func TestAnsweredIsStored(t *testing.T) {
	p := open(t, Config{})
	ctx := t.Context()
	session := p.session("python")
	p.want(p.run(session, "import time, os; open('old', 'w').write('x')"), StatusOK)
	steps := []struct {
		do      func() error
		path    string
		removed bool
	}{
		{path: "one/a.txt", do: func() error {
			_, err := p.WriteFile(ctx, p.caller, session, "one/a.txt", strings.NewReader("a"))
			return err
		}},
		{path: "/workspace/two.txt", do: func() error {
			_, err := p.WriteFile(ctx, p.caller, session, "/workspace/two.txt", strings.NewReader("b"))
			return err
		}},
		{path: "three.txt", do: func() error {
			p.output(session, p.process(session, ProcessRequest{Argv: []string{"/bin/sh", "-c", "echo c > three.txt"}}).ID, 0)
			return nil
		}},
		{path: "four", do: func() error {
			_, err := p.MoveFile(ctx, p.caller, session, "one/a.txt", "four", false)
			return err
		}},
		{path: "old", removed: true, do: func() error { return p.RemoveFile(ctx, p.caller, session, "old", false) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.path, err)
			continue
		}
		path := strings.TrimPrefix(step.path, "/workspace/")
		if got := p.stored(session); slices.Contains(got, path) == step.removed {
			t.Errorf("after the answer for %s, stored: %q", path, got)
		}
	}

	// Beside a cell, whose own changes are told with its end.
	made, err := p.Start(ctx, p.caller, session, CellRequest{Code: `open('mine', 'w').write('m')
os.remove('three.txt')
while not os.path.exists('go'): time.sleep(0.01)`})
	if err != nil {
		t.Fatal(err)
	}
	p.await(func() bool {
		_, err := p.StatFile(ctx, p.caller, session, "three.txt")
		return engine.KindOf(err) == engine.ErrNotFound
	})
	if _, err := p.WriteFile(ctx, p.caller, session, "beside", strings.NewReader("b")); err != nil {
		t.Fatal(err)
	}
	if got := p.stored(session); !slices.Contains(got, "beside") || slices.Contains(got, "mine") || !slices.Contains(got, "three.txt") {
		t.Errorf("beside a cell, stored: %q", got)
	}
	if _, err := p.WriteFile(ctx, p.caller, session, "go", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	c := p.want(p.end(session, made.ID), StatusOK)
	// The cell may end before what ended it is stored, and then stores it.
	c.Files = slices.DeleteFunc(c.Files, func(f engine.File) bool { return f.Path == "go" })
	if len(c.Files) != 1 || c.Files[0].Path != "mine" || !slices.Equal(c.Deleted, []string{"three.txt"}) {
		t.Errorf("the cell has changed %+v, removed %q", c.Files, c.Deleted)
	}
}

// TestGrowingFile has files stored beside one that a process goes on writing, and cuts.
func TestGrowingFile(t *testing.T) {
	p := open(t, Config{})
	ctx := t.Context()
	session := p.session("python")
	p.want(p.run(session, "1"), StatusOK)
	const writer = `import os
f = os.open("log", os.O_CREAT | os.O_RDWR)
while True:
    for _ in range(50): os.write(f, b"x" * 999)
    os.ftruncate(f, 0)
    os.lseek(f, 0, os.SEEK_SET) # else it begins with ever more zeros, which are stored with it`
	p.process(session, ProcessRequest{Argv: []string{"/usr/bin/python3", "-c", writer}})
	p.await(func() bool { _, err := p.StatFile(ctx, p.caller, session, "log"); return err == nil })
	for i := range 40 {
		name := fmt.Sprint("f", i)
		if _, err := p.WriteFile(ctx, p.caller, session, name, strings.NewReader("a")); err != nil {
			t.Fatal(err)
		}
		if got := p.stored(session); !slices.Contains(got, name) {
			t.Fatalf("%s is not among %q", name, got)
		}
		p.want(p.run(session, fmt.Sprintf("open('c%d', 'w').write('c')", i)), StatusOK)
	}
}
