package providertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
)

func suiteRetry(t *testing.T, r *rig) {
	if r.remoteFiles() {
		r.Server.Inject(Fault{On: OpUpload, Kind: FaultStatus, Status: 503})
	}
	in := r.upload("data.csv", "a,b\n")
	r.Server.Inject(Fault{On: OpRun, Kind: FaultStatus, Status: 429, RetryAfter: 7 * time.Second},
		Fault{On: OpRun, Kind: FaultHTML})
	r.Server.Script(r.makes("ok", Made{Name: "o.csv", Data: []byte("o")}))
	_, found := r.mustAsk("go", in)
	r.content(found, "o.csv")
	if waits := r.Clock.Waits(); !slices.Contains(waits, 7*time.Second) {
		t.Errorf("waited %v; the provider asked for 7 s", waits)
	}
	if left := r.Server.Pending(); len(left) > 0 {
		t.Errorf("faults that did not happen: %v", left)
	}
	r.clean()
}

// remoteFiles reports whether an upload goes over the wire.
func (r *rig) remoteFiles() bool { return r.Provider.Name() != provider.Local }

func suiteRetryInVain(t *testing.T, r *rig) {
	for range 9 {
		r.Server.Inject(Fault{On: OpRun, Kind: FaultStatus, Status: 503})
	}
	before := r.Server.Count(OpRun)
	_, _, err := r.ask("go", nil)
	if provider.KindOf(err) != provider.Transient || provider.HintOf(err) == "" {
		t.Errorf("got %v, want an error of kind transient with a hint", err)
	}
	if n := r.Server.Count(OpRun) - before; n != 3 {
		t.Errorf("tried %d times, want 3: no retry within a retry, and none missing", n)
	}
	r.Server.Heal()
	r.Server.Inject(Fault{On: OpRun, Kind: FaultStatus, Status: 429, RetryAfter: time.Hour})
	waited := len(r.Clock.Waits())
	if _, _, err = r.ask("go", nil); provider.KindOf(err) != provider.RateLimited || len(r.Clock.Waits()) != waited {
		t.Errorf("got %v after %d waits; nobody waits an hour", err, len(r.Clock.Waits())-waited)
	}
	r.clean()
}

func suiteDamaged(t *testing.T, r *rig) {
	if r.caps().Outputs == provider.OutputStdout || !r.remoteFiles() {
		t.Skip("files come within the reply")
	}
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, kind := range []FaultKind{FaultCut, FaultTruncate, FaultStall, FaultErrorAs200, FaultWrongLength, FaultHTML} {
		r.Server.Inject(Fault{On: OpDownload, Kind: kind})
		name := "big-" + string(kind[:3]) + ".bin"
		r.Server.Script(r.makes("ok", Made{Name: name, Data: data}))
		_, found := r.mustAsk("go")
		if got := r.content(found, name); got != string(data) {
			t.Errorf("%s: %d bytes came, or other ones", kind, len(got))
		}
		if left := r.Server.Pending(); len(left) > 0 {
			t.Errorf("faults that did not happen: %v", left)
		}
	}
	r.clean()
}

// suiteRepeats sends each event of a turn twice. Equal pieces of the text are no repeats.
func suiteRepeats(t *testing.T, r *rig) {
	if r.Provider.Name() == provider.Local {
		t.Skip("chunks of chat completions have no number, and the first two may be equal")
	}
	const text = "no no no no no, said the answer"
	for _, faults := range [][]Fault{nil, {{On: OpRun, Kind: FaultTwice}}} {
		r.Server.Inject(faults...)
		r.Server.Script(r.makes(text, Made{Name: "a.csv", Data: []byte("a")}))
		var streamed, code strings.Builder
		result, found, err := r.ask("go", func(e provider.Event) {
			switch e := e.(type) {
			case provider.TextDelta:
				streamed.WriteString(e.Text)
			case provider.CodeDelta:
				code.WriteString(e.Code)
			}
		})
		if err != nil {
			t.Fatalf("with the faults %v: %v", faults, err)
		}
		if result.Text != text || streamed.String() != text || strings.Count(code.String(), "write()") > 1 {
			t.Errorf("with the faults %v: text %q, streamed %q, code %q", faults, result.Text, streamed.String(), code.String())
		}
		if len(result.Steps) != 1 || len(found.Files) != 1 {
			t.Errorf("with the faults %v: steps %+v, files %v", faults, result.Steps, names(found))
		}
	}
	r.clean()
}

func suiteCut(t *testing.T, r *rig) {
	in := r.upload("data.csv", "a,b\n")
	r.Server.Inject(Fault{On: OpRun, Kind: FaultCut})
	r.Server.Script(r.makes("a rather long answer that is cut off in its middle",
		Made{Name: "kept.csv", Data: []byte("kept")}))
	_, found, err := r.ask("go", func(provider.Event) {}, in)
	if provider.KindOf(err) != provider.Transient {
		t.Errorf("got %v, want an error of kind transient", err)
	}
	if r.caps().SessionCreate && r.remoteFiles() {
		if found == nil {
			t.Fatal("the session is known, its files were not looked for")
		}
		r.content(found, "kept.csv")
	}
	r.clean()
}

