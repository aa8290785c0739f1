package native

import (
	_ "embed"
	"net/http"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

//go:embed openapi.yaml
var openAPI []byte

func (q *request) languages() (any, error) {
	versions := q.versions.Get(q.Context())
	return each(q.engine.Languages(), func(l language.Language) client.Language {
		body := client.Language{Name: l.Name, Aliases: append([]string{}, l.Aliases...), Title: l.Title, Entry: l.Entry,
			Version: versions[l.Name]}
		if l.Name == "python" {
			for _, set := range q.engine.PackageSets() {
				body.PackageSets = append(body.PackageSets, client.PackageSet{Name: set.Name, Default: set.Default,
					For:     each(set.Origins, func(o engine.Origin) string { return string(o) }),
					Instead: set.Instead})
			}
		}
		return body
	}), nil
}

func (q *request) limits() (any, error) {
	defaults, maxima := q.engine.Limits()
	return struct {
		Defaults limitsBody `json:"defaults"`
		Maxima   limitsBody `json:"maxima"`
		Upload   int64      `json:"upload_bytes"`
		Request  int64      `json:"request_bytes"`
	}{limitsOf(defaults), limitsOf(maxima), q.MaxUpload, q.MaxJSON}, nil
}

func (q *request) openAPI() (any, error) {
	q.w.Header().Set("Content-Type", "application/yaml")
	q.w.Header().Set("Cache-Control", "no-cache")
	_, _ = q.w.Write(openAPI)
	return answer{}, nil
}

// status answers with the status of the whole service, for its operators.
func (q *request) status() (any, error) {
	if c := q.caller; !c.Admin && (c.Owner != engine.Local || c.Key != "") {
		return nil, refuse(http.StatusForbidden, string(engine.ErrForbidden),
			"the status is about all owners: this needs an admin key")
	}
	stats := q.engine.Stats()
	body := client.ServiceStatus{Runs: client.RunStats{Slots: stats.Slots, Running: stats.Running, Resting: stats.Resting,
		Queued: stats.Queued, Rejected: stats.Rejected, Ended: map[client.Status]int64{}}}
	for status, n := range stats.Runs {
		body.Runs.Ended[client.Status(status)] = n
	}
	pools, err := q.engine.Pools(q.Context())
	if err != nil {
		return nil, err
	}
	body.Pools = each(pools, func(p engine.Pool) client.Pool { return client.Pool(p) })
	body.Nodes = each(q.Nodes(), func(n engine.Node) client.Node { return NodeOf(&n) })
	if q.Live != nil {
		c := q.Live.Counts()
		body.Live = &client.LiveStats{Interpreters: c.Interpreters, Busy: c.Busy, Limit: c.Total, OwnerLimit: c.PerOwner,
			Cells: c.Cells, Lost: c.Lost, Evicted: c.Evicted, Expired: c.Expired}
	}
	return body, nil
}

// NodeOf returns a node for display.
func NodeOf(n *engine.Node) client.Node {
	return client.Node{Name: n.Name, Role: string(n.Role), State: n.State(), Address: n.Address, Version: n.Version,
		Slots: n.Slots, Running: n.Load.Running, Queued: n.Load.Queued, Held: n.Load.Held, Since: n.Since,
		SilentMS: n.Silent.Milliseconds()}
}

// createKey answers with the token, for the only time.
func (q *request) createKey() (any, error) {
	body := q.object()
	wanted := engine.NewKey{
		Owner: engine.Owner(body.needText("owner")), Admin: body.flag("admin", false),
		Packages: body.text("python_packages"), Network: body.texts("network"), Only: body.texts("only"),
		Allowance: engine.Allowance{Users: int(body.count("users", engine.MaxUsers)),
			Shares: int(body.count("shares", engine.MaxUsers))},
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	key, token, err := q.engine.CreateKey(q.Context(), q.caller, wanted)
	if err != nil {
		return nil, err
	}
	b := keyOf(key)
	b.Token = token
	return created("", b), nil
}

func (q *request) listKeys() (any, error) {
	keys, err := q.engine.ListKeys(q.Context(), q.caller)
	if err != nil {
		return nil, err
	}
	return map[string]any{"keys": each(keys, keyOf)}, nil
}

func (q *request) revokeKey() (any, error) {
	return nil, q.engine.RevokeKey(q.Context(), q.caller, q.PathValue("id"))
}

// readNetwork reads the requested network of a run or a session; nil: the request has none.
func readNetwork(o *object) *engine.Network {
	body := o.object("network")
	if body.members == nil {
		return nil
	}
	return &engine.Network{
		Allow: body.texts("allow"), Deny: body.texts("deny"), MaxBytes: body.count("max_bytes", 1<<50),
	}
}

// contactBody is a connection of a program.
type contactBody struct {
	Run      engine.ID    `json:"run"`
	Owner    engine.Owner `json:"owner"`
	At       string       `json:"at"`
	Host     string       `json:"host"`
	Port     int          `json:"port"`
	Address  string       `json:"address,omitempty"`
	Sent     int64        `json:"sent"`
	Received int64        `json:"received"`
	Took     int64        `json:"took_ms"`
	Verdict  string       `json:"verdict"`
	Reason   string       `json:"reason,omitempty"`
	More     int          `json:"more,omitempty"`
}

func contactOf(c engine.Contact) contactBody {
	return contactBody{
		Run: c.Run, Owner: c.Owner, At: timeOf(c.At), Host: c.Host, Port: int(c.Port), Address: c.Address, Sent: c.Sent,
		Received: c.Received, Took: c.Took.Milliseconds(), Verdict: c.Verdict, Reason: c.Reason, More: c.More,
	}
}

// listContacts answers with lines of the audit log, newest first.
func (q *request) listContacts() (any, error) {
	ask := engine.ContactQuery{Owner: engine.Owner(q.URL.Query().Get("owner"))}
	if run := q.URL.Query().Get("run"); run != "" {
		var err error
		if ask.Run, err = engine.ParseID(run); err != nil {
			return nil, invalid("run is not an id")
		}
	}
	contacts, err := q.engine.Contacts(q.Context(), q.caller, ask)
	if err != nil {
		return nil, err
	}
	return map[string]any{"contacts": each(contacts, contactOf)}, nil
}
