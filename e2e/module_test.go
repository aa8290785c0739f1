package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that imports a library gets the modules that it is built from, and no more: each is a
// line in that program's go.mod.
func TestRequirementsOfPublicPackages(t *testing.T) {
	t.Parallel()
	const sync = "golang.org/x/sync"
	folders := []string{"github.com/aymanbagabas/go-udiff", "github.com/bmatcuk/doublestar/v4",
		"github.com/gabriel-vasile/mimetype", "github.com/klauspost/compress", "golang.org/x/sys", "golang.org/x/text"}
	for name, want := range map[string][]string{
		"client": nil, "assist/reply": nil, "assist/assignment": nil,
		"pytool":           {sync},
		"assist/workspace": folders,
		"assist/provider":  append(slices.Clone(folders), sync),
	} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+name)
		list.Dir = ".."
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		modules := strings.Fields(string(out))
		slices.Sort(modules)
		for _, m := range slices.Compact(modules) {
			if m != "github.com/airlock-run/airlock" && !slices.Contains(want, m) {
				t.Errorf("%s requires %s", name, m)
			}
		}
	}
}

// A program of somebody else's, in a module of its own, can use what is
// public, and the compiler agrees that nothing internal shows in it.
func TestPublicPackagesFromAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string]string{
		"go.sum": string(sums),
		"go.mod": "module example.org/other\n\ngo 1.26.5\n\nrequire github.com/airlock-run/airlock v0.0.0\n\n" +
			"replace github.com/airlock-run/airlock => " + root + "\n",
		"main.go": `package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/metrics"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/xai"
	"github.com/airlock-run/airlock/pytool"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

func change(ctx context.Context, text []byte) error {
	read := reply.Parse(text)
	batch := assignment.NewBatch(read.Blocks(), assignment.Source{})
	fmt.Println(batch)
	store, err := workspace.OpenDir(os.TempDir())
	if err != nil {
		return err
	}
	folder, err := workspace.Open(ctx, ".", workspace.Options{Store: store})
	if err != nil {
		return err
	}
	_, err = folder.Plan(ctx, workspace.Origin{}, workspace.FromReply(read)...)
	return err
}

// A store of an application's own.
type files struct{}

func (files) Open(context.Context, string) (io.ReadCloser, error) { return nil, io.EOF }
func (files) Save(context.Context, string, string, io.Reader) (string, error) { return "1", nil }
func (files) Link(id string) string { return "/files/" + id }

func tool() string {
	cfg, err := pytool.ReadConfig(os.LookupEnv)
	if err != nil {
		panic(err)
	}
	t, err := pytool.New(pytool.Options{Config: cfg, Store: files{}})
	if err != nil {
		panic(err)
	}
	if at := t.Available(context.Background()); !at.Available {
		return at.Reason + " " + at.Cure
	}
	call := pytool.Call{Arguments: []byte(` + "`{\"code\":\"1+1\"}`" + `), Files: []pytool.ChatFile{{ID: "1", Name: "a.csv"}}}
	result := t.Run(context.Background(), call, func(p pytool.Packet) { os.Stdout.Write(p.Line()) })
	return cfg.Guidance() + string(pytool.Definition()) + result.JSON() + pytool.Reminder(result.GeneratedFiles)
}

// A sandbox of an application's own.
type sandbox struct{ local.Runner }

// ask runs a turn at any provider, fetches what code made, and leaves nothing
// behind.
func ask(ctx context.Context, name string, store provider.LedgerStore) (*provider.Collection, error) {
	p, err := map[string]func() (provider.Provider, error){
		provider.OpenAI:    func() (provider.Provider, error) { return openai.New(openai.Options{Key: "k"}) },
		provider.Anthropic: func() (provider.Provider, error) { return anthropic.New(anthropic.Options{Key: "k"}) },
		provider.Gemini:    func() (provider.Provider, error) { return gemini.New(gemini.Options{Key: "k"}) },
		provider.XAI:       func() (provider.Provider, error) { return xai.New(xai.Options{Key: "k"}) },
		provider.Local:     func() (provider.Provider, error) { return local.New(local.Options{URL: "http://localhost:11434/v1", Runner: sandbox{}}) },
	}[name]()
	if err != nil {
		return nil, err
	}
	ledger, err := provider.OpenLedger(ctx, store, "c", provider.Retry{})
	if err != nil {
		return nil, err
	}
	defer ledger.Close()
	defer ledger.Clean(context.WithoutCancel(ctx), p)
	var counters provider.Counters
	_ = metrics.New(metrics.Counting(&counters))
	whole := provider.Retried(ledger.Recorded(p), provider.Retry{}, &counters)
	tracker := provider.Tracker{Provider: whole, Clock: provider.SystemClock{}, Counters: &counters}
	result, err := tracker.Run(ctx, provider.RunRequest{Model: "m", Input: []provider.Turn{{Role: provider.RoleUser, Text: "go"}}}, func(e provider.Event) {
		if d, ok := e.(provider.TextDelta); ok {
			fmt.Print(d.Text)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, provider.HintOf(err))
	}
	q, err := provider.OpenQuarantine(os.TempDir())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	return (&provider.Collector{Quarantine: q, Counters: &counters}).Collect(ctx, whole, nil, result)
}

func main() {
	fmt.Println(ask(context.Background(), provider.OpenAI, nil))
	fmt.Println(tool(), change(context.Background(), nil))
	c, err := client.New(client.Options{Server: "http://127.0.0.1:8000"})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	file, err := c.Upload(context.Background(), "in.txt", strings.NewReader("hello"), 0)
	if err != nil {
		panic(err)
	}
	run, err := c.Run(context.Background(), client.RunRequest{Language: "bash", Code: "cat in.txt", Files: []client.FileRef{{ID: file.ID}}})
	if err != nil {
		panic(err)
	}
	fmt.Print(run.Stdout)
}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", "./...")
	vet.Dir = folder
	vet.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
