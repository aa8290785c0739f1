package jupyter

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// Python's websockets, with which Open WebUI and AutoGen read, ends a connection at a
// frame of more than 1 MiB (open-webui#11635). Whoever is not known to take more gets
// messages of at most smallFrame; mostContent leaves room for the rest of a frame.
const (
	smallFrame  = 1<<20 - 64<<10
	mostContent = smallFrame - 40<<10
	mostPicture = 700 << 10 // of base64
)

// limit gives a message what clients get that take no large frame.
func (m *message) limit() *message {
	if len(m.content) > mostContent && m.small == nil {
		m.small = sync.OnceValue(func() []*message { return []*message{m.instead()} })
	}
	return m
}

// instead is a message in place of one that is too large. Of a request's answer there
// is always one.
func (m *message) instead() *message {
	other := *m
	other.small = nil
	note := fmt.Sprintf("[%s of %d bytes left out: this connection takes frames of 1 MiB]\n", m.kind, len(m.content))
	switch {
	case m.kind == "execute_input":
		var content map[string]any
		_ = json.Unmarshal(m.content, &content) // it is ours
		code, _ := content["code"].(string)
		content["code"] = strings.ToValidUTF8(code[:min(len(code), mostText)], "") + "\n..."
		other.content = encode(content)
	case strings.HasSuffix(m.kind, "_reply"):
		other.content = encode(failure("TooLarge", note))
	default:
		other.kind, other.content = "stream", encode(map[string]string{"name": "stderr", "text": note})
		other.header = bytes.Replace(m.header, []byte(`"`+m.kind+`"`), []byte(`"stream"`), 1)
	}
	return &other
}

// smaller is a display for those clients: its pictures smaller, or without a form
// that is too large, which a line on stderr says.
func (o *output) smaller(kind string, content displayContent, number int) []*message {
	data, notes, room := map[string]json.RawMessage{}, "", mostContent-len(content.Metadata)-1024
	for _, form := range inOrder(content.Data) {
		value := content.Data[form]
		if strings.HasPrefix(form, "image/") && form != "image/svg+xml" && len(value) > min(mostPicture, room) {
			var saved string
			if value, saved = o.picture(form, value, number); value != nil && saved != "" {
				notes += fmt.Sprintf("[a picture was made smaller for this connection, which takes frames of 1 MiB; "+
					"the whole one is the file %s]\n", saved)
			}
		}
		if value == nil || len(value) > room {
			notes += fmt.Sprintf("[%s of %d bytes left out: this connection takes frames of 1 MiB]\n", form,
				len(content.Data[form]))
			continue
		}
		data[form] = value
		room -= len(value)
	}
	content.Data = data
	list := []*message{o.kernel.message(iopub, kind, o.request.header, content)}
	if notes != "" {
		list = append(list, o.kernel.message(iopub, "stream", o.request.header,
			map[string]string{"name": "stderr", "text": notes}))
	}
	return list
}

// inOrder returns the forms of a value, pictures and plain text first: of the others
// there may be no room.
func inOrder(data map[string]json.RawMessage) []string {
	var first, rest []string
	for form := range data {
		if strings.HasPrefix(form, "image/") || form == "text/plain" {
			first = append(first, form)
		} else {
			rest = append(rest, form)
		}
	}
	return append(first, rest...)
}

// picture makes a picture smaller and keeps the whole one as a file of the kernel's.
func (o *output) picture(form string, value json.RawMessage, number int) (small json.RawMessage, saved string) {
	s := o.kernel.server
	var text string
	if json.Unmarshal(value, &text) != nil {
		return nil, ""
	}
	raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, ""
	}
	s.decoding.Lock()
	data, kind, err := wire.Shrink(raw, wire.PictureBounds{Side: 2048, Bytes: mostPicture / 4 * 3,
		JPEG: form == "image/jpeg"})
	s.decoding.Unlock()
	if err != nil || kind != form {
		return nil, ""
	}
	saved = fmt.Sprintf("picture-%d-%d.%s", o.count, number, strings.TrimPrefix(form, "image/"))
	ctx, cancel := context.WithTimeout(s.life, 10*time.Second)
	defer cancel()
	if _, err := s.Live.WriteFile(ctx, o.kernel.caller, o.kernel.id, saved, bytes.NewReader(raw)); err != nil {
		s.Log.Warn("a picture could not be kept", "session", o.kernel.id, "error", err)
		saved = ""
	}
	return encode(base64.StdEncoding.EncodeToString(data)), saved
}
