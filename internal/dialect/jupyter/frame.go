package jupyter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/wire"
)

// subprotocol is the newer framing's name. The framings are described in
// jupyter_server's docs/source/developers/websocket-protocols.md.
const subprotocol = "v1.kernel.websocket.jupyter.org"

// request is a message of a client. Members that are no objects are nil.
type request struct {
	channel  string
	header   json.RawMessage // as sent, for the answers
	id       string
	kind     string
	metadata json.RawMessage
	content  json.RawMessage
	buffers  [][]byte
}

// size returns the memory that a request takes while it waits.
func (r *request) size() int {
	size := len(r.header) + len(r.metadata) + len(r.content)
	for _, b := range r.buffers {
		size += len(b)
	}
	return size
}

// wireMessage is a message in the default framing.
type wireMessage struct {
	Header       json.RawMessage   `json:"header"`
	ID           string            `json:"msg_id"`
	Type         string            `json:"msg_type"`
	ParentHeader json.RawMessage   `json:"parent_header"`
	Metadata     json.RawMessage   `json:"metadata"`
	Content      json.RawMessage   `json:"content"`
	Buffers      []json.RawMessage `json:"buffers"`
	Channel      string            `json:"channel"`
}

// longestHeader is how long a header may be: each answer repeats it.
const longestHeader = 16 << 10

var errFrame = errors.New("no message of Jupyter's")

// readFrame reads a message in the framing of a connection. A binary frame of the default framing
// may come as text: the gateway client of jupyter_server passes it on so.
func readFrame(kind websocket.MessageType, data []byte, v1 bool) (*request, error) {
	var parts struct {
		Channel string          `json:"channel"`
		Header  json.RawMessage `json:"header"`
		Meta    json.RawMessage `json:"metadata"`
		Content json.RawMessage `json:"content"`
	}
	var buffers [][]byte
	switch {
	case v1:
		offsets, err := readOffsets(data, 8, le64)
		if err != nil || len(offsets) < 6 {
			return nil, errFrame
		}
		all := split(data, offsets)
		parts.Channel, parts.Header, parts.Meta, parts.Content = string(all[0]), all[1], all[3], all[4]
		if !json.Valid(parts.Header) || !json.Valid(parts.Content) {
			return nil, errFrame
		}
		if !json.Valid(parts.Meta) {
			parts.Meta = nil
		}
		buffers = all[5:]
	case kind == websocket.MessageBinary, len(data) > 0 && data[0] == 0:
		offsets, err := readOffsets(data, 4, be32)
		if err != nil {
			return nil, errFrame
		}
		all := split(data, append(offsets, uint64(len(data))))
		data, buffers = all[0], all[1:]
		fallthrough
	default:
		if err := json.Unmarshal(data, &parts); err != nil {
			return nil, errFrame
		}
	}
	var header struct {
		ID   string `json:"msg_id"`
		Type string `json:"msg_type"`
	}
	if err := json.Unmarshal(parts.Header, &header); err != nil || header.Type == "" ||
		len(parts.Header) > longestHeader || !utf8.Valid(parts.Header) {
		return nil, errFrame
	}
	parts.Channel = cmp.Or(parts.Channel, shell)
	return &request{channel: parts.Channel, header: parts.Header, id: header.ID, kind: header.Type,
		metadata: parts.Meta, content: parts.Content, buffers: buffers}, nil
}

// split returns the parts of a frame between offsets.
func split(data []byte, offsets []uint64) (parts [][]byte) {
	for i, from := range offsets[:len(offsets)-1] {
		parts = append(parts, data[from:offsets[i+1]])
	}
	return parts
}

// readOffsets reads the places of the parts of a binary frame: their number, and as
// many offsets from its start.
func readOffsets(data []byte, size int, number func([]byte) uint64) ([]uint64, error) {
	if len(data) < size {
		return nil, errFrame
	}
	count := number(data)
	if count == 0 || count > uint64(len(data)/size-1) {
		return nil, errFrame
	}
	offsets := make([]uint64, count)
	last := (count + 1) * uint64(size)
	for i := range offsets {
		offsets[i] = number(data[(i+1)*size:])
		if offsets[i] < last || offsets[i] > uint64(len(data)) {
			return nil, errFrame
		}
		last = offsets[i]
	}
	return offsets, nil
}

// channels of a kernel.
const (
	shell   = "shell"
	control = "control"
	stdin   = "stdin"
	iopub   = "iopub"
)

// message is a message to clients.
type message struct {
	channel string
	id      string
	kind    string
	header  json.RawMessage
	parent  json.RawMessage
	content json.RawMessage
	small   func() []*message // the form for a client without large frames; nil: this message

	metadata json.RawMessage // nil: none
	buffers  [][]byte
}

var none = json.RawMessage(`{}`)

