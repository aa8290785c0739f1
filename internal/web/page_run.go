package web

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// A Language is a language of programs.
type Language struct {
	Name      string // "python"
	Title     string // "Python"
	Installed bool
}

// runPage runs programs and shows them.
type runPage struct{ *site }

func (s *site) runPage() {
	p := &runPage{site: s}
	s.Nav = append(s.Nav, page.Entry{Name: "run", Title: "New run", Path: "/"},
		page.Entry{Name: "history", Title: "History", Path: "/runs"})
	s.Sections["compare"] = "history"
	s.Mux.HandleFunc("GET /{$}", s.Handle(p.blank))
	s.Mux.HandleFunc("POST /runs", s.Change(p.start))
	s.Mux.HandleFunc("GET /runs/{id}", s.Handle(page.With(s.findRun, p.show)))
	s.Mux.HandleFunc("GET /runs/{id}/events", s.Handle(p.events))
	s.Mux.HandleFunc("POST /runs/{id}/stop", s.Change(page.With(s.findRun, p.stop)))
	s.Mux.HandleFunc("POST /runs/{id}/rename", s.Change(page.With(s.findRun, p.rename)))
	s.Mux.HandleFunc("POST /runs/{id}/again", s.Change(page.With(s.findRun, p.again)))
	s.Mux.HandleFunc("GET /runs", s.Handle(p.list))
	s.Mux.HandleFunc("GET /runs/compare", s.Handle(p.compare))
}

// runView is a program to write, or a run with its output.
type runView struct {
	Source    source
	Lost      bool // the code of the run is not stored
	Languages []Language
	Images    []string // names to choose from; none: there is no choice
	Limits    runLimits
	Run       *outcome // nil: a new program
	Output    []piece  // for browsers without scripts
	Cut       bool     // there is more output than that
	Rich      bool     // scripts show more: colours, or the rest
	Recent    []pastRun
	Examples  []example
	Example   string // name of the example in the form
}

// runLimits are the limits of a run that the page shows.
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

// recentRuns is how many recent runs the page lists.
const recentRuns = 8

// blank shows a form for a new program.
func (p *runPage) blank(w http.ResponseWriter, v *page.Request) error {
	body := &runView{Source: source{Language: "python"}, Examples: examples}
	for _, e := range examples {
		if e.Name == v.URL.Query().Get("example") {
			body.Source.Code, body.Example = e.Code, e.Name
		}
	}
	return p.page(w, v, body)
}

// show shows a run, and a form to change it and run it again.
func (p *runPage) show(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	body := &runView{Run: p.outcome(v, run)}
	if run.Source == nil {
		body.Source, body.Lost = source{Language: run.Language}, true
	} else {
		body.Source = p.sourceOf(v.Context(), v.Caller, run.Source)
	}
	if err := p.readOutput(v, run, body); err != nil {
		return err
	}
	return p.page(w, v, body)
}

func (p *runPage) page(w http.ResponseWriter, v *page.Request, body *runView) error {
	body.Languages, body.Limits = p.Languages(v.Context()), p.limits()
	recent, _, err := p.history(v, "", engine.ID{}, recentRuns)
	if err != nil {
		return err
	}
	body.Recent = recent
	if body.Images, err = p.imageNames(v.Caller, &body.Source.Image); err != nil {
		return err
	}
	title := "Run"
	if body.Run != nil {
		title = body.Run.Title
	}
	p.RenderUnder(w, v, http.StatusOK, "run", title, body, runPolicy)
	return nil
}

// imageNames returns the names of the images that a visitor can choose from, and that of none;
// nothing if there are none. An empty choice becomes the usual one.
func (s *site) imageNames(caller engine.Caller, chosen *string) (names []string, err error) {
	images, err := s.Engine.ImagesOf(caller)
	if err != nil || len(images) == 0 {
		return nil, err
	}
	if caller.MayHaveHost() {
		names = append(names, engine.HostImage)
	}
	for i := range images {
		names = append(names, images[i].Name)
	}
	*chosen = cmp.Or(*chosen, s.Engine.DefaultImage(caller, engine.OriginNative))
	return names, nil
}

