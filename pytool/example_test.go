package pytool_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/airlock-run/airlock/pytool"
)

// interpreter stands for a service with the protocol of Onyx's code interpreter, such as Airlock
// at http://127.0.0.1:8000/onyx. Its runs print 42 and make total.txt.
func interpreter() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /onyx/health", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"status":"ok","version":"1.0.0"}`)
	})
	mux.HandleFunc("POST /onyx/v1/files", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"file_id":"in-1"}`)
	})
	mux.HandleFunc("POST /onyx/v1/execute/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: output\ndata: {\"stream\":\"stdout\",\"data\":\"42\\n\"}\n\n"+
			"event: result\ndata: {\"exit_code\":0,\"timed_out\":false,"+
			"\"files\":[{\"path\":\"total.txt\",\"kind\":\"file\",\"file_id\":\"out-1\"}]}\n\n")
	})
	mux.HandleFunc("GET /onyx/v1/execute", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMethodNotAllowed)
	})
	mux.HandleFunc("GET /onyx/v1/files/out-1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "42\n")
	})
	mux.HandleFunc("DELETE /onyx/v1/files/{id}", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// A chat application hands the tool's definition to its model, and each call
// that the model makes to Run, with the files of the chat.
func Example() {
	server := httptest.NewServer(interpreter())
	defer server.Close()
	service, err := pytool.NewService(server.URL+"/onyx", pytool.ServiceOptions{HTTP: server.Client()})
	if err != nil {
		panic(err)
	}
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
	ctx := context.Background()
	sales, err := store.Save(ctx, "sales.csv", "text/csv", strings.NewReader("40\n2\n"))
	if err != nil {
		panic(err)
	}

	tool, err := pytool.New(pytool.Options{Runner: service, Store: store})
	if err != nil {
		panic(err)
	}
	fmt.Println("available:", tool.Available(ctx).Available)
	result := tool.Run(ctx, pytool.Call{Arguments: []byte(`{"code":"sum_up('sales.csv')"}`),
		Files: []pytool.ChatFile{{ID: sales, Name: "sales.csv"}}}, nil)
	fmt.Printf("exit code %d, %q\n", *result.ExitCode, result.Stdout)
	for i, f := range result.GeneratedFiles {
		content, err := store.Open(ctx, result.FileIDs[i])
		if err != nil {
			panic(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			panic(err)
		}
		content.Close()
		fmt.Printf("%s: %q\n", f.Filename, text)
	}
	// Output:
	// available: true
	// exit code 0, "42\n"
	// total.txt: "42\n"
}

// Without a service the model gets a result that says so, and the page its packets.
func ExampleTool_Run() {
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
