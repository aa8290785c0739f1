package e2b

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// codec spells messages, which are plain structs, as protobuf does: as JSON, and in its
// binary form by the numbers in their tags. So there is no generated code, which would
// have several times the size of this folder.
type codec struct{ name string }

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c codec) Marshal(message any) ([]byte, error) {
	if c.name == "proto" {
		return appendMessage(nil, reflect.ValueOf(message).Elem()), nil
	}
	return json.Marshal(message)
}

// Unmarshal implements connect.Codec.
func (c codec) Unmarshal(text []byte, message any) error {
	if c.name == "proto" {
		return readMessage(text, reflect.ValueOf(message).Elem())
	}
	if len(text) == 0 {
		return errors.New("zero-length payload is not a valid JSON object")
	}
	return json.Unmarshal(text, message)
}

// field is a field of a message, by its tag.
func field(f reflect.StructField) (number protowire.Number, zigzag bool) {
	tag, option, _ := strings.Cut(f.Tag.Get("pb"), ",")
	n, err := strconv.Atoi(tag)
	if err != nil {
		panic("e2b: the field " + f.Name + " has no number")
	}
	return protowire.Number(n), option == "zigzag"
}

// isEnum reports whether a type is an enum, which is a struct with a number.
func isEnum(t reflect.Type) bool { return strings.HasPrefix(t.Name(), "enum[") }

func appendMessage(b []byte, m reflect.Value) []byte {
	for i := range m.NumField() {
		number, zigzag := field(m.Type().Field(i))
		b = appendField(b, number, zigzag, m.Field(i))
	}
	return b
}

func appendField(b []byte, number protowire.Number, zigzag bool, v reflect.Value) []byte {
	varint := func(b []byte, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
	}
	message := func(b []byte, v reflect.Value) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), appendMessage(nil, v))
	}
	if v.IsZero() {
		return b
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v = v.Elem(); v.Kind() == reflect.Struct {
			return message(b, v)
		}
		if v.IsZero() { // the zero value is encoded explicitly
			return protowire.AppendVarint(protowire.AppendTag(b, number, wireType(v)), 0)
		}
		return appendField(b, number, zigzag, v)
	case reflect.Struct:
		if isEnum(v.Type()) {
			return varint(b, uint64(v.Field(0).Int()))
		}
		return message(b, v)
	case reflect.String:
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v.String())
	case reflect.Bool:
		return varint(b, 1)
	case reflect.Uint32:
		return varint(b, v.Uint())
	case reflect.Int32, reflect.Int64:
		if zigzag {
			return varint(b, protowire.EncodeZigZag(v.Int()))
		}
		return varint(b, uint64(v.Int()))
	case reflect.Map:
		of := v.Interface().(map[string]string)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			pair := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
			pair = protowire.AppendString(protowire.AppendTag(pair, 2, protowire.BytesType), of[name])
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), pair)
		}
		return b
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v.Bytes())
		}
		for i := range v.Len() {
			if one := v.Index(i); one.Kind() == reflect.Struct {
				b = message(b, one)
			} else {
				b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), one.String())
			}
		}
		return b
	}
	panic("e2b: no binary form of " + v.Type().String())
}

func wireType(v reflect.Value) protowire.Type {
	if v.Kind() == reflect.String {
		return protowire.BytesType
	}
	return protowire.VarintType
}

func readMessage(b []byte, m reflect.Value) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		for i := range m.NumField() {
			if known, zigzag := field(m.Type().Field(i)); known == number {
				if err := readField(b[:size], kind, zigzag, m.Field(i)); err != nil {
					return fmt.Errorf("field %d: %w", number, err)
				}
			}
		}
		b = b[size:]
	}
	return nil
}

var errWireType = errors.New("a value of another type")

func readField(b []byte, kind protowire.Type, zigzag bool, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Bool || v.Kind() == reflect.Uint32 || v.Kind() == reflect.Int32 || v.Kind() == reflect.Int64 ||
		v.Kind() == reflect.Struct && isEnum(v.Type()) {
		if kind != protowire.VarintType {
			return errWireType
		}
		n, _ := protowire.ConsumeVarint(b)
		return setNumber(v, n, zigzag)
	}
	if kind != protowire.BytesType {
		return errWireType
	}
	text, _ := protowire.ConsumeBytes(b)
	switch {
	case v.Kind() == reflect.String:
		v.SetString(string(text))
	case v.Kind() == reflect.Struct:
		return readMessage(text, v)
	case v.Kind() == reflect.Map:
		var pair struct {
			Name  string `pb:"1"`
			Value string `pb:"2"`
		}
		if err := readMessage(text, reflect.ValueOf(&pair).Elem()); err != nil {
			return err
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(pair.Name), reflect.ValueOf(pair.Value))
	case v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes(slices.Clone(text))
	default:
		one := reflect.New(v.Type().Elem()).Elem()
		if err := readField(b, kind, zigzag, one); err != nil {
			return err
		}
		v.Set(reflect.Append(v, one))
	}
	return nil
}

func setNumber(v reflect.Value, n uint64, zigzag bool) error {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(n != 0)
	case reflect.Uint32:
		v.SetUint(uint64(uint32(n)))
	case reflect.Struct:
		v.Addr().Interface().(interface{ set(int32) }).set(int32(n))
	default:
		signed := int64(n)
		if zigzag {
			signed = protowire.DecodeZigZag(n)
		}
		v.SetInt(signed)
	}
	return nil
}
