package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// Of long output the first and the last part are kept, with a line that says how much is between them and which
// file has all of it.
func TestWholeProcessOutput(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	var all strings.Builder
	for n := range 500_000 {
		fmt.Fprintf(&all, "%06d\n", n)
	}
	for _, row := range []struct {
		name, shell, file string
		terminal          *engine.TerminalSize
		stream            ProcessEventType
	}{
		{"stdout", "seq -w 0 499999; echo small >&2", "stdout.txt", nil, ProcessStdout},
		{"stderr", "echo small; seq -w 0 499999 >&2", "stderr.txt", nil, ProcessStderr},
		{"a terminal", "stty -onlcr; seq -w 0 499999", "stdout_2.txt", &engine.TerminalSize{Columns: 80, Rows: 24},
			ProcessTerminal},
	} {
		t.Run(row.name, func(t *testing.T) {
			made := p.process(session, ProcessRequest{Shell: row.shell, Terminal: row.terminal, Whole: true})
			events, err := p.WatchProcess(t.Context(), p.caller, session, made.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			var end *Process
			for e := range events {
				end = e.Process
			}
			if end == nil || !end.Truncated || len(end.Whole) != 1 || end.Whole[0].Path != row.file ||
				!end.Whole[0].Whole {
				t.Fatalf("%+v", end)
			}
			if got := p.read(session, row.file); got != all.String() {
				t.Errorf("%s has %d bytes, want %d", row.file, len(got), all.Len())
			}
			out, dropped, _ := p.output(session, made.ID, 0)
			head, tail, _ := strings.Cut(all.String(), out[row.stream][keptHead-2*largestChunk:keptHead-largestChunk])
			if dropped == 0 || tail == "" || !strings.HasPrefix(out[row.stream], head) ||
				!strings.HasSuffix(out[row.stream], "499999\n") {
				t.Errorf("%d bytes are dropped of %d", dropped, all.Len())
			}
			events, err = p.WatchProcess(t.Context(), p.caller, session, made.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("\n[... %d bytes of output left out; all of it is in %s ...]\n", dropped, row.file)
			for e := range events {
				if e.Type == ProcessDropped && e.LeftOut() != want {
					t.Errorf("%q, want %q", e.LeftOut(), want)
				}
			}
		})
	}
}

// A file of output takes a quarter of a workspace at most, and the line says that it has the first part.
func TestWholeProcessOutputLimit(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Language: "python", Limits: engine.Limits{Workspace: 8 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	one := p.process(made.ID, ProcessRequest{Shell: "yes | head -c 5000000", Whole: true})
	_, dropped, end := p.output(made.ID, one.ID, 0)
	want := fmt.Sprintf("\n[... %d bytes of output left out; its first 2097152 bytes are in stdout.txt ...]\n", dropped)
	gap := ProcessEvent{Type: ProcessDropped, Dropped: dropped, Files: end.Whole}
	if got := gap.LeftOut(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := p.read(made.ID, "stdout.txt"); len(got) != 2<<20 {
		t.Errorf("the file has %d bytes", len(got))
	}
}

// A process is known by the number that programs of its session have for it.
func TestProcessNumber(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	made := p.process(session, ProcessRequest{Argv: []string{"bash", "-c", "echo $$"}})
	if out, _, _ := p.output(session, made.ID, 0); made.PID == 0 || out[ProcessStdout] != fmt.Sprintln(made.PID) {
		t.Errorf("it is %d and says %q", made.PID, out[ProcessStdout])
	}
}
