package provider_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/client"
)

// A turn, from the upload of a file to the quarantine of the files that code made. With another
// provider only the value of p differs.
func Example() {
	if err := turn(context.Background()); err != nil {
		fmt.Println(err, provider.HintOf(err))
	}
	// Output:
	// The total is in total.txt.
	// total.txt: 42
	// 2 objects are deleted at the provider, 0 are left
}

func turn(ctx context.Context) error {
	model := httptest.NewServer(http.HandlerFunc(answer))
	defer model.Close()
	sandbox := client.WithHandler(sandboxService(), client.Options{})
	defer sandbox.Close()
	web := provider.HTTPClient(provider.HTTPOptions{})
	defer web.CloseIdleConnections()
	p, err := local.New(local.Options{URL: model.URL + "/v1", Runner: local.NewServiceRunner(sandbox), HTTP: web})
	if err != nil {
		return err
	}

	// What is created at the provider is recorded first. The Ledger of package store
	// knows it after a crash, too.
	ledger, err := provider.OpenLedger(ctx, &provider.Memory{}, "conversation 1", provider.Retry{})
	if err != nil {
		return err
	}
	defer ledger.Close()
	whole := provider.Retried(ledger.Recorded(p), provider.Retry{}, nil)

	uploader := provider.Uploader{Provider: whole}
	staged, refused := uploader.Stage(ctx, []provider.Source{{Path: "sales.csv", Name: "sales.csv", Size: 5,
		Open: func() (io.ReadSeekCloser, error) { return memory{strings.NewReader("40\n2\n")}, nil }}})
	if len(refused) > 0 {
		return refused[0].Err
	}

	folder, err := os.MkdirTemp("", "quarantine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	quarantine, err := provider.OpenQuarantine(folder)
	if err != nil {
		return err
	}
	defer quarantine.Close()
	collector := provider.Collector{Quarantine: quarantine}
	tracker := provider.Tracker{Provider: whole, Clock: provider.SystemClock{}}
	if _, err := tracker.Ready(ctx, nil, nil); err != nil {
		return err
	}
	before, err := collector.Snapshot(ctx, whole, tracker.Session().ID)
	if err != nil {
		return err
	}
	files := []provider.Attachment{{File: staged[0].File}}
	result, err := tracker.Run(ctx, provider.RunRequest{
		Model:        "qwen3",
		Instructions: provider.Instruct(p.Name(), "qwen3", provider.ToolAuto, provider.HintsAuto),
		Input:        []provider.Turn{{Role: provider.RoleUser, Text: "Sum the sales up.", Files: files}},
		Files:        files, Tool: provider.ToolAuto,
	}, nil)
	if err != nil {
		return err
	}
	fmt.Println(result.Text)
	found, err := collector.Collect(ctx, whole, before, result)
	if err != nil {
		return err
	}
	for _, made := range found.Files {
		f, err := quarantine.Open(made.SHA256)
		if err != nil {
			return err
		}
		defer f.Close()
		content, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s", made.Name, content)
	}

	swept, err := ledger.Clean(context.WithoutCancel(ctx), p)
	fmt.Printf("%d objects are deleted at the provider, %d are left\n", len(swept.Deleted), len(swept.Left))
	return err
}

// memory is an open file in memory.
type memory struct{ io.ReadSeeker }

func (memory) Close() error { return nil }

// answer stands for a model: it calls run_python, and answers when it has the output.
func answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	delta, finish := `{"content":"The total is in total.txt."}`, "stop"
	if !strings.Contains(string(body), `"role":"tool"`) {
		delta = `{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"run_python",` +
			`"arguments":"{\"code\":\"sum_up()\"}"}}]}`
		finish = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":%s,"finish_reason":%q}]}`+"\n\ndata: [DONE]\n\n", delta, finish)
}

// sandboxService stands for an Airlock service: its runs make total.txt.
func sandboxService() http.Handler {
	var mu sync.Mutex
	files, contents := map[string]client.File{}, map[string]string{}
	add := func(name, content, run string) client.File {
		mu.Lock()
		defer mu.Unlock()
		sum := sha256.Sum256([]byte(content))
		f := client.File{ID: fmt.Sprintf("f%d", len(files)+1), Path: name, Name: name, Size: int64(len(content)),
			SHA256: hex.EncodeToString(sum[:]), Run: run}
		files[f.ID], contents[f.ID] = f, content
		return f
	}
	send := func(w io.Writer, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/files", func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		send(w, add(r.URL.Query().Get("name"), string(content), ""))
	})
	mux.HandleFunc("POST /api/v1/runs", func(w http.ResponseWriter, _ *http.Request) {
		exit := 0
		fmt.Fprint(w, "id: 1\nevent: result\ndata: ")
		send(w, client.Run{ID: "r1", Status: client.StatusOK, ExitCode: &exit,
			Files: []client.File{add("total.txt", "42\n", "r1")}})
		fmt.Fprint(w, "\n")
	})
	mux.HandleFunc("GET /api/v1/files", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all := []client.File{}
		for _, f := range files {
			all = append(all, f)
		}
		send(w, map[string]any{"files": all})
	})
	mux.HandleFunc("GET /api/v1/files/{id}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		send(w, files[r.PathValue("id")])
	})
	mux.HandleFunc("GET /api/v1/files/{id}/content", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, contents[r.PathValue("id")])
	})
	mux.HandleFunc("DELETE /api/v1/files/{id}", func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		delete(files, r.PathValue("id"))
	})
	return mux
}
