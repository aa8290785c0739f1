package native

import (
	_ "embed"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

//go:embed openapi.yaml
var openAPI []byte

func (q *request) languages() (any, error) {
	versions := q.versions.Get(q.Context())
	return each(q.engine.Languages(), func(l language.Language) languageBody {
		body := languageBody{Name: l.Name, Aliases: append([]string{}, l.Aliases...), Title: l.Title, Entry: l.Entry,
			Version: versions[l.Name]}
		if l.Name == "python" {
			for _, set := range q.engine.PackageSets() {
				body.PackageSets = append(body.PackageSets, packageSetBody{
					set.Name, set.Default, append([]engine.Origin{}, set.Origins...), set.Instead})
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

type statusBody struct {
	Runs runStats   `json:"runs"`
	Live *liveStats `json:"live"` // null: there are no live sessions
}

type runStats struct {
	Slots    int                     `json:"slots"`
	Running  int                     `json:"running"`
	Resting  int                     `json:"resting"`
	Queued   int                     `json:"queued"`
	Rejected int64                   `json:"rejected"`
	Ended    map[engine.Status]int64 `json:"ended"`
}

type liveStats struct {
	Interpreters int    `json:"interpreters"`
	Busy         int    `json:"busy"`
	Most         int    `json:"limit"`
	PerOwner     int    `json:"owner_limit"`
	Cells        uint64 `json:"cells"`
	Lost         uint64 `json:"lost"`
	Evicted      uint64 `json:"evicted"`
	Expired      uint64 `json:"expired"`
}

// status answers with what goes on in the whole service, which is for those who
// operate it.
func (q *request) status() (any, error) {
	if c := q.caller; !c.Admin && (c.Owner != engine.Local || c.Key != "") {
		return nil, refuse(http.StatusForbidden, string(engine.ErrForbidden),
			"the status is about all owners: this needs an admin key")
	}
	stats := q.engine.Stats()
	body := statusBody{Runs: runStats{stats.Slots, stats.Running, stats.Resting, stats.Queued, stats.Rejected, stats.Runs}}
	if body.Runs.Ended == nil {
		body.Runs.Ended = map[engine.Status]int64{}
	}
	if q.Live != nil {
		c := q.Live.Counts()
		body.Live = &liveStats{c.Interpreters, c.Busy, c.Total, c.PerOwner, c.Cells, c.Lost, c.Evicted, c.Expired}
	}
	return body, nil
}
