package xai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// part is a part of an input message.
type part struct {
	Type     string `json:"type"` // "input_text", "input_file", "input_image", "output_text"
	Text     string `json:"text,omitempty"`
	FileID   string `json:"file_id,omitempty"`
	FileData string `json:"file_data,omitempty"` // instead of FileID: "data:...;base64,..."
	Filename string `json:"filename,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content []part `json:"content"`
}

// input returns the conversation as items. Every turn sends its files again.
func (t *turn) input(ctx context.Context) (items []json.RawMessage, err error) {
	given := map[string]bool{}
	add := func(m message) {
		b, _ := json.Marshal(m) // of strings
		items = append(items, b)
	}
	if t.r.Instructions != "" {
		add(message{"system", []part{{Type: "input_text", Text: t.r.Instructions}}})
	}
	left := t.c.options.PromptBytes
	for i, turn := range t.r.Input {
		if len(turn.Raw) > 0 && turn.Provider == provider.XAI {
			raw, err := exchange.Earlier[json.RawMessage](provider.XAI, turn)
			if err != nil {
				return nil, err
			}
			items = append(items, raw...)
			continue
		}
		if turn.Role == provider.RoleAssistant {
			add(message{"assistant", []part{{Type: "output_text", Text: turn.Text}}})
			continue
		}
		all := turn.Files
		last := i == len(t.r.Input)-1
		if last {
			all = append(all[:len(all):len(all)], t.r.Files...)
		}
		var parts []part
		for _, a := range all {
			key := a.File.Ref.ID + " " + a.File.SHA256
			if given[key] {
				continue
			}
			given[key] = true
			parts = append(parts, attached(a.File))
			text, err := t.copied(ctx, a.File, left)
			if err != nil {
				return nil, err
			}
			if text != "" {
				left -= len(text)
				parts = append(parts, part{Type: "input_text", Text: fmt.Sprintf("File %s:\n%s", a.File.Name, text)})
				if last {
					t.sink.Send(provider.Notice{Text: fmt.Sprintf(
						"The %d bytes of %s are copied into the prompt: xAI does not say whether code can read attached files.",
						len(text), a.File.Name)})
				}
			}
		}
		add(message{"user", append(parts, part{Type: "input_text", Text: turn.Text})})
	}
	return items, nil
}

// attached returns a file by its id, or its content if it was not uploaded.
func attached(f provider.FileInfo) part {
	if f.Ref.Scope == provider.ScopeInline {
		return part{Type: "input_file", Filename: f.Name, FileData: "data:" + f.MIME + ";base64," +
			base64.StdEncoding.EncodeToString(f.Ref.Inline)}
	}
	return part{Type: "input_file", FileID: f.Ref.ID}
}

// copied returns the text of a small file, or "".
func (t *turn) copied(ctx context.Context, f provider.FileInfo, most int) (string, error) {
	if t.r.Tool == provider.ToolNone || f.Size < 0 || f.Size > int64(most) || !isText(f.MIME) {
		return "", nil
	}
	if f.Ref.Scope == provider.ScopeInline {
		if !utf8.Valid(f.Ref.Inline) {
			return "", nil
		}
		return string(f.Ref.Inline), nil
	}
	body, _, err := t.c.Files().Open(ctx, f.Ref, 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	if err != nil {
		return "", provider.Failed(provider.XAI, "copy "+f.Name, err)
	}
	if len(data) > most || !utf8.Valid(data) {
		return "", nil
	}
	return string(data), nil
}

func isText(mime string) bool {
	for _, known := range []string{"text/", "application/json", "application/xml", "application/yaml",
		"application/x-yaml", "application/toml"} {
		if strings.HasPrefix(mime, known) {
			return true
		}
	}
	return false
}
