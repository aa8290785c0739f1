package native

import (
	_ "embed"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

//go:embed openapi.yaml
var openAPI []byte

func (a *api) languages(w http.ResponseWriter, r *http.Request) error {
	versions := a.versions.Get(r.Context())
	writeJSON(w, http.StatusOK, each(a.engine.Languages(), func(l language.Language) languageBody {
		body := languageBody{Name: l.Name, Aliases: append([]string{}, l.Aliases...), Title: l.Title, Entry: l.Entry, Version: versions[l.Name]}
		if l.Name == "python" {
			for _, set := range a.engine.PackageSets() {
				body.PackageSets = append(body.PackageSets, packageSetBody{set.Name, set.Default, append([]engine.Origin{}, set.Origins...), set.Instead})
			}
		}
		return body
	}))
	return nil
}

func (a *api) limits(w http.ResponseWriter, _ *http.Request) error {
	defaults, maxima := a.engine.Limits()
	writeJSON(w, http.StatusOK, struct {
		Defaults limitsBody `json:"defaults"`
		Maxima   limitsBody `json:"maxima"`
		Upload   int64      `json:"upload_bytes"`
		Request  int64      `json:"request_bytes"`
	}{limitsOf(defaults), limitsOf(maxima), a.MaxUpload, a.MaxJSON})
	return nil
}

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(openAPI)
	return nil
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
func (a *api) status(w http.ResponseWriter, r *http.Request) error {
	if c := a.Caller(r); !c.Admin && (c.Owner != engine.Local || c.Key != "") {
		return refuse(http.StatusForbidden, string(engine.ErrForbidden), "the status is about all owners: this needs an admin key")
	}
	stats := a.engine.Stats()
	body := statusBody{Runs: runStats{stats.Slots, stats.Running, stats.Resting, stats.Queued, stats.Rejected, stats.Runs}}
	if body.Runs.Ended == nil {
		body.Runs.Ended = map[engine.Status]int64{}
	}
	if a.Live != nil {
		c := a.Live.Counts()
		body.Live = &liveStats{c.Interpreters, c.Busy, c.Total, c.PerOwner, c.Cells, c.Lost, c.Evicted, c.Expired}
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
