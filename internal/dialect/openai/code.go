package openai

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// codePrefix begins the id of a code_interpreter_call.
const codePrefix = "ci_"

const (
	mostPictures = 20       // of one call that become files of the container
	modelOutput  = 32 << 10 // bytes of a call's output that the model gets
	mostOutputs  = 16 << 20 // bytes of the outputs of all calls of one request
	endTime      = 10 * time.Second
)

// box is the container in which the code of a request runs.
type box struct {
	q     *request
	make  live.Request // creates the container, if there is none yet
	id    engine.ID
	files []insideFile // in the container
	made  []insideFile // made by this request and not yet cited, oldest first
	bytes int          // of outputs so far
}

// put adds an output, or a note if the answer has no room for it.
func (b *box) put(r *ran, o output) {
	if b.bytes += len(o.Logs) + len(o.URL); b.bytes > mostOutputs {
		b.bytes -= len(o.Logs) + len(o.URL)
		o = output{Type: "logs", Logs: "[... left out: the outputs of a response have at most 16 MiB ...]\n"}
	}
	r.outputs = append(r.outputs, o)
}

// open creates the container if there is none.
func (b *box) open(ctx context.Context) error {
	if !b.id.IsZero() {
		return nil
	}
	s, err := b.q.Live.Create(ctx, b.q.caller, b.make)
	if err == nil {
		b.id = s.ID
		b.q.see(seen{Session: s})
	}
	return err
}

func (b *box) name() string { return containerPrefix + b.id.String() }

// ran is the result of a call of the model.
type ran struct {
	cell    engine.ID
	status  string
	outputs []output
	reply   string // to the model
}

// run runs code. If ctx ends, run interrupts the code.
func (b *box) run(ctx context.Context, code string) (*ran, error) {
	_, maxima := b.q.Engine.Limits()
	cell, err := b.q.Live.Start(ctx, b.q.caller, b.id, live.CellRequest{Code: code, Timeout: maxima.Timeout})
	if err != nil {
		return nil, err
	}
	r := &ran{cell: cell.ID, status: "completed", outputs: []output{}}
	if cell, err = b.q.Live.Wait(ctx, b.q.caller, b.id, r.cell); err != nil {
		b.cancel(ctx, r.cell)
		return nil, err
	}
	switch cell.Status {
	case live.StatusLost, live.StatusTimeout, live.StatusInterrupted:
		r.status = "failed"
	}
	text := logs(&cell)
	if text != "" {
		b.put(r, output{Type: "logs", Logs: text})
	}
	made, err := b.keep(ctx, r, &cell)
	if err != nil {
		return nil, err
	}
	r.reply = replyOf(text, made, cell.Dropped)
	return r, nil
}

func (b *box) cancel(ctx context.Context, cell engine.ID) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	_ = b.q.Live.CancelCell(ctx, b.q.caller, b.id, cell) // its session may have been deleted
}

// keep records the files that a call made. Pictures that it showed become files too, so that
// clients find them by their citations.
func (b *box) keep(ctx context.Context, r *ran, cell *live.Cell) (made []insideFile, err error) {
	made = insideFiles(cell.Files)
	var shown []string // paths of the pictures
	for _, o := range cell.Outputs {
		kind, picture := pictureOf(&o)
		if kind == "" || len(shown) == mostPictures {
			continue
		}
		url := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(picture)
		b.put(r, output{Type: "image", URL: url})
		at := insidePrefix + engine.NewID().String() + "." + strings.TrimPrefix(kind, "image/")
		if _, err := b.q.Live.WriteFile(ctx, b.q.caller, b.id, at, bytes.NewReader(picture)); err != nil {
			return nil, err
		}
		shown = append(shown, at)
	}
	if len(shown) > 0 {
		_, files, err := b.q.container(containerPrefix + b.id.String())
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if slices.Contains(shown, f.at) {
				made = append(made, f)
			}
		}
	}
	for _, f := range made { // a file that was written again is cited once
		b.made = slices.DeleteFunc(b.made, func(g insideFile) bool { return g.at == f.at })
		b.made = append(b.made, f)
	}
	b.made = slices.DeleteFunc(b.made, func(f insideFile) bool { return slices.Contains(cell.Deleted, f.at) })
	return made, nil
}

func insideFiles(files []engine.File) (list []insideFile) {
	for _, f := range files {
		list = append(list, insideFile{f, f.Path})
	}
	return list
}