// runPolicy also allows the pictures in a result.
func runPolicy(nonce string) string { return page.PolicyWith(nonce, "'self' data:", "") }

// start runs the program of the form.
func (p *runPage) start(w http.ResponseWriter, v *page.Request) error {
	src, err := p.readForm(v)
	if err != nil {
		return err
	}
	req := src.request()
	_, maxima := p.Engine.Limits()
	req.Profile.Limits.Output.Bytes = maxima.Output.Bytes
	run, err := p.Engine.Start(v.Context(), v.Caller, req)
	if err != nil {
		return err
	}
	return p.begun(w, v, run)
}

// again repeats a run, with the same inputs.
func (p *runPage) again(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	if run.Source == nil {
		return page.Refuse(http.StatusConflict, "The code of this run is not kept.",
			"It can only be run again by what ran it.")
	}
	req := run.Source.Request(v.Caller)
	req.Profile.Client = clientPage
	run, err := p.Engine.Start(v.Context(), v.Caller, req)
	if engine.KindOf(err) == engine.ErrNotFound {
		return page.Refuse(http.StatusConflict, "A file that this run read is no longer kept.",
			"Choose the file again below its code, and run it.")
	}
	if err != nil {
		return err
	}
	return p.begun(w, v, run)
}

// rename gives a run the name of a form.
func (p *runPage) rename(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	if err := p.Engine.NameRun(v.Context(), v.Caller, run.ID, givenName(v.PostForm.Get("name"))); err != nil {
		return err
	}
	to := "/runs/" + run.ID.String()
	if list, err := url.ParseQuery(v.PostForm.Get("list")); err == nil && len(list) > 0 {
		to = "/runs?" + listQuery(list)
	}
	return p.Done(w, v, to, http.StatusOK, map[string]bool{"renamed": true})
}

// begun sends the visitor to a run's page; a script gets the run's events.
func (p *runPage) begun(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	if v.Wants("text/event-stream") {
		w.Header().Set("Location", p.URL("/runs/"+run.ID.String()))
		return p.follow(w, v, run.ID, 0)
	}
	return p.Redirect(w, v, "/runs/"+run.ID.String())
}

// stopTime is how long a visitor waits for a run to end.
const stopTime = 20 * time.Second

func (p *runPage) stop(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	ctx, cancel := context.WithTimeout(v.Context(), stopTime)
	defer cancel()
	if err := p.Engine.CancelRun(ctx, v.Caller, run.ID); err != nil {
		return err
	}
	return p.Done(w, v, "/runs/"+run.ID.String(), http.StatusOK, map[string]bool{"stopped": true})
}

// outcome is a run for display.
type outcome struct {
	*engine.Run
	Title   string // its name, else what describes its code, or its language
	Client  string // of the run
	Words   string // "failed, exit code 1"
	Note    string // more than the words
	Files   []fileView
	Dropped []engine.DroppedFile // the first of them
	More    int                  // dropped files beyond those
	Lost    int                  // dropped files in all
	Wholes  []wholeOutput        // of which the output has a part
	Expired []string             // names of such files that are no longer kept

	Contacted contacted
}

// namedDropped is how many dropped files the page names.
const namedDropped = 20

func (p *runPage) outcome(v *page.Request, run *engine.Run) *outcome {
	o := &outcome{Run: run, Contacted: p.contacts(v.Context(), v.Caller, run),
		Words: outcomeWords(run), Title: cmp.Or(titleOfRun(run), run.Language), Client: clientWords(run)}
	o.Wholes, o.Expired = wholesOf(run)
	for _, f := range run.Files {
		view := p.fileView(f)
		if slices.ContainsFunc(o.Wholes, func(w wholeOutput) bool { return w.ID == f.ID }) {
			view.Kind = "" // the output is above
		}
		o.Files = append(o.Files, view)
	}
	if run.Status != engine.StatusTimeout && len(run.Dropped) == 0 {
		// the words have the limit, and a list has the dropped files
		o.Note = run.Message
	}
	n := min(len(run.Dropped), namedDropped)
	for _, d := range run.Dropped {
		o.Lost += 1 + d.More
	}
	o.Dropped, o.More = run.Dropped[:n], o.Lost-n
	return o
}

