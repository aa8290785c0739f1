package pytool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Placement is the place of a packet on the page.
type Placement struct {
	TurnIndex    int  `json:"turn_index"`
	TabIndex     int  `json:"tab_index"`
	SubTurnIndex *int `json:"sub_turn_index"`
	ModelIndex   int  `json:"model_index"`
}

// Packet is a message to the page. A run sends a start, any number of deltas, of which the
// last may name files, and an end.
type Packet struct {
	Placement Placement `json:"placement"`
	Obj       any       `json:"obj"` // ArgumentDelta, ToolStart, ToolDelta or SectionEnd
}

// Line returns the packet on the wire: JSON and a newline.
func (p Packet) Line() []byte { return append(marshal(p), '\n') }

// ArgumentDelta shows code while the model writes it. The application sends it, from the
// provider's stream.
type ArgumentDelta struct {
	Type           string            `json:"type"`
	ToolType       string            `json:"tool_type"`
	ArgumentDeltas map[string]string `json:"argument_deltas"`
}

// NewArgumentDelta returns the packet for a piece of code.
func NewArgumentDelta(at Placement, code string) Packet {
	return Packet{at, ArgumentDelta{Type: "tool_call_argument_delta", ToolType: Name,
		ArgumentDeltas: map[string]string{"code": code}}}
}

// ToolStart begins a run on the page.
type ToolStart struct {
	Type string `json:"type"`
	Code string `json:"code"`
}

func newStart(at Placement, code string) Packet {
	return Packet{at, ToolStart{Type: "python_tool_start", Code: code}}
}

// ToolDelta adds output or files to a run on the page.
type ToolDelta struct {
	Type    string   `json:"type"`
	Stdout  string   `json:"stdout"`
	Stderr  string   `json:"stderr"`
	FileIDs []string `json:"file_ids"`
}

func newDelta(at Placement, stdout, stderr string, files ...string) Packet {
	return Packet{at, ToolDelta{Type: "python_tool_delta", Stdout: stdout, Stderr: stderr,
		FileIDs: append([]string{}, files...)}}
}

// SectionEnd ends a run on the page.
type SectionEnd struct {
	Type string `json:"type"`
}

func newEnd(at Placement) Packet { return Packet{at, SectionEnd{Type: "section_end"}} }

// Reload returns the packets that show an earlier run again, from its code and its JSON for
// the model.
func Reload(at Placement, code string, result string) ([]Packet, error) {
	var r Result
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		return nil, fmt.Errorf("the stored result cannot be read: %w", err)
	}
	var ids []string
	for _, f := range r.GeneratedFiles {
		ids = append(ids, f.FileLink[strings.LastIndexByte(f.FileLink, '/')+1:])
	}
	return []Packet{newStart(at, code), newDelta(at, r.Stdout, r.Stderr, ids...), newEnd(at)}, nil
}

// marshal returns JSON as the frontend expects it: compact, without escapes for < > &.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // our own types
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
