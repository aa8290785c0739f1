package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/language"
)

// notebookEnding ends the name of a notebook.
const notebookEnding = ".ipynb"

// notebook is a document of Jupyter's format 4. What is not known of it stays as it was.
type notebook struct {
	document map[string]json.RawMessage
	cells    []map[string]json.RawMessage
}

// readNotebook parses a notebook.
func readNotebook(name string, text []byte) (*notebook, error) {
	n := &notebook{}
	var format int
	err := json.Unmarshal(text, &n.document)
	if err == nil {
		err = json.Unmarshal(n.document["nbformat"], &format)
	}
	if err == nil && format == 4 {
		err = json.Unmarshal(n.document["cells"], &n.cells)
	}
	switch {
	case err != nil:
		return nil, command.Fail(command.ExitUsage, "", "%s is not a notebook: %w", name, err)
	case format != 4:
		return nil, command.Fail(command.ExitUsage, "`jupyter nbconvert --to notebook` writes it in format 4",
			"%s has the notebook format %d, and 4 is read", name, format)
	}
	return n, nil
}

// isNotebook reports whether a text is a notebook, if of a format that is not read.
func isNotebook(text string) bool {
	var is struct{ NBFormat int }
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &is) == nil && is.NBFormat > 0
}

// language returns the language of the notebook's kernel, or "" if it has none of Airlock's.
func (n *notebook) language() string {
	var metadata struct {
		KernelSpec   struct{ Language, Name string } `json:"kernelspec"`
		LanguageInfo struct{ Name string }           `json:"language_info"`
	}
	_ = json.Unmarshal(n.document["metadata"], &metadata) // a notebook need not say it
	for _, name := range []string{metadata.LanguageInfo.Name, metadata.KernelSpec.Language, metadata.KernelSpec.Name} {
		if l, ok := language.Find(strings.ToLower(name)); ok {
			return l.Name
		}
	}
	if metadata.LanguageInfo.Name == "" && metadata.KernelSpec.Name == "" {
		return "python"
	}
	return ""
}

// code returns the code of a cell, and false if there is none to run.
func (n *notebook) code(i int) (string, bool) {
	var kind, code string
	var lines []string
	_ = json.Unmarshal(n.cells[i]["cell_type"], &kind)
	if json.Unmarshal(n.cells[i]["source"], &code) != nil && json.Unmarshal(n.cells[i]["source"], &lines) == nil {
		code = strings.Join(lines, "")
	}
	return code, kind == "code" && strings.TrimSpace(code) != ""
}

// mayFail reports whether a cell is to show an error.
func (n *notebook) mayFail(i int) bool {
	var metadata struct{ Tags []string }
	_ = json.Unmarshal(n.cells[i]["metadata"], &metadata)
	return slices.Contains(metadata.Tags, "raises-exception")
}

// put sets what a cell has printed and shown, and its number.
func (n *notebook) put(i, count int, outputs []client.Output) error {
	converted := []map[string]any{}
	for _, o := range outputs {
		converted = addOutput(converted, o, count)
	}
	for _, o := range converted {
		delete(o, "transient") // of messages, not of files
	}
	var err error
	if n.cells[i]["outputs"], err = encodeNotebook(converted); err == nil {
		n.cells[i]["execution_count"] = json.RawMessage(fmt.Sprint(count))
	}
	return err
}

// addOutput adds an output in the form of a notebook. Text of a stream goes on with what is there,
// and an update replaces what it updates.
func addOutput(all []map[string]any, o client.Output, count int) []map[string]any {
	metadata := o.Metadata
	if len(metadata) == 0 {
		metadata = json.RawMessage("{}")
	}
	switch o.Type {
	case client.OutputStdout, client.OutputStderr:
		if last := len(all) - 1; last >= 0 && all[last]["name"] == string(o.Type) {
			all[last]["text"] = all[last]["text"].(string) + o.Text
			return all
		}
		return append(all, map[string]any{"output_type": "stream", "name": string(o.Type), "text": o.Text})
	case client.OutputResult:
		return append(all, map[string]any{"output_type": "execute_result", "data": o.Data, "metadata": metadata,
			"execution_count": count})
	case client.OutputError:
		return append(all, map[string]any{"output_type": "error", "ename": o.Name, "evalue": o.Value,
			"traceback": append([]string{}, o.Traceback...)})
	case client.OutputDisplay:
		shown := map[string]any{"output_type": "display_data", "data": o.Data, "metadata": metadata}
		if o.DisplayID != "" {
			shown["transient"] = map[string]string{"display_id": o.DisplayID}
		}
		if i := slices.IndexFunc(all, func(old map[string]any) bool {
			id, _ := old["transient"].(map[string]string)
			return o.Update && id["display_id"] == o.DisplayID
		}); i >= 0 {
			all[i] = shown
			return all
		}
		return append(all, shown)
	}
	return all
}

// encode returns the notebook as a file.
func (n *notebook) encode() ([]byte, error) {
	cells, err := encodeNotebook(n.cells)
	if err != nil {
		return nil, err
	}
	n.document["cells"] = cells
	return encodeNotebook(n.document)
}

// encodeNotebook encodes a part of a notebook as Jupyter does.
func encodeNotebook(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(v)
	return b.Bytes(), err
}
