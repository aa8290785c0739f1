package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/pytool"
)

// toolFiles is the service's store as the tool's FileStore.
type toolFiles struct {
	*local.ServiceRunner
	client *client.Client
	base   string // of links: "https://host/api/v1/files"
}

var _ pytool.FileStore = (*toolFiles)(nil)

// Open implements pytool.FileStore.
func (f *toolFiles) Open(ctx context.Context, id string) (io.ReadCloser, error) {
	return f.Download(ctx, id)
}

// Save implements pytool.FileStore.
func (f *toolFiles) Save(ctx context.Context, name, _ string, content io.Reader) (string, error) {
	file, err := f.client.Upload(ctx, name, content, 0)
	if err != nil {
		return "", err
	}
	return file.ID, nil
}

// Link implements pytool.FileStore.
func (f *toolFiles) Link(id string) string { return f.base + "/" + id }

// inProcess is a runner on a service in this process, whose API has no route for Health.
type inProcess struct {
	*local.ServiceRunner
	engine *engine.Service
}

// Health implements pytool.Runner.
func (r inProcess) Health(ctx context.Context) pytool.Health {
	return healthOf{engine: r.engine}.Health(ctx)
}

// A whole turn of the tool on the engine in this process: a file of the chat
// goes in, what the program makes comes into the store, and its copy is gone.
func TestToolInProcess(t *testing.T) {
	caller := engine.Caller{Owner: engine.Local}
	service := enginetest.Start(t, engine.Config{}, sandboxtest.NewFake(dialecttest.Script))
	a := &app{App: &command.App{Config: &config.Config{MaxUpload: 1 << 20}, Log: slog.New(slog.DiscardHandler)}}
	c := a.inProcess(service, caller)
	defer c.Close()
	runner := inProcess{local.NewServiceRunner(c), service}
	files := &toolFiles{runner.ServiceRunner, c, "https://host/api/v1/files"}
	input, err := files.Save(t.Context(), "sales.csv", "text/csv", strings.NewReader("1,2"))
	if err != nil {
		t.Fatal(err)
	}
	tool, err := pytool.New(pytool.Options{Store: files, Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	if at := tool.Available(t.Context()); !at.Available {
		t.Errorf("%+v", at)
	}
	run := func(ctx context.Context, arguments string) (pytool.Result, string) {
		var wire strings.Builder
		result := tool.Run(ctx, pytool.Call{Arguments: []byte(arguments),
			Files: []pytool.ChatFile{{ID: input, Name: "sales.csv"}}},
			func(p pytool.Packet) { wire.Write(p.Line()) })
		return result, wire.String()
	}

	result, _ := run(t.Context(), `{"code":"inputs\ncat sales.csv\nwrite out/copy.csv 1,2\nexit 0"}`)
	if result.Stdout != "sales.csv\n1,2" || *result.ExitCode != 0 || len(result.FileIDs) != 1 {
		t.Fatalf("%s", result.JSON())
	}
	want := []pytool.GeneratedFile{{Filename: "copy.csv", FileLink: "https://host/api/v1/files/" + result.FileIDs[0]}}
	if diff := cmp.Diff(want, result.GeneratedFiles); diff != "" {
		t.Error(diff)
	}
	kept, err := service.ListFiles(t.Context(), caller, engine.FileQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 3 { // the chat's, its staged copy, and what the store saved
		t.Errorf("%d files are kept: %+v", len(kept), kept)
	}

	for code, want := range map[string]string{
		`timeout`: "airlock: the program may take 1 min. Do less at once, or ask for up to 5 min (`--timeout`, field " +
			"timeout_ms).\n[The program ran longer than 1 min and was stopped.]\n",
		`err x\nexit 3`: "x\n",
		`fault`:         "The sandbox failed, so that the outcome is not known.",
	} {
		result, wire := run(t.Context(), `{"code":"`+code+`"}`)
		if result.Stderr != want || !strings.HasSuffix(wire, "section_end\"}}\n") {
			t.Errorf("%s: %s", code, result.JSON())
		}
	}

	// A value at the end is echoed, whoever runs the code.
	if result, _ := run(t.Context(), `{"code":"spec"}`); !strings.Contains(result.Stdout, "echo=true") {
		t.Errorf("the last value is not echoed: %s", result.JSON())
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, _ := run(ctx, `{"code":"wait"}`); *result.ExitCode != -1 {
		t.Errorf("of a user who left: %s", result.JSON())
	}
}