// pictureOf returns the picture of an output, if it has one.
func pictureOf(o *live.Output) (kind string, data []byte) {
	for _, kind := range []string{"image/png", "image/jpeg"} {
		var text string
		if json.Unmarshal(o.Data[kind], &text) != nil || o.Update {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		if err == nil {
			return kind, data
		}
	}
	return "", nil
}

// logs returns a cell's output in the form of OpenAI's logs: both streams in order, the
// value of the last expression, a traceback.
func logs(cell *live.Cell) string {
	var b strings.Builder
	line := func(text string) {
		if text != "" {
			b.WriteString(strings.TrimSuffix(text, "\n") + "\n")
		}
	}
	raised := false
	for _, o := range cell.Outputs {
		switch o.Type {
		case live.Stdout, live.Stderr:
			b.WriteString(o.Text)
		case live.Error:
			raised = true
			line(strings.Join(o.Traceback, "\n"))
		case live.Display, live.Result:
			var text string
			if kind, _ := pictureOf(&o); kind == "" && json.Unmarshal(o.Data["text/plain"], &text) == nil {
				line(text)
			}
		}
	}
	if cell.Restarted || cell.Status != live.StatusOK && cell.Status != live.StatusError {
		line(cell.Message)
	}
	// sys.exit leaves no traceback.
	if code := cell.ExitCode; cell.Status == live.StatusError && code != nil && !raised {
		if text := b.String(); text != "" && !strings.HasSuffix(text, "\n") {
			line("\n")
		}
		line(fmt.Sprintf("[exit code %d]", *code))
	}
	return b.String()
}

// replyOf returns the text about a call for the model.
func replyOf(text string, made []insideFile, dropped []engine.DroppedFile) string {
	var b strings.Builder
	b.WriteString(clip(text))
	if text == "" {
		b.WriteString("(no output)\n")
	}
	pictures := 0
	for i, f := range made {
		name := path.Base(f.at)
		switch {
		case strings.HasPrefix(name, insidePrefix):
			pictures++
		case i < mostPictures:
			fmt.Fprintf(&b, "[new file: [%s](sandbox:%s/%s)]\n", name, workspace, f.at)
		}
	}
	if pictures > 0 {
		fmt.Fprintf(&b, "[%d pictures are shown to the user]\n", pictures)
	}
	for i, f := range dropped {
		if i < mostPictures {
			fmt.Fprintf(&b, "[not kept: %s: %s]\n", f.Path, f.Reason)
		}
	}
	return b.String()
}

// clip shortens a text in its middle.
func clip(text string) string {
	if len(text) <= modelOutput {
		return text
	}
	return strings.ToValidUTF8(text[:modelOutput/2], "") + fmt.Sprintf("\n[... %d bytes left out ...]\n",
		len(text)-modelOutput) +
		strings.ToValidUTF8(text[len(text)-modelOutput/2:], "")
}

// cite returns the citations of a text: the files that it links and, for the last text of a
// response, all other files that were made, without a position. Positions count characters.
func (b *box) cite(text string, last bool) []map[string]any {
	list := []map[string]any{}
	cited := func(f insideFile, from, to int) {
		list = append(list, map[string]any{
			"type": "container_file_citation", "container_id": b.name(), "file_id": insidePrefix + f.ID.String(),
			"filename":    path.Base(f.at),
			"start_index": utf8.RuneCountInString(text[:from]), "end_index": utf8.RuneCountInString(text[:to]),
		})
	}
	b.made = slices.DeleteFunc(b.made, func(f insideFile) bool {
		if from, to, ok := linked(text, workspace+"/"+f.at); ok {
			cited(f, from, to)
			return true
		}
		return false
	})
	if last {
		for _, f := range b.made {
			cited(f, 0, 0)
		}
		b.made = nil
	}
	return list
}

// linked finds a link [name](sandbox:/mnt/data/name), or its address alone.
func linked(text, at string) (from, to int, ok bool) {
	address := "sandbox:" + at
	for rest := 0; ; {
		i := strings.Index(text[rest:], address)
		if i < 0 {
			return 0, 0, false
		}
		from, to = rest+i, rest+i+len(address)
		if to < len(text) && text[to] != ')' && text[to] != ' ' && text[to] != '\n' { // part of a longer name
			rest = to
			continue
		}
		if open := strings.LastIndexByte(text[:from], '['); open >= 0 && strings.HasSuffix(text[:from], "](") &&
			to < len(text) && text[to] == ')' {
			return open, to + 1, true
		}
		return from, to, true
	}
}