// wholeOutput is a stream of which a run's output has the beginning and the end, with the file that has all of it.
type wholeOutput struct {
	engine.File
	Stream string
	Shown  int64
}

// omission is the end of the line that stands for what is left out. It names the file that has it.
var omission = regexp.MustCompile(` in (std(?:out|err)\S*) \.\.\.\]\n`)

// wholesOf returns the files that have all that a run printed, and the names of those that have expired.
func wholesOf(run *engine.Run) (wholes []wholeOutput, expired []string) {
	if !run.Truncated {
		return nil, nil
	}
	for _, of := range []struct{ stream, text string }{{"stdout", run.Stdout}, {"stderr", run.Stderr}} {
		named := omission.FindStringSubmatch(of.text)
		if named == nil || !strings.HasPrefix(named[1], of.stream) {
			continue
		}
		at := slices.IndexFunc(run.Files, func(f engine.File) bool { return f.Path == named[1] })
		if at < 0 {
			expired = append(expired, named[1])
			continue
		}
		wholes = append(wholes, wholeOutput{run.Files[at], of.stream, int64(len(of.text))})
	}
	return wholes, expired
}

// outcomeWords returns the status of a run in words, with details.
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
			words += " after " + engine.DurationText(limit)
		}
	case engine.StatusOOM:
		if src != nil && src.Memory > 0 {
			words += " at " + page.ByteCount(src.Memory)
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

// shownOutput bounds the output in the document. Scripts fetch all of it as events.
const shownOutput = 128 << 10

// readOutput fills in the output of a run, in its order, for browsers without scripts.
func (p *runPage) readOutput(v *page.Request, run *engine.Run, body *runView) error {
	if !run.Status.Final() {
		return nil
	}
	events, err := p.Engine.Watch(v.Context(), v.Caller, run.ID, 0)
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
		shown := page.PlainText(text)
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

// example is a program to try for new users.
type example struct {
	Name  string // in the address
	Title string
	Code  string
}

//go:embed examples/*.py
var exampleFiles embed.FS

var examples = []example{
	newExample("plot", "Draw a plot"), newExample("table", "Make a table"), newExample("walls", "Try to break out"),
}

func newExample(name, title string) example {
	code, err := exampleFiles.ReadFile("examples/" + name + ".py")
	if err != nil {
		panic(err) // it is in the binary
	}
	return example{name, title, string(code)}
}

// networkOf returns the network rules in a form's field, which commas or spaces separate.
// Without rules the key's default counts.
func networkOf(text string) *engine.Network {
	rules := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(rules) == 0 {
		return nil
	}
	return &engine.Network{Allow: rules}
}

// namedContacts is how many connections of a run the page lists.
const namedContacts = 50

// contacted has the network connections of a run, the newest first.
type contacted struct {
	List []engine.Contact
	More int // that are not listed
}

// contacts returns the connections of a run. If the engine fails, the page omits them.
func (p *runPage) contacts(ctx context.Context, caller engine.Caller, run *engine.Run) (c contacted) {
	if !run.Status.Final() {
		return c
	}
	list, err := p.Engine.Contacts(ctx, caller, engine.ContactQuery{Run: run.ID})
	if err != nil {
		p.Log.ErrorContext(ctx, "what a run contacted is not known", "run", run.ID, "err", err)
		return c
	}
	c.List = list[:min(len(list), namedContacts)]
	c.More = len(list) - len(c.List)
	for i := range list {
		c.More += list[i].More
	}
	return c
}
