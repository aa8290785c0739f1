package index

import (
	"fmt"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var searchTests = map[string]func(bench){
	"runs with a word are listed newest first, page by page": func(b bench) {
		const many = 70 // words with one beginning: more than are looked up one by one
		for i := range many {
			b.clock.move(time.Duration(i%3) * time.Microsecond) // some at the same instant
			run := b.start(func(r *engine.Run) {
				r.CreatedAt = b.clock.Now()
				r.Source = &engine.Source{Code: fmt.Sprintf("common report%d half%d", i, i%2)}
			})
			b.finish(run, nil)
			if i%20 == 19 { // the newest of several come first into the list of words
				_, err := b.IndexRuns(b.Context(), 7)
				b.want(err, "")
			}
		}
		_, err := b.IndexRuns(b.Context(), many)
		b.want(err, "")
		for text, most := range map[string]int{
			"common": many, "comm": many, "c": many, "report": many, "rep half": many, "half1": many / 2, "report7": 1,
			"report6": 11,
		} {
			var got []engine.Run
			for page := (engine.Page{Limit: 8}); ; page.After = got[len(got)-1].ID {
				runs, err := b.Runs(b.Context(), engine.RunQuery{Owner: "ada", Text: text, Page: page})
				b.want(err, "")
				got = append(got, runs...)
				if len(runs) < page.Limit {
					break
				}
			}
			b.same("runs with "+text, len(got), most)
			for i := 1; i < len(got); i++ {
				if got[i].CreatedAt.After(got[i-1].CreatedAt) || got[i].ID == got[i-1].ID {
					b.Errorf("%q: %v comes after %v", text, got[i].CreatedAt, got[i-1].CreatedAt)
				}
			}
		}
	},
	"a list tells whose source is kept": func(b bench) {
		kept := b.start(func(r *engine.Run) { r.Source = &engine.Source{Code: "print(1)"} })
		spoke := b.start(func(r *engine.Run) { r.Source = kept.Source })
		spoke.Stdout = "1"
		b.finish(spoke, []engine.OutputChunk{{Stream: engine.Stdout, Data: "1"}})
		bare := b.start(nil)
		for _, ask := range []bool{true, false} {
			list, err := b.Runs(b.Context(), engine.RunQuery{Owner: "ada", Kept: ask})
			b.want(err, "")
			b.same("listed", len(list), 3)
			for _, r := range list {
				b.same("kept", r.SourceKept, ask && r.ID != bare.ID)
				b.same("source in a list", r.Source, (*engine.Source)(nil))
			}
		}
	},
	"a name that is given later is found, and the one before is not": func(b bench) {
		run := b.start(func(r *engine.Run) { r.Source = &engine.Source{Code: "print(1)"} })
		b.finish(run, nil)
		found := func(text string, want int) {
			b.Helper()
			_, err := b.IndexRuns(b.Context(), 10)
			b.want(err, "")
			runs, err := b.Runs(b.Context(), engine.RunQuery{Owner: "ada", Text: text, Page: engine.Page{Limit: 8}})
			b.want(err, "")
			b.same("runs with "+text, len(runs), want)
		}
		found("quarterly", 0)
		for name, other := range map[string]string{"Quarterly rates": "Plans", "Plans": "Quarterly rates"} {
			b.want(b.NameRun(b.Context(), "ada", run.ID, other), "")
			found(other, 1)
			found(name, 0)
			found("print", 1)
		}
	},
}
