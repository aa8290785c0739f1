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

// output opens an output of a conversation.
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
		content, err := p.Live.Host.Output(o.SHA256)
		if errors.Is(err, fs.ErrNotExist) {
			return o, nil, refuse(http.StatusNotFound, "This file is not held here any more.",
				"Files that were not saved go after "+rough(conversation.HoldOutputs)+". Ask the model to make it again.")
		}
		return o, content, err
	}
	return conversation.Output{}, nil, engine.ErrNotFound
}

// fetched returns the outputs of a turn in progress, whose record is saved at its end.
func (p *askPage) fetched(v *webRequest, id string) (list []conversation.Output) {
	there, end := context.WithCancel(v.Context())
	end() // only past events
	events, err := p.Live.Follow(there, v.owner(), id, 0, 0)
	if err != nil {
		return nil // it is closed
	}
	for n := range events {
		if e, ok := n.Event.(conversation.Collected); ok {
			list = e.Outputs
		}
	}
	return list
}

// content serves an output, by the rules of content.go.
func (p *askPage) content(w http.ResponseWriter, v *webRequest) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	serveFile(w, v, engine.File{Name: o.Name, MIME: p.typeOf(o)}, o.SHA256, content)
	return nil
}

// typeOf returns the type of an output. Providers go by names, so that it checks the
// content of pictures.
func (p *askPage) typeOf(o conversation.Output) string {
	base, _, _ := strings.Cut(o.MIME, ";")
	if !shownImages[base] {
		return o.MIME
	}
	content, err := p.Live.Host.Output(o.SHA256)
	if err != nil {
		return o.MIME // there is no content
	}
	defer content.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "application/octet-stream"
	}
	return http.DetectContentType(head[:n])
}

// lookTime is how long a file for a preview is stored, from where the sandbox reads it.
const lookTime = time.Hour

// preview answers with the part of a page that shows an output.
func (p *askPage) preview(w http.ResponseWriter, v *webRequest) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	body := previewView{File: p.fileView(engine.File{Name: o.Name, MIME: p.typeOf(o), Size: o.Size})}
	if kind := body.File.Kind; kind == "pages" || kind == "table" { // a program in the sandbox reads it
		stored, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
			Name: o.Name, Origin: originPage, MIME: o.MIME, TTL: lookTime}, content)
		if err != nil {
			body.Problem = describe(err).Message
			return p.fragment(w, v, "file", "preview", body)
		}
		body.File.File = stored // the browser fetches its pages
		if kind == "table" {
			defer func() { _ = p.Engine.DeleteFile(v.Context(), v.caller, stored.ID) }() // else it expires
		}
	}
	p.makePreview(v, &body, func() (io.ReadCloser, error) {
		_, err := content.Seek(0, io.SeekStart)
		return io.NopCloser(content), err
	})
	return p.fragment(w, v, "file", "preview", body)
}
