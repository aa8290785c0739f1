package sandboxtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// files tests the inputs and outputs of a workspace.
func files(t *testing.T, b *bench) {
	t.Run("in and out", func(t *testing.T) {
		spec := Python(`import os
print(open('data/in.csv').read(), open('same.txt').read())
open('data/in.csv', 'a').write('3\n')
os.remove('gone.txt')
os.chmod('touched.txt', 0o600)
os.makedirs('out/deep')
open('out/deep/é ☃.txt', 'w').write('new')
open('.hidden', 'w').write('h')
os.mkdir('empty')
`)
		spec.Inputs = []engine.Input{
			Input(t, "data/in.csv", "1\n2\n"), Input(t, "same.txt", "same"), Input(t, "gone.txt", "gone"),
			Input(t, "touched.txt", "t"),
		}
		r := b.run(t, spec)
		wantOutput(t, r, "1\n2\n same\n")
		delete(r.Files, "touched.txt") // may be reported: its bytes may have changed
		want := map[string]string{"data/in.csv": "1\n2\n3\n", "out/deep/é ☃.txt": "new", ".hidden": "h"}
		if diff := cmp.Diff(want, r.Files); diff != "" {
			t.Error(diff)
		}
		if fmt.Sprint(r.Deleted) != "[gone.txt]" {
			t.Errorf("deleted %v", r.Deleted)
		}
		for _, o := range r.Outputs {
			if o.Input != (o.Path == "data/in.csv" || o.Path == "touched.txt") {
				t.Errorf("%s: input %v", o.Path, o.Input)
			}
		}
	})
	t.Run("whatever their modes", func(t *testing.T) {
		r := b.run(t, Python(`import os
open('closed', 'w').write('c'); os.chmod('closed', 0)
os.mkdir('shut'); open('shut/f', 'w').write('f'); os.chmod('shut', 0)
`))
		wantOK(t, r)
		if diff := cmp.Diff(map[string]string{"closed": "c", "shut/f": "f"}, r.Files); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("links and devices are not followed", func(t *testing.T) {
		spec := Python(`import os
os.symlink('/etc/passwd', 'link'); os.symlink('/usr', 'folder'); os.mkfifo('fifo')
open('one', 'w').write('x'); os.link('one', 'two')
open('sparse', 'wb').truncate(1 << 20)
import socket; s = socket.socket(socket.AF_UNIX); s.bind('sock')
`)
		r := b.run(t, spec)
		wantOK(t, r)
		want := map[string]string{"one": "x", "two": "x", "sparse": strings.Repeat("\x00", 1<<20)}
		if diff := cmp.Diff(want, r.Files); diff != "" {
			t.Error(diff)
		}
		paths := []string{"link", "folder", "fifo", "sock"}
		if b.backend.Kernel { // the other two are that kernel's, and never reach the workspace
			paths = paths[:2]
		}
		for _, path := range paths {
			if droppedReason(r, path) == "" {
				t.Errorf("%s was dropped without a word", path)
			}
		}
	})
	t.Run("the code is no output", func(t *testing.T) {
		r := b.run(t, Python("open(__file__, 'a').write('# more')"))
		wantOK(t, r)
		if len(r.Files) != 0 {
			t.Errorf("outputs %v", r.Files)
		}
	})
	t.Run("a name that is not UTF-8 is spelled", func(t *testing.T) {
		spec := Python(`import os
os.mkdir(b'\xe9')
for name in b'caf\xe9.txt', b'\xe9/\xc3\xa9\xff', b'good', b'both\xff', b'both%FF', b'in\xff': open(name, 'wb').write(name)`)
		spec.Inputs = []engine.Input{Input(t, "in%FF", "x")}
		r := b.run(t, spec)
		want := map[string]string{"caf%E9.txt": "caf\xe9.txt", "%E9/é%FF": "\xe9/é\xff", "good": "good", "both%FF": "both%FF"}
		if diff := cmp.Diff(want, r.Files); diff != "" || len(r.Dropped) != 2 {
			t.Errorf("dropped %v\n%s", r.Dropped, diff)
		}
	})
	t.Run("a source of 16 MiB", func(t *testing.T) {
		spec := Python("")
		const front, back = `text = """`, `"""` + "\nprint(len(text), len(open(__file__).read()))\n"
		spec.Code = front + strings.Repeat("0123456789abcde\n", (16<<20-len(front)-len(back))/16) + back
		r := b.run(t, spec)
		wantOK(t, r)
		if want := fmt.Sprintln(len(spec.Code)-len(front)-len(back), len(spec.Code)); r.Stdout != want {
			t.Errorf("printed %.200q, want %q", r.Stdout, want)
		}
	})
	t.Run("names keep their characters", func(t *testing.T) {
		var spec engine.Spec
		want := map[string]string{}
		for _, name := range oddNames {
			spec.Inputs = append(spec.Inputs, Input(t, "in/"+name, "x"))
			want["out/"+name] = "x"
		}
		code := Python(`import os
os.mkdir('out')
for name in os.listdir('in'): open('out/' + name, 'w').write(open('in/' + name).read())`)
		code.Inputs = spec.Inputs
		r := b.run(t, code)
		wantOK(t, r)
		if diff := cmp.Diff(want, r.Files); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("long names and deep folders", func(t *testing.T) {
		spec := Python(`import os
for i in range(400): open(chr(1) * 200 + f'{i:03}', 'w').close()
for i in range(300): os.mkdir('d'); os.chdir('d')
open('bottom', 'w').close()`)
		spec.Limits.Files.Count = 1000
		spec.Inputs = make([]engine.Input, 0, 300)
		for i := range 300 {
			spec.Inputs = append(spec.Inputs, Input(t, fmt.Sprintf("%s%03d", strings.Repeat("n", 250), i), "x"))
		}
		spec.Code = "import os\nfor f in os.listdir('.'):\n    if f[0] == 'n': os.remove(f)\n" + spec.Code
		r := b.run(t, spec)
		wantOK(t, r)
		if len(r.Files) != 400 || len(r.Deleted) != 300 || len(r.Dropped) != 1 {
			t.Errorf("%d files, %d deleted, dropped %v", len(r.Files), len(r.Deleted), r.Dropped)
		}
	})
	t.Run("caps", func(t *testing.T) {
		spec := Python("for i in range(9): open(f'{i}', 'w').write('x' * 100)\nopen('big', 'w').write('x' * 2000)\n" +
			"open('a', 'w').write('x' * 900)\n")
		spec.Limits.Files = engine.FileLimit{Count: 5, Bytes: 1000, Total: 1200}
		r := b.run(t, spec)
		if len(r.Files) > 5 || droppedReason(r, "big") == "" || len(r.Files)+len(r.Dropped) != 11 {
			t.Errorf("kept %d, dropped %v", len(r.Files), r.Dropped)
		}
	})
	t.Run("kept after a timeout", func(t *testing.T) {
		spec := Python("open('early', 'w').write('e')\nprint('said')\nimport time; time.sleep(30)")
		spec.Limits.Timeout = Slowed(500 * time.Millisecond)
		r := b.run(t, spec)
		if !r.TimedOut || r.Stdout != "said\n" || r.Files["early"] != "e" {
			t.Errorf("timed out %v, stdout %q, files %v", r.TimedOut, r.Stdout, r.Files)
		}
	})
	t.Run("read-only inputs", func(t *testing.T) {
		if !b.backend.Root {
			Skip(t, "needs root: without users of its own a sandbox owns its inputs")
		}
		spec := Python(`import os
for what in (lambda: open('d/ro','a'), lambda: os.remove('d/ro'), lambda: os.rename('d/ro','d/x'), lambda: os.rename('d','e'),
             lambda: os.chmod('d/ro', 0o666), lambda: os.replace('mine','d/ro')):
    open('mine','w').close()
    try: what(); print('did it')
    except PermissionError: pass
open('d/new','w').write('n'); print(open('d/ro').read())
`)
		spec.Inputs = []engine.Input{Input(t, "d/ro", "fixed")}
		spec.Inputs[0].ReadOnly = true
		r := b.run(t, spec)
		wantOutput(t, r, "fixed\n")
		if _, ok := r.Files["d/ro"]; ok || r.Files["d/new"] != "n" {
			t.Errorf("outputs %v", r.Files)
		}
	})
	t.Run("many inputs", func(t *testing.T) {
		spec := Python("import os; print(sum(len(f) for _, _, f in os.walk('.')))")
		for i := range 200 {
			spec.Inputs = append(spec.Inputs, Input(t, fmt.Sprintf("d%d/%d.txt", i%7, i), fmt.Sprint(i)))
		}
		wantOutput(t, b.run(t, spec), "201\n")
	})
	t.Run("inputs that do not fit", func(t *testing.T) {
		spec := Python("print(1)")
		spec.Limits.Workspace = 1 << 20
		spec.Inputs = []engine.Input{Input(t, "big", strings.Repeat("x", 2<<20))}
		if _, err := b.sandbox.Run(t.Context(), spec, &recorder{}); engine.KindOf(err) != engine.ErrTooLarge {
			t.Errorf("error %v, want too large", err)
		}
		wantOutput(t, b.run(t, Python("print(2)")), "2\n")
	})
}

// held tests workspaces that persist between runs.
func held(t *testing.T, b *bench) {
	id := engine.NewID()
	if err := b.sandbox.Hold(t.Context(), id, 0, "", []engine.Input{Input(t, "in", "first")}, Limits()); err != nil {
		t.Fatal(err)
	}
	in := func(code string) Result {
		spec := Spec("bash", code)
		spec.Held, spec.Inline = id, true
		return b.run(t, spec)
	}
	r := in("cat in; echo more >> in; echo x > new; export V=1; cd /tmp; touch left")
	wantOutput(t, r, "first")
	if diff := cmp.Diff(map[string]string{"in": "firstmore\n", "new": "x\n"}, r.Files); diff != "" {
		t.Error(diff)
	}
	r = in(`cat new; ls /tmp/left 2>/dev/null; echo "[$V]"; rm in`)
	wantOutput(t, r, "x\n[]\n")
	if len(r.Files) != 0 || fmt.Sprint(r.Deleted) != "[in]" {
		t.Errorf("outputs %v, deleted %v", r.Files, r.Deleted)
	}
	most := Limits()
	most.Workspace = 1 << 40
	if err := b.sandbox.Hold(t.Context(), engine.NewID(), 0, "", nil, most); engine.KindOf(err) != engine.ErrFull {
		t.Errorf("hold more than this machine has: %v, want full", err)
	}
	other := engine.NewID()
	if err := b.sandbox.Hold(t.Context(), other, 0, "", nil, Limits()); err != nil {
		t.Fatal(err)
	}
	spec := Spec("bash", "ls")
	spec.Held, spec.Inline = other, true
	wantOutput(t, b.run(t, spec), "")
	heldTogether(t, b, other)
	for _, gone := range []engine.ID{id, other, id} {
		if err := b.sandbox.Release(t.Context(), gone, 0); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	spec.Held = id
	if _, err := b.sandbox.Run(t.Context(), spec, &recorder{}); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("run in a released workspace: %v, want not found", err)
	}
}

// oddNames are valid but unexpected file names.
var oddNames = []string{
	"می\u200cخواهم.csv", "👨\u200d👩\u200d👧.png", "\u200eIMG-1.jpg", "a\u200bb", "so\u00adft", "\ufeffa", "a\u2028b\u2029",
	"\u0085\u009b",
	"a\u202egnp.exe", "a\n\x1b\x7f", "e\u0301.txt", "\u00e9.txt", `a\b`, `..\b`, " ", "a ", ".. .",
}

// heldTogether runs two commands at once in a held workspace. Each waits for the other.
func heldTogether(t *testing.T, b *bench, id engine.ID) {
	var both sync.WaitGroup
	for _, pair := range [][2]string{{"one", "two"}, {"two", "one"}} {
		both.Go(func() {
			spec := Spec("bash", "echo "+pair[0]+" > "+pair[0]+"; until [ -s "+pair[1]+" ]; do sleep 0.01; done; cat "+pair[1])
			spec.Held, spec.Inline, spec.Limits.Timeout = id, true, 30*time.Second
			host := &recorder{}
			if o, err := b.sandbox.Run(t.Context(), spec, host); err != nil || o.TimedOut ||
				host.stdout.String() != pair[1]+"\n" {
				t.Errorf("%s beside %s: %+v, %v", pair[0], pair[1], o, err)
			}
		})
	}
	both.Wait()
}

// manyHeld holds more empty workspaces than would fit if each reserved its size.
func manyHeld(t *testing.T, b *bench) {
	var all []engine.ID
	limits := Limits()
	limits.Workspace = 512 << 20
	for range 200 {
		id := engine.NewID()
		if err := b.sandbox.Hold(t.Context(), id, 0, "", nil, limits); err != nil {
			t.Fatalf("after %d: %v", len(all), err)
		}
		all = append(all, id)
	}
	spec := Spec("bash", "head -c 100000000 /dev/zero > big")
	spec.Held, spec.Inline, spec.Limits = all[0], true, limits
	b.run(t, spec)
	held, err := b.sandbox.Held(t.Context())
	for deadline := time.Now().Add(10 * time.Second); err == nil && held[all[0]] == limits.Workspace &&
		time.Now().Before(deadline); {
		held, err = b.sandbox.Held(t.Context()) // the run's answer arrives shortly before its end
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != len(all) || held[all[0]] < 100_000_000 || held[all[0]] > 200_000_000 || held[all[1]] < 1 ||
		held[all[1]] > 16<<20 {
		t.Errorf("%d are held; one with 100 MB reserves %d bytes, an empty one %d", len(held), held[all[0]], held[all[1]])
	}
	for _, id := range all {
		if err := b.sandbox.Release(t.Context(), id, 0); err != nil {
			t.Error(err)
		}
	}
	if held, err := b.sandbox.Held(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("afterwards: %v, %v", held, err)
	}
}
