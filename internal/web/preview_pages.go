package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
)

// unread says why the program in the sandbox did not read a file.
func unread(run *engine.Run) string {
	if run.Status == engine.StatusTimeout {
		return "reading it took too long"
	}
	return "reading it failed"
}

const (
	shownPages  = 20      // of a PDF
	pagePicture = 1 << 20 // bytes of one page's picture, as base64
)

// pageLook is what the program says of a PDF: how many pages there are, or one of them.
type pageLook struct {
	Pages   int    `json:"pages"`
	Picture []byte `json:"picture"`
	Problem string `json:"problem"`
}

// page looks at one page of a PDF, 0: how many there are. It is drawn in the sandbox:
// browsers get pictures, and nothing of the document.
func (p *previews) page(ctx context.Context, caller engine.Caller, f engine.File, number int) (pageLook, error) {
	run, err := p.read(ctx, caller, f, pagePicture, "pdf", strconv.Itoa(number))
	if err != nil {
		return pageLook{}, err
	}
	var made pageLook
	switch {
	case run.Status != engine.StatusOK:
		made.Problem = unread(run)
	case run.Truncated || json.Unmarshal([]byte(run.Stdout), &made) != nil:
		made = pageLook{Problem: "its picture is too large"}
	}
	return made, nil
}

// numbers are 1 to n.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// pages is how many pages of a PDF there are, or why that is not known.
func (p *previews) pages(ctx context.Context, caller engine.Caller, f engine.File) (int, string, error) {
	made, err := p.page(ctx, caller, f, 0)
	if err != nil || made.Problem == "" && made.Pages > 0 {
		return made.Pages, "", err
	}
	made.Problem = cmp.Or(made.Problem, "it has no pages")
	return 0, "This cannot be read as a PDF: " + made.Problem + ".", nil
}

// pagePicture serves the picture of one page.
func (p *filesPage) pagePicture(w http.ResponseWriter, v *webRequest) error {
	file, err := p.find(v)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(v.PathValue("number"))
	if err != nil || number < 1 || number > shownPages || previewKind(file) != "pages" {
		return engine.ErrNotFound
	}
	made, err := p.previews.page(v.Context(), v.caller, file, number)
	if err != nil {
		return err
	}
	// What the program says is a picture is served as one if it begins like one.
	if !bytes.HasPrefix(made.Picture, []byte("RIFF")) {
		return engine.ErrNotFound
	}
	h := w.Header()
	h.Set("Content-Type", "image/webp")
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Cache-Control", "private, max-age=3600") // the file behind an id does not change
	_, _ = w.Write(made.Picture)
	return nil
}

// wholeTable is as much of a table as a page sorts and searches: what a program may print.
var wholeTable = extent{10_000, 200, 1 << 20}

// rows serves a table for a script to show.
func (p *filesPage) rows(w http.ResponseWriter, v *webRequest) error {
	file, err := p.find(v)
	if err != nil {
		return err
	}
	if previewKind(file) != "table" {
		return engine.ErrNotFound
	}
	t, err := p.previews.rows(v.Context(), v.caller, file, wholeTable)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, t)
	return nil
}
