package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Language is one that a program can be written in.
type Language struct {
	Name      string // "python"
	Title     string // "Python"
	Installed bool
}

// runPage is where programs are written, run and watched.
type runPage struct{ *Site }

func (s *Site) runPage() {
	p := &runPage{Site: s}
	s.nav = append(s.nav, navEntry{Name: "run", Title: "Run", Path: "/"},
		navEntry{Name: "history", Title: "Runs", Path: "/runs"})
	s.sections["compare"] = "history"
	s.mux.HandleFunc("GET /{$}", s.handle(p.blank))
	s.mux.HandleFunc("POST /runs", s.change(p.start))
	s.mux.HandleFunc("GET /runs/{id}", s.handle(p.show))
	s.mux.HandleFunc("GET /runs/{id}/events", s.handle(p.events))
	s.mux.HandleFunc("POST /runs/{id}/stop", s.change(p.stop))
	s.mux.HandleFunc("POST /runs/{id}/again", s.change(p.again))
	p.historyRoutes()
}

// runView is what the page shows: a program to be written, or one that was run
// with what came out.
type runView struct {
	Source    source
	Lost      bool // the code of the run is not kept
	Languages []Language
	Limits    runLimits
	Run       *outcome // nil: nothing was run yet
	Output    []piece  // for readers without scripts
	Cut       bool     // there is more output than that
	Rich      bool     // scripts can show more than that: colours, or the rest
	Recent    []pastRun
	Examples  []example
	Example   string // the one that is shown
}

// runLimits are what the page says about a run beforehand.
type runLimits struct {
	Timeout, MaxTimeout int // seconds
	Memory, MaxUpload   int64
}

func (p *runPage) limits() runLimits {
	defaults, maxima := p.Engine.Limits()
	return runLimits{
		Timeout: int(defaults.Timeout.Seconds()), MaxTimeout: int(maxima.Timeout.Seconds()),
		Memory: defaults.Memory, MaxUpload: p.MaxUpload,
	}
}

// recentRuns is how many runs the page itself lists.
const recentRuns = 8

// blank is the page before anything was run.
func (p *runPage) blank(w http.ResponseWriter, v *webRequest) error {
	body := &runView{Source: source{Language: "python"}, Examples: examples}
	for _, e := range examples {
		if e.Name == v.URL.Query().Get("example") {
			body.Source.Code, body.Example = e.Code, e.Name
		}
	}
	return p.page(w, v, body)
}

// show is a run's own page: what it was, and a place to change it and run it
// again.
func (p *runPage) show(w http.ResponseWriter, v *webRequest) error {
	run, err := p.find(v)
	if err != nil {
		return err
	}
	body := &runView{Run: p.outcome(v, run)}
	if run.Source == nil {
		body.Source, body.Lost = source{Language: run.Language}, true
	} else {
		body.Source = p.sourceOf(v.Context(), v.caller, run.Source)
	}
	if err := p.readOutput(v, run, body); err != nil {
		return err
	}
	return p.page(w, v, body)
}

func (p *runPage) page(w http.ResponseWriter, v *webRequest, body *runView) error {
	body.Languages, body.Limits = p.Languages(v.Context()), p.limits()
	recent, _, err := p.history(v, "", engine.ID{}, recentRuns)
	if err != nil {
		return err
	}
	body.Recent = recent
	title := "Run"
	if body.Run != nil {
		title = body.Run.Title
	}
	p.renderUnder(w, v, http.StatusOK, "run", title, body, runPolicy)
	return nil
}

// runPolicy lets the page show pictures that came with a result.
func runPolicy(nonce string) string { return policyWith(nonce, "'self' data:", "") }

func (p *runPage) find(v *webRequest) (*engine.Run, error) {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return nil, engine.ErrNotFound
	}
	return p.Engine.GetRun(v.Context(), v.caller, id)
}

// start runs what the form says.
func (p *runPage) start(w http.ResponseWriter, v *webRequest) error {
	src, err := p.readForm(v)
	if err != nil {
		return err
	}
	req := src.request()
	_, maxima := p.Engine.Limits()
	defaults, _ := p.Engine.Limits()
	req.Profile.Limits.Output = defaults.Output
	req.Profile.Limits.Output.Bytes = maxima.Output.Bytes
	run, err := p.Engine.Start(v.Context(), v.caller, req)
	if err != nil {
		return err
	}
	return p.begun(w, v, run)
}

// again runs what a run was asked for once more, with the same inputs.
func (p *runPage) again(w http.ResponseWriter, v *webRequest) error {
	run, err := p.find(v)
	if err != nil {
		return err
	}
	if run.Source == nil {
		return refuse(http.StatusConflict, "The code of this run is not kept.", "It can only be run again by what ran it.")
	}
	req := run.Source.Request(v.caller)
	req.Profile.Client = clientPage
	run, err = p.Engine.Start(v.Context(), v.caller, req)
	if engine.KindOf(err) == engine.ErrNotFound {
		return refuse(http.StatusConflict, "A file that this run read is no longer kept.",
			"Choose the file again below its code, and run it.")
	}
	if err != nil {
		return err
	}
	return p.begun(w, v, run)
}

