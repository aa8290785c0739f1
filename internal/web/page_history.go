package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/airlock-run/airlock/internal/engine"
)

func (p *runPage) historyRoutes() {
	p.mux.HandleFunc("GET /runs", p.handle(p.list))
	p.mux.HandleFunc("GET /runs/compare", p.handle(p.compare))
}

// pastRun is a run in a list.
type pastRun struct {
	*engine.Run
	Title string
	Words string
	Again bool // its code is kept
}

// historyView is the list of runs.
type historyView struct {
	Query    string
	Runs     []pastRun
	Next     string // the id to go on after; empty: that was all
	Searched int    // runs that the search looked at
}

const historyPage = 30 // runs of the list

// The bounds of one search; what is older is searched on request.
const (
	searchPage   = 200             // runs that are looked at together
	searchRuns   = 20_000          // runs that are looked at
	searchFound  = 100             // runs that are found
	searchTime   = 2 * time.Second // no further page of runs is begun after that
	searchOutput = 64 << 10        // bytes of each stream
)

func (p *runPage) list(w http.ResponseWriter, v *webRequest) error {
	query := v.URL.Query()
	body := historyView{Query: strings.TrimSpace(query.Get("q"))}
	var after engine.ID
	if a := query.Get("after"); a != "" {
		var err error
		if after, err = engine.ParseID(a); err != nil {
			return engine.ErrNotFound
		}
	}
	var err error
	if body.Query != "" {
		err = p.search(v.Context(), v.caller, after, &body)
	} else {
		body.Runs, body.Next, err = p.history(v, after, historyPage)
	}
	if err != nil {
		return err
	}
	p.render(w, v, http.StatusOK, "history", "Runs", body)
	return nil
}

// history lists runs, and says after which id the list continues.
func (p *runPage) history(v *webRequest, after engine.ID, limit int) ([]pastRun, string, error) {
	runs, err := p.runs.ListRuns(v.Context(), v.caller, engine.RunQuery{
		Origin: engine.OriginNative, Page: engine.Page{Limit: limit, After: after},
	})
	if err != nil {
		return nil, "", err
	}
	list := make([]pastRun, 0, len(runs))
	for i := range runs {
		one, _, err := p.past(v.Context(), v.caller, &runs[i])
		if err != nil {
			return nil, "", err
		}
		list = append(list, one)
	}
	if len(runs) < limit {
		return list, "", nil
	}
	return list, runs[len(runs)-1].ID.String(), nil
}

func (p *runPage) past(ctx context.Context, caller engine.Caller, run *engine.Run) (pastRun, *source, error) {
	src, err := p.sources.of(ctx, caller, run)
	if err != nil {
		return pastRun{}, nil, err
	}
	one := pastRun{Run: run, Words: outcomeWords(run, src), Title: "Code not kept", Again: src != nil}
	if src != nil {
		one.Title = src.title()
	}
	return one, src, nil
}

// search looks for words in the code, the language, the outcome, the output and
// the names of the files of runs.
func (p *runPage) search(ctx context.Context, caller engine.Caller, after engine.ID, body *historyView) error {
	words := strings.Fields(strings.ToLower(body.Query))
	for start := time.Now(); body.Searched < searchRuns && time.Since(start) < searchTime; {
		runs, err := p.runs.ListRuns(ctx, caller, engine.RunQuery{
			Origin: engine.OriginNative, Page: engine.Page{Limit: searchPage, After: after}, Output: searchOutput,
		})
		if err != nil {
			return err
		}
		for i := range runs {
			one, src, err := p.past(ctx, caller, &runs[i])
			if err != nil {
				return err
			}
			after = runs[i].ID
			body.Searched++
			if !one.matches(words, src) {
				continue
			}
			one.Stdout, one.Stderr = "", ""
			if body.Runs = append(body.Runs, one); len(body.Runs) == searchFound {
				body.Next = after.String()
				return nil
			}
		}
		if len(runs) < searchPage {
			return nil
		}
	}
	body.Next = after.String()
	return nil
}

