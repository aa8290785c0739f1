package web

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// A run is shared as a notebook of one cell: its code, what it printed in the order in
// which it came, and its pictures.

const (
	sharedOutput  = 4 << 20 // bytes of what a run printed
	sharedPicture = 8 << 20 // bytes of its pictures together
)

// nbCell is a cell of nbformat 4.5.
type nbCell struct {
	ID       string         `json:"id"`
	Kind     string         `json:"cell_type"`
	Source   string         `json:"source"`
	Metadata map[string]any `json:"metadata"`
	Count    *int           `json:"execution_count"`
	Outputs  []any          `json:"outputs"`
}

type nbStream struct {
	Type string `json:"output_type"`
	Name string `json:"name"`
	Text string `json:"text"`
}

type nbDisplay struct {
	Type     string            `json:"output_type"`
	Data     map[string]string `json:"data"`
	Metadata map[string]any    `json:"metadata"`
}

// shareRun makes a link to a copy of a run, and goes there.
func (p *sharePage) shareRun(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	run, err := p.Engine.GetRun(v.Context(), v.caller, id)
	if err != nil {
		return err
	}
	if !run.Status.Final() {
		return refuse(http.StatusConflict, "This run has not ended yet.", "Share it when it has.")
	}
	text, err := p.runNotebook(v, run)
	if err != nil {
		return err
	}
	title := run.Language
	if run.Source != nil && titleOf(run.Source.Code) != "" {
		title = titleOf(run.Source.Code)
	}
	file, err := p.store(v, v.FormValue("days"), title, text)
	if err != nil {
		return err
	}
	http.Redirect(w, v.Request, p.address("/share/"+shareLink(file)), http.StatusSeeOther)
	return nil
}

func (p *sharePage) runNotebook(v *webRequest, run *engine.Run) ([]byte, error) {
	one := 1
	cell := nbCell{ID: "run", Kind: "code", Metadata: map[string]any{}, Count: &one, Outputs: []any{}}
	if run.Source != nil {
		cell.Source = run.Source.Code
	}
	events, err := p.Engine.Watch(v.Context(), v.caller, run.ID, 0)
	if err != nil {
		return nil, err
	}
	left := sharedOutput
	for e := range events {
		if e.Type != engine.EventOutput || left <= 0 {
			continue
		}
		name := "stdout"
		if e.Stream == engine.Stderr {
			name = "stderr"
		}
		left -= len(e.Data)
		cell.Outputs = append(cell.Outputs, nbStream{"stream", name, strings.ToValidUTF8(e.Data, "\uFFFD")})
	}
	room := int64(sharedPicture)
	for _, f := range run.Files {
		if !shownImages[f.MIME] || f.Size > room {
			continue
		}
		room -= f.Size
		picture, err := p.picture(v, f)
		if err != nil {
			return nil, err
		}
		cell.Outputs = append(cell.Outputs, nbDisplay{"display_data",
			map[string]string{f.MIME: picture, "text/plain": named(fileName(f))}, map[string]any{}})
	}
	language := map[string]string{"js": "javascript", "ts": "typescript"}[run.Language]
	language = cmp.Or(language, run.Language)
	return json.Marshal(map[string]any{
		"nbformat": 4, "nbformat_minor": 5, "cells": []nbCell{cell},
		"metadata": map[string]any{"language_info": map[string]string{"name": language}},
	})
}

func (p *sharePage) picture(v *webRequest, f engine.File) (string, error) {
	_, content, err := p.Engine.OpenFile(v.Context(), v.caller, f.ID)
	if err != nil {
		return "", err
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, sharedPicture))
	return base64.StdEncoding.EncodeToString(raw), err
}
