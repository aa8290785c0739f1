package jupyter

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// subprotocol is the newer framing's name. The framings are described in
// jupyter_server's docs/source/developers/websocket-protocols.md.
const subprotocol = "v1.kernel.websocket.jupyter.org"

// request is a message of a client's. What is not an object is nil.
type request struct {
	channel string
	header  json.RawMessage // as sent, for the answers
	id      string
	kind    string
	content json.RawMessage
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

// readFrame reads a message in the framing of a connection. Buffers are left out: no
// request that is answered here has any.
func readFrame(kind websocket.MessageType, data []byte, v1 bool) (*request, error) {
	var parts struct {
		Channel string          `json:"channel"`
		Header  json.RawMessage `json:"header"`
		Content json.RawMessage `json:"content"`
	}
	switch {
	case v1:
		offsets, err := readOffsets(data, 8, le64)
		if err != nil || len(offsets) < 6 {
			return nil, errFrame
		}
		part := func(i int) []byte { return data[offsets[i]:offsets[i+1]] }
		parts.Channel, parts.Header, parts.Content = string(part(0)), part(1), part(4)
		if !json.Valid(parts.Header) || !json.Valid(parts.Content) {
			return nil, errFrame
		}
	case kind == websocket.MessageBinary:
		offsets, err := readOffsets(data, 4, func(b []byte) uint64 { return uint64(binary.BigEndian.Uint32(b)) })
		if err != nil {
			return nil, errFrame
		}
		end := uint64(len(data))
		if len(offsets) > 1 {
			end = offsets[1]
		}
		data = data[offsets[0]:end]
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
		content: parts.Content}, nil
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

// message is one to clients.
type message struct {
	channel string
	id      string
	kind    string
	header  json.RawMessage
	parent  json.RawMessage
	content json.RawMessage
	small   func() []*message // what a client gets that takes no large frame; nil: this
}

var none = json.RawMessage(`{}`)

// encode writes a message in a framing.
func (m *message) encode(v1 bool) (websocket.MessageType, []byte, error) {
	if !v1 {
		text := encode(wireMessage{
			Header: m.header, ID: m.id, Type: m.kind, ParentHeader: m.parent, Metadata: none, Content: m.content,
			Buffers: []json.RawMessage{}, Channel: m.channel,
		})
		return websocket.MessageText, text, nil
	}
	parts := [][]byte{[]byte(m.channel), m.header, m.parent, none, m.content}
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
	return websocket.MessageBinary, frame, nil
}

// size is about what a message takes in a frame.
func (m *message) size() int { return len(m.header) + len(m.parent) + len(m.content) + 256 }

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