// begun leads to a run's page; a script gets the run's events too.
func (p *runPage) begun(w http.ResponseWriter, v *webRequest, run *engine.Run) error {
	address := p.address("/runs/" + run.ID.String())
	if v.wants("text/event-stream") {
		w.Header().Set("Location", address)
		return p.follow(w, v, run.ID, 0)
	}
	http.Redirect(w, v.Request, address, http.StatusSeeOther)
	return nil
}

// stopTime is how long a visitor waits for a run to be gone.
const stopTime = 20 * time.Second

func (p *runPage) stop(w http.ResponseWriter, v *webRequest) error {
	run, err := p.find(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.Context(), stopTime)
	defer cancel()
	if err := p.Engine.CancelRun(ctx, v.caller, run.ID); err != nil {
		return err
	}
	if v.wants("application/json") {
		writeJSON(w, http.StatusOK, map[string]bool{"stopped": true})
		return nil
	}
	http.Redirect(w, v.Request, p.address("/runs/"+run.ID.String()), http.StatusSeeOther)
	return nil
}

// outcome is how a run stands, for a person.
type outcome struct {
	*engine.Run
	Title   string // the run's first line, or its language
	Client  string // what it came from
	Words   string // "failed, exit code 1"
	Said    string // what there is to say beyond that
	Files   []fileView
	Dropped []engine.DroppedFile // the first of them
	More    int                  // dropped files beyond those
	Lost    int                  // dropped files in all

	Contacted contacted
}

// namedDropped is how many files that were not kept the page names.
const namedDropped = 20

func (p *runPage) outcome(v *webRequest, run *engine.Run) *outcome {
	o := &outcome{Run: run, Contacted: p.contacts(v.Context(), v.caller, run),
		Words: outcomeWords(run), Title: run.Language, Client: clientWords(run)}
	if run.Source != nil {
		o.Title = cmp.Or(titleOf(run.Source.Code), o.Title)
	}
	for _, f := range run.Files {
		o.Files = append(o.Files, p.fileView(f))
	}
	if run.Status != engine.StatusTimeout && len(run.Dropped) == 0 {
		// the words have the limit, and a list what was dropped
		o.Said = run.Message
	}
	n := min(len(run.Dropped), namedDropped)
	for _, d := range run.Dropped {
		o.Lost += 1 + d.More
	}
	o.Dropped, o.More = run.Dropped[:n], o.Lost-n
	return o
}

// outcomeWords says how a run stands, with what makes the word of its status
// precise.
func outcomeWords(run *engine.Run) string {
	src := run.Source
	words := run.Status.Words()
	switch run.Status {
	case engine.StatusError:
		if run.ExitCode != nil {
			words += fmt.Sprintf(", exit code %d", *run.ExitCode)
		}
	case engine.StatusTimeout:
		limit := run.Duration.Round(time.Second)
		if src != nil && src.Timeout > 0 {
			limit = src.Timeout
		}
		if limit > 0 {
			words += fmt.Sprintf(" after %d s", int(limit.Seconds()))
		}
	case engine.StatusOOM:
		if src != nil && src.Memory > 0 {
			words += " at " + byteCount(src.Memory)
		}
	case engine.StatusKilled:
		if run.Signal != "" {
			words += " (" + run.Signal + ")"
		}
	}
	return words
}

// piece is output of one stream.
type piece struct {
	Err  bool
	Text string
}

// shownOutput bounds the output in the document itself. Scripts fetch all of
// it as events.
const shownOutput = 128 << 10

// readOutput puts the output into a run's page, in the order in which it came,
// for readers without scripts.
func (p *runPage) readOutput(v *webRequest, run *engine.Run, body *runView) error {
	if !run.Status.Final() {
		return nil
	}
	events, err := p.Engine.Watch(v.Context(), v.caller, run.ID, 0)
	if err != nil {
		return err
	}
	room := shownOutput
	for e := range events {
		if e.Type != engine.EventOutput {
			continue
		}
		if room <= 0 {
			body.Cut = true
			break
		}
		text := e.Data
		if len(text) > room {
			text, body.Cut = strings.ToValidUTF8(text[:room], ""), true
		}
		room -= len(text)
		shown := plainText(text)
		body.Rich = body.Rich || shown != text
		text = shown
		isErr := e.Stream == engine.Stderr
		if n := len(body.Output); n > 0 && body.Output[n-1].Err == isErr {
			body.Output[n-1].Text += text
		} else {
			body.Output = append(body.Output, piece{isErr, text})
		}
	}
	body.Rich = body.Rich || body.Cut
	return nil
}
