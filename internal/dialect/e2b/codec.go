package e2b

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// codec encodes messages, which are plain structs in the form of protobuf's JSON. Package dynamicpb
// translates between that and the binary form, by the numbers in the tags of the fields. So there is
// no generated code, which would have several times the size of this folder.
type codec struct{ name string }

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c codec) Marshal(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil || c.name != "proto" {
		return text, err
	}
	m := dynamicpb.NewMessage(descriptorOf(message))
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal implements connect.Codec. JSON is read by package protojson too: it accepts every
// spelling of a value.
func (c codec) Unmarshal(text []byte, message any) error {
	m := dynamicpb.NewMessage(descriptorOf(message))
	read := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal
	if c.name == "proto" {
		read = proto.Unmarshal
	}
	if err := read(text, m); err != nil {
		return err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, message)
}

// descriptors has what descriptorOf has made, by reflect.Type.
var descriptors sync.Map

// descriptorOf returns the descriptor of the type of a message.
func descriptorOf(message any) protoreflect.MessageDescriptor {
	t := reflect.TypeOf(message).Elem()
	if known, ok := descriptors.Load(t); ok {
		return known.(protoreflect.MessageDescriptor)
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: new("e2b.proto"), Dependency: []string{timestamppb.File_google_protobuf_timestamp_proto.Path()},
	}
	describeMessage(file, t)
	made, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		panic(fmt.Sprintf("e2b: the type %v is no message: %v", t, err))
	}
	descriptors.Store(t, made.Messages().Get(0))
	return made.Messages().Get(0)
}

// describeMessage adds a message to a file, and returns its name.
func describeMessage(file *descriptorpb.FileDescriptorProto, t reflect.Type) string {
	m := &descriptorpb.DescriptorProto{Name: new("Message" + strconv.Itoa(len(file.MessageType)))}
	file.MessageType = append(file.MessageType, m)
	for i := range t.NumField() {
		m.Field = append(m.Field, describeField(file, m, t.Field(i)))
	}
	return "." + *m.Name
}

var scalars = map[reflect.Kind]descriptorpb.FieldDescriptorProto_Type{
	reflect.Bool:   descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	reflect.Int32:  descriptorpb.FieldDescriptorProto_TYPE_SINT32, // the one that there is
	reflect.Int64:  descriptorpb.FieldDescriptorProto_TYPE_INT64,
	reflect.Uint32: descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	reflect.String: descriptorpb.FieldDescriptorProto_TYPE_STRING,
}

func describeField(
	file *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto, f reflect.StructField,
) *descriptorpb.FieldDescriptorProto {
	number, err := strconv.ParseInt(f.Tag.Get("pb"), 10, 32)
	if err != nil {
		panic("e2b: the field " + f.Name + " has no number")
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	d := &descriptorpb.FieldDescriptorProto{Name: &name, JsonName: &name, Number: new(int32(number)),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	message := func(name string) {
		d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), &name
	}
	t := f.Type
	if t == reflect.TypeFor[[]byte]() {
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		return d
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	named, isEnum := reflect.Zero(t).Interface().(enum)
	switch {
	case t == reflect.TypeFor[time.Time]():
		message(".google.protobuf.Timestamp")
	case isEnum:
		e := &descriptorpb.EnumDescriptorProto{Name: new(name + "Enum")}
		for number, name := range named.names() {
			if name != "" {
				e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: &name, Number: new(int32(number))})
			}
		}
		m.EnumType = append(m.EnumType, e)
		d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), new("."+*m.Name+"."+*e.Name)
	case t.Kind() == reflect.Struct:
		message(describeMessage(file, t))
	case t.Kind() == reflect.Map: // of strings
		entry := &descriptorpb.DescriptorProto{Name: new(strings.ToUpper(name[:1]) + name[1:] + "Entry"),
			Options: &descriptorpb.MessageOptions{MapEntry: new(true)}}
		for i := range reflect.TypeFor[mapEntry]().NumField() {
			entry.Field = append(entry.Field, describeField(file, entry, reflect.TypeFor[mapEntry]().Field(i)))
		}
		m.NestedType = append(m.NestedType, entry)
		message("." + *m.Name + "." + *entry.Name)
	default:
		d.Type = scalars[t.Kind()].Enum()
	}
	return d
}

// mapEntry is an entry of a map.
type mapEntry struct {
	Key   string `json:"key" pb:"1"`
	Value string `json:"value" pb:"2"`
}

// enum is a value that JSON spells by name and protobuf by number.
type enum interface{ names() []string } // by number
