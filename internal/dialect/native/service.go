package native

import (
	_ "embed"
	"net/http"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/rest"
)

//go:embed openapi.yaml
var openAPI []byte

func (q *request) languages() (any, error) {
	versions := q.api.versions.Get(q.Context())
	return rest.Each(q.api.engine.Languages(), func(l language.Language) client.Language {
		body := client.Language{Name: l.Name, Aliases: append([]string{}, l.Aliases...), Title: l.Title, Entry: l.Entry,
			Version: versions[l.Name]}
		if l.Name == "python" {
			for _, set := range q.api.engine.PackageSets() {
				body.PackageSets = append(body.PackageSets, client.PackageSet{Name: set.Name, Default: set.Default,
					For:     rest.Each(set.Origins, func(o engine.Origin) string { return string(o) }),
					Instead: set.Instead})
			}
		}
		return body
	}), nil
}

// images answers with the images that programs of the caller can have.
func (q *request) images() (any, error) {
	found, err := q.api.engine.ImagesOf(q.Caller)
	if err != nil {
		return nil, err
	}
	return client.ImageList{
		Images: rest.Each(found, func(i engine.Image) client.Image {
			return client.Image{Name: i.Name, Reference: i.Reference, ID: i.ID, SizeBytes: i.Size,
				Languages: rest.Each(i.Languages, func(l engine.ImageLanguage) client.ImageLanguage {
					return client.ImageLanguage{Name: l.Name, Version: l.Version}
				})}
		}),
		Default: q.api.engine.DefaultImage(q.Caller, engine.OriginNative), Host: q.Caller.MayHaveHost(),
	}, nil
}

func (q *request) limits() (any, error) {
	defaults, maxima := q.api.engine.Limits()
	return struct {
		Defaults limitsBody `json:"defaults"`
		Maxima   limitsBody `json:"maxima"`
		Upload   int64      `json:"upload_bytes"`
		Request  int64      `json:"request_bytes"`
	}{limitsOf(defaults), limitsOf(maxima), q.api.MaxUpload, q.api.MaxJSON}, nil
}

func (q *request) openAPI() (any, error) {
	q.W.Header().Set("Content-Type", "application/yaml")
	q.W.Header().Set("Cache-Control", "no-cache")
	_, _ = q.W.Write(openAPI)
	return rest.Answer{}, nil
}

// status answers with the status of the whole service, for its operators.
func (q *request) status() (any, error) {
	if !q.Caller.Operator() {
		return nil, rest.Refuse(http.StatusForbidden, string(engine.ErrForbidden),
			"the status is about all owners: this needs an admin key")
	}
	stats := q.api.engine.Stats()
	body := client.ServiceStatus{Runs: client.RunStats{Slots: stats.Slots, Running: stats.Running, Resting: stats.Resting,
		Queued: stats.Queued, Rejected: stats.Rejected, Ended: map[client.Status]int64{}}}
	for status, n := range stats.Runs {
		body.Runs.Ended[client.Status(status)] = n
	}
	pools, err := q.api.engine.Pools(q.Context())
	if err != nil {
		return nil, err
	}
	body.Pools = rest.Each(pools, func(p engine.Pool) client.Pool { return client.Pool(p) })
	isolation, err := q.api.engine.Isolation(q.Context())
	if err != nil {
		return nil, err
	}
	for _, i := range append([]engine.Isolation{isolation}, isolation.Others...) {
		body.Walls = append(body.Walls, client.WallState{Wall: client.Wall(i.Wall), Backend: i.Backend, Strict: i.Strict,
			Summary: i.Summary})
	}
	body.Nodes = rest.Each(q.api.Nodes(), func(n engine.Node) client.Node { return NodeOf(&n) })
	if q.api.Live != nil {
		c := q.api.Live.Counts()
		body.Live = &client.LiveStats{Interpreters: c.Interpreters, Busy: c.Busy, Limit: c.Total, OwnerLimit: c.PerOwner,
			Cells: c.Cells, Lost: c.Lost, Evicted: c.Evicted, Expired: c.Expired}
	}
	return body, nil
}

// NodeOf returns a node for display.
func NodeOf(n *engine.Node) client.Node {
	return client.Node{Name: n.Name, Role: client.NodeRole(n.Role), State: client.NodeState(n.State()),
		Address: n.Address, Version: n.Version, Slots: n.Slots, Running: n.Load.Running,
		Queued: n.Load.Queued, Held: n.Load.Held, Since: n.Since,
		Silent: whole(n.Silent)}
}

// createKey answers with the token, for the only time.
func (q *request) createKey() (any, error) {
	body := q.Object()
	wanted := engine.NewKey{
		Owner: engine.Owner(body.NeedText("owner")), Admin: body.Flag("admin", false),
		Packages: body.Text("python_packages"), Images: body.Texts("images"), Network: body.Texts("network"),
		Mounts: body.Texts("mounts"),
		Only:   body.Texts("only"), Wall: engine.Wall(body.Text("wall")),
		Month: body.Text("month"),
		Allowance: engine.Allowance{Users: int(body.Count("users", engine.MaxUsers)),
			Shares: int(body.Count("shares", engine.MaxUsers))},
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	key, token, err := q.api.engine.CreateKey(q.Context(), q.Caller, wanted)
	if err != nil {
		return nil, err
	}
	b := keyOf(key)
	b.Token = token
	return rest.Created("", b), nil
}

func (q *request) listKeys() (any, error) {
	keys, err := q.api.engine.ListKeys(q.Context(), q.Caller)
	if err != nil {
		return nil, err
	}
	return map[string]any{"keys": rest.Each(keys, keyOf)}, nil
}

func (q *request) revokeKey() (any, error) {
	return nil, q.api.engine.RevokeKey(q.Context(), q.Caller, q.PathValue("id"))
}

// readMounts reads the mounts of a run or a session; nil: the request has none, and an empty list is one.
func readMounts(o *rest.Object) []string {
	_, there := o.Members["mounts"].([]any)
	names := o.Texts("mounts")
	if there && names == nil {
		names = []string{}
	}
	return names
}

// readNetwork reads the requested network of a run or a session; nil: the request has none.
func readNetwork(o *rest.Object) *engine.Network {
	body := o.Object("network")
	if body.Members == nil {
		return nil
	}
	return &engine.Network{
		Allow: body.Texts("allow"), Deny: body.Texts("deny"), MaxBytes: body.Count("max_bytes", 1<<50),
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
		Run: c.Run, Owner: c.Owner, At: rest.TimeOf(c.At), Host: c.Host, Port: int(c.Port), Address: c.Address, Sent: c.Sent,
		Received: c.Received, Took: c.Took.Milliseconds(), Verdict: c.Verdict, Reason: c.Reason, More: c.More,
	}
}

// listContacts answers with lines of the audit log, newest first.
func (q *request) listContacts() (any, error) {
	ask := engine.ContactQuery{Owner: engine.Owner(q.URL.Query().Get("owner"))}
	if run := q.URL.Query().Get("run"); run != "" {
		var err error
		if ask.Run, err = engine.ParseID(run); err != nil {
			return nil, rest.Invalid("run is not an id")
		}
	}
	contacts, err := q.api.engine.Contacts(q.Context(), q.Caller, ask)
	if err != nil {
		return nil, err
	}
	return map[string]any{"contacts": rest.Each(contacts, contactOf)}, nil
}
