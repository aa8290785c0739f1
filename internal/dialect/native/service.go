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
