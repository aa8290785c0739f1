package pages

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

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/page"
)

// output opens an output of a conversation.
func (p *askPage) output(v *page.Request) (conversation.Output, *os.File, error) {
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
			return o, nil, page.Refuse(http.StatusNotFound, "This file is not held here any more.",
				"Files that were not saved go after "+page.Rough(conversation.HoldOutputs)+". Ask the model to make it again.")
		}
		return o, content, err
	}
	return conversation.Output{}, nil, page.ErrNotFound
}

// fetched returns the outputs of a turn in progress, whose record is saved at its end.
func (p *askPage) fetched(v *page.Request, id string) (list []conversation.Output) {
	there, end := context.WithCancel(v.Context())
	end() // only past events
	events, err := p.Live.Follow(there, v.Owner(), id, 0, 0)
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
func (p *askPage) content(w http.ResponseWriter, v *page.Request) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	page.ServeContent(w, v, p.infoOf(o), o.SHA256, time.Time{}, content)
	return nil
}

// infoOf returns what the page shows of an output.
func (p *askPage) infoOf(o conversation.Output) page.File {
	return page.File{Name: o.Name, MIME: p.typeOf(o), Size: o.Size}
}

// typeOf returns the type of an output. Providers go by names, so that it checks the
// content of pictures.
func (p *askPage) typeOf(o conversation.Output) string {
	base, _, _ := strings.Cut(o.MIME, ";")
	if !page.ShownImages[base] {
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

// preview answers with the part of a page that shows an output.
func (p *askPage) preview(w http.ResponseWriter, v *page.Request) error {
	o, content, err := p.output(v)
	if err != nil {
		return err
	}
	defer content.Close()
	return p.Preview(w, v, p.infoOf(o), content)
}
