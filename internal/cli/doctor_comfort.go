package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/setup"
)

// comfortReport describes what this host has that programs run without.
type comfortReport struct {
	Fonts   []setup.Script `json:"fonts"` // the scripts that they draw
	Locales []string       `json:"locales"`
	Extras  []extraReport  `json:"extras"`
}

// extraReport says whether a program that setup installs on request is there.
type extraReport struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	OK    bool   `json:"ok"`
}

func examineComfort(ctx context.Context) comfortReport {
	r := comfortReport{Fonts: setup.Scripts(), Locales: []string{language.Neutral}, Extras: []extraReport{}}
	if language.HasEnglish(ctx) {
		r.Locales = append(r.Locales, language.English)
	}
	for _, e := range setup.Extras() {
		r.Extras = append(r.Extras, extraReport{e.Name, e.Title, e.Installed()})
	}
	return r
}

// imagesFound are the images that programs can have.
type imagesFound struct {
	List    []shownImage `json:"list"`
	Problem string       `json:"problem,omitempty"` // why they are not known
}

func findImages(store engine.Images) imagesFound {
	list, err := store.List()
	if err != nil {
		return imagesFound{List: []shownImage{}, Problem: command.Explain(err).Message}
	}
	found := imagesFound{List: make([]shownImage, len(list))}
	for i := range list {
		found.List[i] = imageOf(list[i])
	}
	return found
}

// WriteText writes a row.
func (f imagesFound) WriteText(p *command.Page) {
	var words []string
	for i := range f.List {
		words = append(words, fmt.Sprintf("%s (%s)", f.List[i].Name, languagesText(&f.List[i].Image)))
	}
	switch {
	case f.Problem != "":
		p.Row("images", 13, command.Yellow, "unknown", command.Printable(f.Problem))
	case len(words) == 0:
		p.Row("images", 13, command.Faint, "none", "on request: `airlock images add NAME SOURCE`")
	default:
		p.Row("images", 13, command.Green, "ok", strings.Join(words, "; "))
	}
}

func (r comfortReport) WriteText(p *command.Page) {
	var drawn, boxes []string
	for _, s := range r.Fonts {
		if s.OK {
			drawn = append(drawn, s.Name)
		} else {
			boxes = append(boxes, s.Name)
		}
	}
	if len(drawn) > 0 {
		p.Row("fonts", 13, command.Green, "ok", strings.Join(drawn, "; "))
	}
	if len(boxes) > 0 {
		p.Row("fonts", 13, command.Yellow, "boxes", strings.Join(boxes, "; "))
		p.Row("", 13, "", "", "Cure: "+setup.FontsCure)
	}
	if slices.Contains(r.Locales, language.English) {
		p.Row("locales", 13, command.Green, "ok", strings.Join(r.Locales, ", "))
	} else {
		p.Row("locales", 13, command.Yellow, "few", strings.Join(r.Locales, ", ")+" only, without "+language.English)
		p.Row("", 13, "", "", "Cure: "+setup.LocaleCure)
	}
	for _, e := range r.Extras {
		if e.OK {
			p.Row(e.Title, 13, command.Green, "ok", "for programs to start")
		} else {
			p.Row(e.Title, 13, command.Faint, "none", "on request: `airlock setup --extras "+e.Name+"`")
		}
	}
}
