// Package pages serves the assistant's pages: Ask, where models are asked, and Review, where their
// replies become changes of folders, with the pages of projects and of the outbox. They are a part
// of a site: see page.Part.
//
// Ask keeps conversations (conversation.Live) and Review decides about replies (changes.Scoped).
// A page's file is page_<name>.go, with templates/<name>.html and, if it has a script,
// static/<name>.js. Uploads go to the service through a client.
package pages

import (
	"embed"
	"html/template"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

//go:embed templates/*.html static
var files embed.FS

// Part returns the pages of the assistant. Either may be nil: there are no such pages.
func Part(ask *Ask, review *Review) page.Part {
	return page.Part{
		Files: files,
		Functions: template.FuncMap{
			"severity": func(s workspace.Severity) string { return severityWords[s] },
			"kind":     func(k assignment.Kind) string { return kindTitles[k] },
		},
		Add: func(s *page.Site) {
			if ask != nil {
				ask.add(s)
			}
			if review != nil {
				review.add(s)
			}
		},
	}
}