func suiteExpired(t *testing.T, r *rig) {
	if !r.caps().Sessions {
		t.Skip("no sessions")
	}
	in := r.upload("data.csv", "a,b\n")
	r.Server.Script(r.makes("one", Made{Name: "one.csv", Data: []byte("1")}))
	r.mustAsk("first", in)
	r.Server.ExpireSessions()
	r.Server.Script(r.makes("two", Made{Name: "two.csv", Data: []byte("2")}))
	var told bool
	_, found, err := r.ask("second", func(e provider.Event) {
		if _, ok := e.(provider.Notice); ok {
			told = true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.content(found, "two.csv")
	if !told {
		t.Error("the person was not told that the session is another one")
	}
	recovered := int64(0)
	for _, c := range r.counters.Snapshot() {
		recovered += c.Recoveries
	}
	if recovered != 1 {
		t.Errorf("%d recoveries were counted", recovered)
	}
	r.clean()
}

func suiteCancel(t *testing.T, r *rig) {
	r.upload("data.csv", "a,b\n")
	r.Server.Inject(Fault{On: OpRun, Kind: FaultStall})
	r.Server.Script(r.makes("a rather long answer that stalls in its middle", Made{Name: "k.csv", Data: []byte("k")}))
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	begun := time.AfterFunc(200*time.Millisecond, cancel)
	defer begun.Stop()
	_, err := r.tracker.Run(ctx, provider.RunRequest{Model: r.Model,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, func(provider.Event) {})
	if !errors.Is(err, context.Canceled) || provider.KindOf(err) != "" || ctx.Err() == nil {
		t.Errorf("the run ended with %v of kind %q, the context with %v", err, provider.KindOf(err), ctx.Err())
	}
	r.clean()
}

// suiteDeadline ends a turn at the caller's own deadline, which is no failure of the provider.
func suiteDeadline(t *testing.T, r *rig) {
	r.Server.Inject(Fault{On: OpRun, Kind: FaultStall})
	r.Server.Script(r.makes("a rather long answer that stalls in its middle"))
	ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := r.tracker.Run(ctx, provider.RunRequest{Model: r.Model,
		Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, func(provider.Event) {})
	if !errors.Is(err, context.DeadlineExceeded) || provider.KindOf(err) != "" ||
		!strings.Contains(provider.HintOf(err), "more time") {
		t.Errorf("the run ended with %v of kind %q and the hint %q", err, provider.KindOf(err), provider.HintOf(err))
	}
	r.clean()
}

// suiteLost loses the answers to requests that create objects, which must be found again.
func suiteLost(t *testing.T, r *rig) {
	r.Server.Inject(Fault{On: OpUpload, Kind: FaultLost}, Fault{On: OpSessionCreate, Kind: FaultLost})
	in := r.upload("data.csv", "a,b\n")
	r.Server.Script(r.makes("ok", Made{Name: "o.csv", Data: []byte("o")}))
	r.mustAsk("go", in)
	r.clean()
}

func suiteErrors(t *testing.T, r *rig) {
	for status, want := range map[int]provider.Kind{401: provider.Auth, 403: provider.Auth, 413: provider.TooLarge,
		429: provider.RateLimited, 500: provider.Transient, 503: provider.Transient, 400: provider.Invalid} {
		r.Server.Inject(Fault{On: OpRun, Kind: FaultStatus, Status: status})
		_, err := r.Provider.Run(r.ctx, provider.RunRequest{Model: r.Model,
			Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, nil)
		if provider.KindOf(err) != want || provider.HintOf(err) == "" {
			t.Errorf("status %d: %v is of kind %q, want %q with a hint", status, err, provider.KindOf(err), want)
		}
		r.Server.Heal()
	}
	if r.remoteFiles() {
		_, err := r.Provider.Files().Stat(r.ctx, provider.FileRef{
			Provider: r.Provider.Name(), Scope: provider.ScopeFile, ID: "files/none"})
		if provider.KindOf(err) != provider.FileNotFound {
			t.Errorf("a file that is not there: %v", err)
		}
	}
}

func suiteDelete(t *testing.T, r *rig) {
	in := r.upload("data.csv", "a,b\n")
	for range 2 {
		if err := r.Provider.Files().Delete(r.ctx, in.File.Ref); err != nil {
			t.Error(err)
		}
	}
	// The 404 of a gateway that did not pass the request on.
	other := r.upload("other.csv", "a,b\n")
	r.Server.Inject(Fault{On: OpDelete, Kind: FaultStatus, Status: 404})
	if err := r.Provider.Files().Delete(r.ctx, other.File.Ref); err == nil && len(r.Server.Objects()) > 0 {
		t.Errorf("said to be deleted, and there is %v", r.Server.Objects())
	}
	r.clean()
}

// suiteCrash ends the process with objects at the provider. The next process's sweep deletes
// them, but not those of living holders.
func suiteCrash(t *testing.T, r *rig) {
	r.Server.Script(r.makes("ok", Made{Name: "o.csv", Data: []byte("o")}))
	r.mustAsk("go", r.upload("data.csv", "a,b\n"))
	if swept, err := provider.Sweep(r.ctx, r.store, provider.Retry{Clock: r.Clock}, r.Provider); err != nil ||
		len(swept.Deleted) > 0 {
		t.Errorf("a living conversation was swept: %v, %v", swept.Deleted, err)
	}
	r.store.Crash()
	if swept, err := provider.Sweep(r.ctx, r.store, provider.Retry{Clock: r.Clock}, r.Provider); err != nil ||
		len(swept.Left) > 0 {
		t.Errorf("sweep: %v, left %v", err, swept.Left)
	}
	r.none()
}
