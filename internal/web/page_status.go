package web

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/page"
)

// statusPage shows the state of the service.
type statusPage struct {
	*site
	sampler *sampler
}

// statusView is the data of the status page.
type statusView struct {
	Problem    string // why no runs are accepted; empty if they are
	Stats      engine.Stats
	Isolation  engine.Isolation
	Weak       int // layers that are weaker or missing
	Pools      []pool
	Disk       *engine.Room
	Live       *live.Counts // nil: there are no live sessions
	Nodes      []engine.Node
	CanDrain   bool
	Grants     []networkGrant      // of network access
	Contacts   []engine.Contact    // the latest connections of programs
	Acts       []engine.AuditEntry // of administration, the latest; for operators
	Charts     []chart
	Wait, Took percentiles // since the start
	Ended      []ended
}

// networkGrant is a grant of network access.
type networkGrant struct{ Who, Rules string }

// grants returns the grants that concern the visitor: for all programs, for their key, and
// for admins those of all keys.
func (p *statusPage) grants(v *page.Request) (list []networkGrant) {
	if len(p.Network) > 0 {
		list = append(list, networkGrant{"Each program that asks for it", strings.Join(p.Network, ", ")})
	}
	if !v.Caller.Admin {
		if v.Caller.Network != "" {
			list = append(list, networkGrant{"Your programs", strings.ReplaceAll(v.Caller.Network, ",", ", ")})
		}
		return list
	}
	keys, err := p.Engine.ListKeys(v.Context(), v.Caller)
	if err != nil {
		p.Log.ErrorContext(v.Context(), "network grants of keys are not known", "err", err)
	}
	for _, key := range keys {
		if key.Network != "" && key.RevokedAt.IsZero() {
			list = append(list, networkGrant{"Key " + key.ID + " of " + string(key.Owner), strings.Join(key.Rules(), ", ")})
		}
	}
	return list
}

// pool is a pool of sandboxes with its purpose.
type pool struct {
	engine.Pool
	For string // which programs
}

// servedBy has the purposes of pools.
var servedBy = map[string]string{
	"bare": "Python alone", "light": "Python with a few light modules", "standard": "Python with its standard library",
	"numpy": "Python with numpy", "pandas": "Python with pandas", "full": "Python that plots", "live": "Live sessions",
}

// percentiles summarizes a histogram.
type percentiles struct{ P50, P95, P99 string }

func percentilesOf(h engine.Histogram) percentiles {
	if h.Count == 0 {
		return percentiles{"–", "–", "–"}
	}
	say := func(part float64) string { return engine.DurationText(percentile(h, part)) }
	return percentiles{say(0.5), say(0.95), say(0.99)}
}

// ended counts the runs with a status.
type ended struct {
	Status engine.Status
	Words  string
	Count  int64
}

var endings = []engine.Status{
	engine.StatusOK, engine.StatusError, engine.StatusTimeout, engine.StatusOOM,
	engine.StatusKilled, engine.StatusCancelled, engine.StatusInterrupted,
}

func (s *site) statusPage() {
	p := &statusPage{site: s, sampler: newSampler(s.Engine.Stats, sampleEvery)}
	s.AtClose = append(s.AtClose, p.sampler.stop)
	s.Nav = append(s.Nav, page.Entry{Name: "status", Title: "Status", Path: "/status", More: true})
	s.Mux.HandleFunc("GET /status", s.Handle(p.show))
	if s.Drain != nil {
		s.Mux.HandleFunc("POST /status/drain", s.Change(p.drain))
	}
}

// shownContacts is how many connections of programs, and acts of administration, the page lists.
const shownContacts = 20

func (p *statusPage) show(w http.ResponseWriter, v *page.Request) error {
	stats := p.Engine.Stats()
	body := statusView{
		Stats: stats, Charts: charts(p.sampler.history()),
		Wait: percentilesOf(stats.Wait), Took: percentilesOf(stats.Duration),
	}
	for _, status := range endings {
		if n := stats.Runs[status]; n > 0 {
			body.Ended = append(body.Ended, ended{status, status.Words(), n})
		}
	}
	err := p.Engine.Ready(v.Context())
	if err == nil {
		body.Isolation, err = p.Engine.Isolation(v.Context())
	}
	if err != nil {
		said := page.Describe(err)
		body.Problem = said.Message + " " + said.Cure
	}
	for _, layer := range body.Isolation.Layers {
		if layer.State != engine.LayerEnforced {
			body.Weak++
		}
	}
	if pools, err := p.Engine.Pools(v.Context()); err == nil {
		for _, one := range pools {
			body.Pools = append(body.Pools, pool{one, cmp.Or(servedBy[one.Name], one.Name)})
		}
	}
	if p.Live != nil {
		body.Live = new(p.Live())
	}
	if p.Disk != nil {
		body.Disk = new(p.Disk())
	}
	if p.Nodes != nil && v.Operator() {
		body.Nodes, body.CanDrain = p.Nodes(), p.Drain != nil
	}
	body.Grants = p.grants(v)
	// Admins see the contacts of all callers. If the engine fails, the page omits them.
	body.Contacts, err = p.Engine.Contacts(v.Context(), v.Caller, engine.ContactQuery{Limit: shownContacts})
	if err != nil {
		p.Log.ErrorContext(v.Context(), "what programs contacted is not known", "err", err)
	}
	if v.Operator() {
		body.Acts, err = p.Engine.Audit(v.Context(), v.Caller, engine.AuditQuery{Limit: shownContacts})
		if err != nil {
			p.Log.ErrorContext(v.Context(), "the audit log cannot be read", "err", err)
		}
	}
	if v.Wants("application/x-part") {
		return p.Fragment(w, v, "status", "live", body)
	}
	p.Render(w, v, http.StatusOK, "status", "Status", body)
	return nil
}

// drain stops or resumes accepting new work on a node.
func (p *statusPage) drain(w http.ResponseWriter, v *page.Request) error {
	if !v.Operator() {
		return engine.ErrForbidden
	}
	name, action := v.PostForm.Get("node"), engine.ActDrain
	if v.PostForm.Get("undo") != "" {
		action = engine.ActUndrain
	}
	err := p.Drain(v.Context(), name, action == engine.ActDrain)
	p.Engine.RecordAct(v.Context(), v.Caller, action, name, "", err)
	if err != nil {
		return err
	}
	return p.Redirect(w, v, "/status")
}
