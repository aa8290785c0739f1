package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// pastRun is a run in a list.
type pastRun struct {
	*engine.Run
	Title  string // first line that describes it
	File   string // name of the code's file, if the request had one
	Client string
	OnPage bool // it was started here
	Words  string
	Plot   string // id of the first picture that it made
}

// historyView is the list of runs.
type historyView struct {
	Query string
	Named []sessionRow // notebooks and sessions whose names have the words
	List  string       // the query of this list, to come back to it
	With  *pastRun     // the run to compare with another
	Runs  []pastRun
	Next  string // the id after which the list continues; empty: it is complete
}

const historyPage = 30 // entries of one page

func (p *runPage) list(w http.ResponseWriter, v *page.Request) error {
	query := v.URL.Query()
	body := historyView{Query: strings.TrimSpace(query.Get("q"))}
	after, err := v.After()
	if err != nil {
		return err
	}
	if with := query.Get("with"); with != "" {
		run, err := p.runByID(v, with)
		if err != nil {
			return err
		}
		body.With = new(p.past(run))
	}
	if body.Runs, body.Next, err = p.history(v, body.Query, after, historyPage); err != nil {
		return err
	}
	if body.Query != "" && after.IsZero() {
		if body.Named, err = p.named(v, body.Query); err != nil {
			return err
		}
	}
	body.List = listQuery(query)
	p.Render(w, v, http.StatusOK, "history", "History", body)
	return nil
}

// listQuery returns the part of a query that a list of runs has.
func listQuery(query url.Values) string {
	kept := url.Values{}
	for _, name := range []string{"q", "with", "after"} {
		if value := query.Get(name); value != "" {
			kept.Set(name, value)
		}
	}
	if len(kept) == 0 {
		return "q=" // a list without a query
	}
	return kept.Encode()
}

// named lists the notebooks and sessions whose names have all words of a text, by how they begin.
func (p *runPage) named(v *page.Request, text string) (found []sessionRow, err error) {
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
	}
	wanted := words(text)
	sessions, err := p.Engine.ListSessions(v.Context(), v.Caller, engine.SessionQuery{Origin: engine.OriginNative})
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	for _, row := range (&filesPage{p.site}).sessionRows(v, sessions) {
		if row.Name == "" && row.Kind != "Notebook" {
			continue
		}
		has := words(row.Title)
		if !slices.ContainsFunc(wanted, func(w string) bool {
			return !slices.ContainsFunc(has, func(h string) bool { return strings.HasPrefix(h, w) })
		}) {
			found = append(found, row)
		}
	}
	return found, nil
}

// history lists runs that contain all words of a text, and returns the id after which the
// list continues.
func (p *runPage) history(v *page.Request, text string, after engine.ID, limit int) ([]pastRun, string, error) {
	runs, err := p.Engine.ListRuns(v.Context(), v.Caller, engine.RunQuery{
		Text: text, Programs: true, Source: true, Page: engine.Page{Limit: limit, After: after},
	})
	if err != nil {
		return nil, "", err
	}
	list := make([]pastRun, 0, len(runs))
	for i := range runs {
		list = append(list, p.past(&runs[i]))
	}
	if len(runs) < limit {
		return list, "", nil
	}
	return list, runs[len(runs)-1].ID.String(), nil
}

func (p *runPage) past(run *engine.Run) pastRun {
	one := pastRun{Run: run, Words: outcomeWords(run), Client: clientWords(run),
		OnPage: run.Source != nil && run.Source.Client == clientPage}
	one.Title = cmp.Or(titleOfRun(run), "Code not kept")
	if src := run.Source; src != nil {
		one.Title, one.File = cmp.Or(titleOfRun(run), "Empty program"), src.Entry
	}
	for _, f := range run.Files {
		if p.fileView(f).Kind == "image" {
			one.Plot = f.ID.String()
			break
		}
	}
	return one
}

// compareView compares two runs.
type compareView struct {
	Before, After pastRun
	Code, Output  difference
	Problem       string // one of them is missing
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

func (p *runPage) compare(w http.ResponseWriter, v *page.Request) error {
	var runs [2]*engine.Run
	picked := v.URL.Query()["run"]
	if a, b := v.URL.Query().Get("a"), v.URL.Query().Get("b"); a != "" && b != "" {
		picked = []string{a, b}
	}
	if len(picked) != 2 {
		return page.Refuse(http.StatusBadRequest, "Two runs are needed to compare.", "Mark exactly two in the list of runs.")
	}
	for i, text := range picked {
		var err error
		if runs[i], err = p.runByID(v, text); err != nil {
			return err
		}
	}
	if runs[1].CreatedAt.Before(runs[0].CreatedAt) {
		runs[0], runs[1] = runs[1], runs[0]
	}
	var body compareView
	body.Before, body.After = p.past(runs[0]), p.past(runs[1])
	if runs[0].Source == nil || runs[1].Source == nil {
		body.Code.Note = "The code of one of these runs is not kept."
	} else {
		body.Code = diff(runs[0].Source.Code, runs[1].Source.Code)
	}
	body.Output = diff(outputText(runs[0]), outputText(runs[1]))
	p.Render(w, v, http.StatusOK, "compare", "Compare runs", body)
	return nil
}

// outputText returns the output of a run for the comparison.
func outputText(run *engine.Run) string {
	text := page.PlainText(run.Stdout)
	if run.Stderr != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += page.PlainText(run.Stderr)
	}
	return text
}

// Bounds of a diff: of the input texts, to limit its time, and of the displayed lines.
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
		return difference{Note: "They differ, and have more than " + page.ByteCount(maxDiffed) +
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