// encode writes a message in a framing.
func (m *message) encode(v1 bool) (websocket.MessageType, []byte) {
	if !v1 {
		text := encode(wireMessage{
			Header: m.header, ID: m.id, Type: m.kind, ParentHeader: m.parent, Metadata: orNone(m.metadata),
			Content: m.content, Buffers: []json.RawMessage{}, Channel: m.channel,
		})
		if len(m.buffers) == 0 {
			return websocket.MessageText, text
		}
		return websocket.MessageBinary, binaryFrame(append([][]byte{text}, m.buffers...))
	}
	parts := append([][]byte{[]byte(m.channel), m.header, m.parent, orNone(m.metadata), m.content}, m.buffers...)
	at := uint64(8 * (len(parts) + 2))
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	frame = binary.LittleEndian.AppendUint64(frame, at)
	for _, part := range parts {
		at += uint64(len(part))
		frame = binary.LittleEndian.AppendUint64(frame, at)
	}
	for _, part := range parts {
		frame = append(frame, part...)
	}
	return websocket.MessageBinary, frame
}

// binaryFrame joins the parts of a message with buffers in the default framing.
func binaryFrame(parts [][]byte) []byte {
	at := 4 * (len(parts) + 1)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(parts)))
	for _, part := range parts {
		frame = binary.BigEndian.AppendUint32(frame, uint32(at))
		at += len(part)
	}
	for _, part := range parts {
		frame = append(frame, part...)
	}
	return frame
}

// size returns the approximate size of a message in a frame.
func (m *message) size() int {
	size := len(m.header) + len(m.parent) + len(m.metadata) + len(m.content) + 256
	for _, b := range m.buffers {
		size += len(b)
	}
	return size
}

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func be32(b []byte) uint64 { return uint64(binary.BigEndian.Uint32(b)) }

// Python's websockets, which Open WebUI and AutoGen use, closes a connection at a frame of more
// than 1 MiB (open-webui#11635). Clients that are not known to accept more get messages of at most
// smallFrame; maxContent leaves space for the rest of a frame.
const (
	smallFrame = 1<<20 - 64<<10
	maxContent = smallFrame - 40<<10
	maxPicture = 700 << 10 // of base64
)

// limit adds the form of a message for clients that accept no large frame.
func (m *message) limit() *message {
	if m.size() > maxContent && m.small == nil {
		m.small = sync.OnceValue(func() []*message { return []*message{m.instead(framesOnly)} })
	}
	return m
}

// framesOnly and textOnly say why a connection does not get a message.
const (
	framesOnly = "this connection takes frames of 1 MiB"
	textOnly   = "the gateway client of this Jupyter server passes no binary frames on"
)

// instead returns a replacement for a message that a connection cannot take. A reply stays a reply.
func (m *message) instead(why string) *message {
	other := *m
	other.small = nil
	other.metadata, other.buffers = nil, nil
	note := fmt.Sprintf("[%s of %d bytes left out: %s]\n", m.kind, m.size(), why)
	switch {
	case m.kind == "execute_input":
		var content map[string]any
		_ = json.Unmarshal(m.content, &content) // the content was encoded here
		code, _ := content["code"].(string)
		content["code"] = strings.ToValidUTF8(code[:min(len(code), maxText)], "") + "\n..."
		other.content = encode(content)
	case strings.HasSuffix(m.kind, "_reply"):
		other.content = encode(failure("TooLarge", note))
	default:
		other.kind, other.content = "stream", encode(map[string]string{"name": "stderr", "text": note})
		other.header = bytes.Replace(m.header, []byte(`"`+m.kind+`"`), []byte(`"stream"`), 1)
	}
	return &other
}

// smaller returns a display for those clients: with smaller pictures, or without MIME types that
// are too large, which a line on stderr reports.
func (o *output) smaller(kind string, content displayContent, number int) []*message {
	data, notes, room := map[string]json.RawMessage{}, "", maxContent-len(content.Metadata)-1024
	for _, form := range inOrder(content.Data) {
		value := content.Data[form]
		if strings.HasPrefix(form, "image/") && form != "image/svg+xml" && len(value) > min(maxPicture, room) {
			var saved string
			if value, saved = o.picture(form, value, number); value != nil && saved != "" {
				notes += fmt.Sprintf("[a picture was made smaller for this connection, which takes frames of 1 MiB; "+
					"the whole one is the file %s]\n", saved)
			}
		}
		if value == nil || len(value) > room {
			notes += fmt.Sprintf("[%s of %d bytes left out: %s]\n", form, len(content.Data[form]), framesOnly)
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

// inOrder returns the forms of a value, pictures and plain text first. The other forms may
// not fit.
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

// picture makes a picture smaller and saves the original as a file of the kernel.
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
	data, kind, err := wire.Shrink(raw, wire.PictureBounds{Side: 2048, Bytes: maxPicture / 4 * 3,
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
