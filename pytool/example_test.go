package pytool_test

import (
	"context"
	"fmt"
	"os"

	"github.com/airlock-run/airlock/pytool"
)

// A chat application hands the tool's definition to its model, and each call
// that the model makes to Run.
func Example() {
	folder, err := os.MkdirTemp("", "chat-files-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	store, err := pytool.OpenFolder(folder, "https://chat.example/api/chat/file")
	if err != nil {
		panic(err)
	}
	defer store.Close()

	cfg, err := pytool.ReadConfig(func(name string) (string, bool) {
		return map[string]string{"CODE_INTERPRETER_BASE_URL": ""}[name], true
	})
	if err != nil {
		panic(err)
	}
	tool, err := pytool.New(pytool.Options{Config: cfg, Store: store})
	if err != nil {
		panic(err)
	}
	if at := tool.Available(context.Background()); !at.Available {
		fmt.Println(at.Reason)
	}
	result := tool.Run(context.Background(), pytool.Call{Arguments: []byte(`{"code":"print(1)"}`)}, func(p pytool.Packet) {
		fmt.Print(string(p.Line()))
	})
	fmt.Println(*result.ExitCode)
	// Output:
	// No code interpreter is set: CODE_INTERPRETER_BASE_URL is empty.
	// {"placement":{"turn_index":0,"tab_index":0,"sub_turn_index":null,"model_index":0},"obj":{"type":"python_tool_start","code":"print(1)"}}
	// {"placement":{"turn_index":0,"tab_index":0,"sub_turn_index":null,"model_index":0},"obj":{"type":"python_tool_delta","stdout":"","stderr":"No code interpreter is set: CODE_INTERPRETER_BASE_URL is empty.","file_ids":[]}}
	// {"placement":{"turn_index":0,"tab_index":0,"sub_turn_index":null,"model_index":0},"obj":{"type":"section_end"}}
	// -1
}

func ExampleConfig_Guidance() {
	cfg := pytool.DefaultConfig()
	fmt.Println(len(cfg.Guidance()) > 0)
	// Output: true
}