// matches reports whether each of the words, which are in lower case, is
// somewhere in the run.
func (one pastRun) matches(words []string, src *source) bool {
	texts := []string{one.Language, one.Words, one.Message, one.Stdout, one.Stderr}
	for _, f := range one.Files {
		texts = append(texts, f.Path)
	}
	if src != nil {
		texts = append(texts, src.Code)
		for _, f := range src.Files {
			texts = append(texts, f.Name)
		}
	}
	left := slices.Clone(words)
	for _, text := range texts {
		text = strings.ToLower(text)
		left = slices.DeleteFunc(left, func(word string) bool { return strings.Contains(text, word) })
	}
	return len(left) == 0
}

// compareView is what differs between two runs.
type compareView struct {
	Before, After pastRun
	Code, Output  difference
	Problem       string // one of the two is missing
}

// difference is a diff, or why there is none.
type difference struct {
	Lines []diffLine
	Note  string
}

// diffLine is a line of a diff: "+" only after, "-" only before, " " in both,
// "@" where lines are left out.
type diffLine struct {
	Mark          string
	Before, After int // numbers of the line; 0: not there
	Text          string
}

func (p *runPage) compare(w http.ResponseWriter, v *webRequest) error {
	var runs [2]*engine.Run
	picked := v.URL.Query()["run"]
	if a, b := v.URL.Query().Get("a"), v.URL.Query().Get("b"); a != "" && b != "" {
		picked = []string{a, b}
	}
	if len(picked) != 2 {
		return refuse(http.StatusBadRequest, "Two runs are needed to compare.", "Mark exactly two in the list of runs.")
	}
	for i, text := range picked {
		id, err := engine.ParseID(text)
		if err != nil {
			return engine.ErrNotFound
		}
		if runs[i], err = p.runs.GetRun(v.Context(), v.caller, id); err != nil {
			return err
		}
	}
	if runs[1].CreatedAt.Before(runs[0].CreatedAt) {
		runs[0], runs[1] = runs[1], runs[0]
	}
	var body compareView
	var sources [2]*source
	var err error
	if body.Before, sources[0], err = p.past(v.Context(), v.caller, runs[0]); err != nil {
		return err
	}
	if body.After, sources[1], err = p.past(v.Context(), v.caller, runs[1]); err != nil {
		return err
	}
	if sources[0] == nil || sources[1] == nil {
		body.Code.Note = "The code of one of these runs is not kept."
	} else {
		body.Code = diff(sources[0].Code, sources[1].Code)
	}
	body.Output = diff(outputText(runs[0]), outputText(runs[1]))
	p.render(w, v, http.StatusOK, "compare", "Compare runs", body)
	return nil
}

// outputText is what a run printed, as the comparison shows it.
func outputText(run *engine.Run) string {
	text := plainText(run.Stdout)
	if run.Stderr != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += plainText(run.Stderr)
	}
	return text
}

// The bounds of a diff: of the texts, for the time it takes, and of what is
// shown of it.
const (
	maxDiffed    = 256 << 10
	maxDiffLines = 2000
	maxDiffText  = 400 // characters of one line
)

func diff(before, after string) difference {
	switch {
	case before == after:
		return difference{Note: "No difference."}
	case len(before) > maxDiffed || len(after) > maxDiffed:
		return difference{Note: "They differ, and have more than " + byteCount(maxDiffed) +
			": too much to compare line by line."}
	}
	unified, err := udiff.ToUnifiedDiff("before", "after", before, udiff.Lines(before, after), 3)
	if err != nil {
		return difference{Note: "They differ, and cannot be compared line by line."}
	}
	var d difference
	for _, hunk := range unified.Hunks {
		d.Lines = append(d.Lines, diffLine{Mark: "@", Before: hunk.FromLine, After: hunk.ToLine})
		from, to := hunk.FromLine, hunk.ToLine
		for _, l := range hunk.Lines {
			if len(d.Lines) >= maxDiffLines {
				d.Note = "There are more differences than are shown."
				return d
			}
			line := diffLine{Text: shorten(strings.TrimSuffix(l.Content, "\n"), maxDiffText)}
			switch l.Kind {
			case udiff.Insert:
				line.Mark, line.After = "+", to
				to++
			case udiff.Delete:
				line.Mark, line.Before = "-", from
				from++
			default:
				line.Mark, line.Before, line.After = " ", from, to
				from++
				to++
			}
			d.Lines = append(d.Lines, line)
		}
	}
	return d
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
