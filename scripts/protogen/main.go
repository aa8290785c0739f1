// Protogen generates the Go code of a file of Protocol Buffers into a folder: protogen FILE.proto FOLDER. It is a
// module of its own, so that its compiler is no requirement of Airlock.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(path, folder string) error {
	dir, name := filepath.Split(path)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return err
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      new("paths=source_relative"),
		ProtoFile: []*descriptorpb.FileDescriptorProto{
			protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto),
			protoutil.ProtoFromFileDescriptor(files[0]),
		},
	})
	if err != nil {
		return err
	}
	internal_gengo.GenerateFile(plugin, plugin.FilesByPath[name])
	for _, file := range plugin.Response().File {
		if err := os.WriteFile(filepath.Join(folder, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
