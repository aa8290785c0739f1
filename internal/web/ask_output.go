package web

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
)

// output finds one of a conversation of the visitor's, and opens it.
func (p *askPage) output(v *webRequest) (conversation.Output, *os.File, error) {
	c, err := p.find(v)
	if err != nil {
		return conversation.Output{}, nil, err
	}
	lists := [][]conversation.Output{p.fetched(v, c.ID)}
	for _, t := range c.Turns {
		lists = append(lists, t.Outputs)
	}
	for _, o := range slices.Concat(lists...) {
		if o.SHA256 == "" || o.SHA256 != v.PathValue("sha256") {
			continue
		}
		content, err := p.Live.Host().Output(o.SHA256)
		if errors.Is(err, fs.ErrNotExist) {
			return o, nil, refuse(http.StatusNotFound, "This file is not held here any more.",
				"Files that were not saved go after "+rough(p.Live.Host().Held())+". Ask the model to make it again.")
		}
		return o, content, err
	}
	return conversation.Output{}, nil, engine.ErrNotFound
}

// fetched are the outputs of a turn that continues: it is written down when it
// has ended.
func (p *askPage) fetched(v *webRequest, id string) (list []conversation.Output) {
	there, end := context.WithCancel(v.Context())
	end() // those events that there are, and no waiting for more
	events, err := p.Live.Follow(there, p.owner(v), id, 0, 0)
	if err != nil {
		return nil // nothing goes on
	}
	for n := range events {
		if e, ok := n.Event.(conversation.Collected); ok {
			list = e.Outputs
		}
	}
	return list
}

// content serves the bytes of an output, by the rules of content.go.
func (p *askPage) content(w http.ResponseWriter, v *webRequest) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	kind := safeType(p.typeOf(o))
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+o.SHA256+`"`)
	if !shownImages[kind] || v.URL.Query().Has("download") {
		h.Set("Content-Disposition", disposition(engine.File{Name: o.Name}))
	}
	http.ServeContent(w, v.Request, "", time.Time{}, content)
	return nil
}

// typeOf is what an output is. Providers go by names, so that what is said to
// be a picture is looked at.
func (p *askPage) typeOf(o conversation.Output) string {
	base, _, _ := strings.Cut(o.MIME, ";")
	if !shownImages[base] {
		return o.MIME
	}
	content, err := p.Live.Host().Output(o.SHA256)
	if err != nil {
		return o.MIME // there is nothing to be shown
	}
	defer content.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "application/octet-stream"
	}
	return http.DetectContentType(head[:n])
}

// lookTime is how long a file that is only looked at is in the store of files, from where
// the sandbox reads it.
const lookTime = time.Hour

// preview is the part of a page that shows an output's content.
func (p *askPage) preview(w http.ResponseWriter, v *webRequest) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	file := engine.File{Name: o.Name, MIME: p.typeOf(o), Size: o.Size}
	body := previewView{File: p.fileView(file)}
	switch body.File.Kind {
	case "pages", "table": // as in the list of files: a program in the sandbox reads it
		file, err = p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
			Name: o.Name, Origin: originPage, MIME: o.MIME, TTL: lookTime}, content)
		if err == nil && body.File.Kind == "pages" {
			body.File.File = file // whose pages are asked for
			body.Pages, body.Problem, err = p.previews.pages(v.Context(), v.caller, file)
			break
		}
		if err == nil {
			body.Table, err = p.previews.table(v.Context(), v.caller, file)
			_ = p.Engine.DeleteFile(v.Context(), v.caller, file.ID) // its time would end it too
		}
		if err == nil && body.Table.Problem != "" {
			body.Problem, body.Table = "This cannot be read as a table: "+body.Table.Problem+". Its text, as it is:", nil
			if _, err = content.Seek(0, 0); err == nil {
				err = readText(content, &body)
			}
		}
	default:
		err = readText(content, &body)
	}
	if err != nil {
		body.Problem = describe(err).Message
	}
	return p.fragment(w, v, "file", "preview", body)
}
