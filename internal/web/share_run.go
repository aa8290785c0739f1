package web

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// A run is shared as a notebook of one cell: its code, its output in order, and its files.

const (
	sharedOutput = 4 << 20 // bytes of a run's output
	sharedFiles  = 8 << 20 // bytes of its files together
	sharedTables = 8       // files that are shown as tables
	sharedRows   = 200     // rows of each
	sharedLook   = 16 << 10
)

// shareRun makes a link to a copy of a run. A browser without scripts is sent there.
func (p *sharePage) shareRun(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	if !run.Status.Final() {
		return page.Refuse(http.StatusConflict, "This run has not ended yet.", "Share it when it has.")
	}
	language := cmp.Or(map[string]string{"js": "javascript", "ts": "typescript"}[run.Language], run.Language)
	text, err := p.runNotebook(v, run, language)
	if err != nil {
		return err
	}
	file, err := p.store(v, v.FormValue("days"), cmp.Or(titleOfRun(run), run.Language), language, text)
	if err != nil {
		return err
	}
	if !v.Wants("application/json") {
		return p.Redirect(w, v, "/share/"+shareLink(file))
	}
	p.shared(w, file)
	return nil
}

type object = map[string]any

// runNotebook returns a run as a notebook, in nbformat 4.5.
func (p *sharePage) runNotebook(v *page.Request, run *engine.Run, language string) ([]byte, error) {
	source, outputs := "", []object{}
	if run.Source != nil {
		source = run.Source.Code
	}
	events, err := p.Engine.Watch(v.Context(), v.Caller, run.ID, 0)
	if err != nil {
		return nil, err
	}
	left := sharedOutput
	for e := range events {
		if e.Type != engine.EventOutput || left <= 0 {
			continue
		}
		left -= len(e.Data)
		outputs = append(outputs, object{"output_type": "stream", "name": e.Stream,
			"text": strings.ToValidUTF8(e.Data, "\uFFFD")})
	}
	files, err := p.fileOutputs(v, run.Files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{
		"nbformat": 4, "nbformat_minor": 5, "metadata": object{"language_info": object{"name": language}},
		"cells": []object{{"id": "run", "cell_type": "code", "source": source, "metadata": object{}, "execution_count": 1,
			"outputs": append(outputs, files...)}},
	})
}

// sharedFile is the form of a file that a run made, in the output of a cell. Readers without it have the name, and
// of a picture the picture.
const sharedFile = "application/vnd.airlock.file+json"

// fileOutputs returns the files of a run as outputs: each with its content as long as there is room, and tables
// and text with their beginning.
func (p *sharePage) fileOutputs(v *page.Request, files []engine.File) (outputs []object, err error) {
	room, tables := int64(sharedFiles), sharedTables
	for _, f := range files {
		name := page.Named(fileName(f))
		file := object{"name": name, "size": page.ByteCount(f.Size)}
		data := object{"text/plain": name, sharedFile: file}
		if f.Size <= room {
			room -= f.Size
			content, err := p.content(v, f)
			if err != nil {
				return nil, err
			}
			if page.ShownImages[f.MIME] {
				data[f.MIME], file["type"] = content, f.MIME
			} else {
				file["content"] = content
			}
		}
		switch kind := page.PreviewKind(infoOf(f)); {
		case kind == "table" && tables > 0:
			tables--
			if t := p.storedPreview(v, f).Table; t != nil {
				file["columns"], file["rows"], file["count"] = t.Columns, t.Rows[:min(len(t.Rows), sharedRows)], t.Count
			}
		case kind == "text", kind == "json", kind == "markdown":
			text := p.storedPreview(v, f).Text
			file["text"], file["cut"] = strings.ToValidUTF8(text[:min(len(text), sharedLook)], ""), len(text) > sharedLook
		}
		outputs = append(outputs, object{"output_type": "display_data", "metadata": object{}, "data": data})
	}
	return outputs, nil
}

func (p *sharePage) content(v *page.Request, f engine.File) (string, error) {
	_, content, err := p.Engine.OpenFile(v.Context(), v.Caller, f.ID)
	if err != nil {
		return "", err
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, sharedFiles))
	return base64.StdEncoding.EncodeToString(raw), err
}
