package e2b

import (
	"bytes"
	"encoding/json"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// compactJSON is connect's codec for JSON without the white space that protojson adds or not,
// depending on the binary: the same answer has the same bytes in all of them.
type compactJSON struct{ name string }

var _ connect.Codec = compactJSON{}

// Name implements connect.Codec.
func (c compactJSON) Name() string { return c.name }

// Marshal implements connect.Codec.
func (compactJSON) Marshal(message any) ([]byte, error) {
	text, err := protojson.Marshal(message.(proto.Message))
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// Unmarshal implements connect.Codec. Fields of later versions are ignored.
func (compactJSON) Unmarshal(text []byte, message any) error {
	if len(text) == 0 {
		return errors.New("zero-length payload is not a valid JSON object")
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message.(proto.Message))
}
