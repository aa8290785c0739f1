package providertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
)

// suiteKeep marks a file as kept. A later sweep does not delete it either.
func suiteKeep(t *testing.T, r *rig) {
	kept, other := r.upload("kept.csv", "k"), r.upload("other.csv", "o")
	if err := r.ledger.Keep(r.ctx, provider.EntryFile, kept.File.Ref.ID); err != nil {
		t.Fatal(err)
	}
	swept, err := r.ledger.Clean(r.ctx, r.Provider)
	if err != nil || len(swept.Kept) != 1 || len(swept.Deleted) != 1 || swept.Deleted[0].ID != other.File.Ref.ID {
		t.Errorf("%v, kept %v, deleted %v", err, swept.Kept, swept.Deleted)
	}
	r.store.Crash()
	if _, err := provider.Sweep(r.ctx, r.store, provider.Retry{Clock: r.Clock}, r.Provider); err != nil {
		t.Error(err)
	}
	if _, err := r.Provider.Files().Stat(r.ctx, kept.File.Ref); err != nil {
		t.Errorf("the kept file: %v", err)
	}
}

// suiteInline has no store of files. Small files are sent within the request, after a
// question, where the provider accepts them; else they are refused.
func suiteInline(t *testing.T, r *rig) {
	if !r.remoteFiles() {
		t.Skip("the files are here")
	}
	down := func() {
		r.Server.Heal()
		for range 12 {
			r.Server.Inject(Fault{On: OpUpload, Kind: FaultStatus, Status: 503},
				Fault{On: OpUploadPart, Kind: FaultStatus, Status: 503})
		}
	}
	down()
	asked := 0
	u := provider.Uploader{Provider: r.whole, Counters: r.counters, Inline: func(s provider.Source, why error) bool {
		asked++
		return s.Name != "no.csv" && provider.KindOf(why) == provider.Transient
	}}
	staged, refused := u.Stage(r.ctx, []provider.Source{source("yes.csv", "a,b\n")})
	if !r.caps().InlineUpload {
		if asked != 0 || len(staged) != 0 || len(refused) != 1 || provider.HintOf(refused[0].Err) == "" {
			t.Errorf("asked %d times, staged %v, refused %v", asked, staged, refused)
		}
		r.clean()
		return
	}
	if asked != 1 || len(staged) != 1 || !staged[0].Inline || staged[0].Why == "" {
		t.Fatalf("asked %d times, staged %+v, refused %v", asked, staged, refused)
	}
	down()
	if _, refused := u.Stage(r.ctx, []provider.Source{source("no.csv", "n")}); len(refused) != 1 {
		t.Errorf("the person said no, and it was sent: refused %v", refused)
	}
	down()
	asked = 0
	large := source("large.csv", strings.Repeat("x", int(r.caps().Limits.Inline)+1))
	if _, refused := u.Stage(r.ctx, []provider.Source{large}); len(refused) != 1 || asked != 0 {
		t.Errorf("over the limit of what travels so: refused %v, asked %d times", refused, asked)
	}
	r.Server.Heal()
	r.Server.Script(r.makes("ok", Made{Name: "o.csv", Data: []byte("o")}))
	_, found := r.mustAsk("go", provider.Attachment{File: staged[0].File})
	r.content(found, "o.csv")
	if id := r.tracker.Session().ID; id != "" {
		var inside []string
		for f, err := range r.Provider.Sessions().Files(r.ctx, id) {
			if err != nil {
				t.Fatal(err)
			}
			inside = append(inside, f.Name)
		}
		if !slices.Contains(inside, "yes.csv") {
			t.Errorf("the session has %v", inside)
		}
	}
	r.clean()
}

// suiteLostInput expires the session and deletes the input, which is sent again.
func suiteLostInput(t *testing.T, r *rig) {
	if !r.caps().Sessions || !r.remoteFiles() {
		t.Skip("nothing is kept for a session")
	}
	in := r.upload("data.csv", "a,b\n")
	r.Server.Script(r.makes("one", Made{Name: "one.csv", Data: []byte("1")}))
	r.mustAsk("first", in)
	r.Server.ExpireSessions()
	if err := r.Provider.Files().Delete(r.ctx, in.File.Ref); err != nil {
		t.Fatal(err)
	}
	again := 0
	r.tracker.Again = func(_ context.Context, f provider.FileInfo) (provider.FileInfo, error) {
		again++
		return r.upload(f.Name, "a,b\n").File, nil
	}
	r.Server.Script(r.makes("two", Made{Name: "two.csv", Data: []byte("2")}))
	_, found := r.mustAsk("second")
	r.content(found, "two.csv")
	if again != 1 {
		t.Errorf("the input was sent again %d times, want once", again)
	}
	r.clean()
}

// suiteVanished has a file that cannot be fetched: it is reported, and the others are fetched.
func suiteVanished(t *testing.T, r *rig) {
	if r.caps().Outputs == provider.OutputStdout || !r.remoteFiles() {
		t.Skip("files come within the reply")
	}
	r.Server.Script(r.makes(link("a.csv")+link("a.csv")+link("b.csv"), Made{Name: "a.csv", Data: []byte("a")},
		Made{Name: "b.csv", Data: []byte("b")}))
	r.Server.Inject(Fault{On: OpDownload, Kind: FaultStatus, Status: 404})
	_, found := r.mustAsk("go")
	if len(found.Files) != 1 || len(found.Failed) != 1 || provider.KindOf(found.Failed[0].Err) != provider.FileNotFound ||
		len(found.Missing) > 0 {
		t.Errorf("files %v, failed %v, missing %v", names(found), found.Failed, found.Missing)
	}
	r.clean()
}

// suiteEmpty has files without content, and a file that looks like an error.
func suiteEmpty(t *testing.T, r *rig) {
	report := `{"error": 0.05, "rows": 3}`
	r.Server.Script(r.makes("ok", Made{Name: "empty.txt"}, Made{Name: "none.csv"},
		Made{Name: "report.txt", Data: []byte(report)}))
	_, found := r.mustAsk("go")
	if len(found.Files) != 3 || r.content(found, "empty.txt")+r.content(found, "none.csv") != "" ||
		r.content(found, "report.txt") != report {
		t.Errorf("files %v, failed %v", names(found), found.Failed)
	}
	r.clean()
}

// suiteSameName writes one name in two runs: both files are found if both exist, else the last.
func suiteSameName(t *testing.T, r *rig) {
	one, two := r.makes("", Made{Name: "plot.csv", Data: []byte("first")}).Steps[0],
		r.makes("", Made{Name: "plot.csv", Data: []byte("second")}).Steps[0]
	one.Code, two.Code = "one()", "two()"
	r.Server.Script(Turn{Steps: []Step{one, two}, Text: "Both: " + link("plot.csv")})
	_, found := r.mustAsk("go")
	var got []string
	for _, f := range found.Files {
		got = append(got, r.content(found, f.Name))
	}
	if !slices.Contains(got, "second") || len(found.Files) > 2 || len(found.Missing) > 0 {
		t.Errorf("files %v with %q, missing %v", names(found), got, found.Missing)
	}
	r.clean()
}
