package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A program of somebody else's, in a module of its own, can use what is
// public, and the compiler agrees that nothing internal shows in it.
func TestPublicPackagesFromAnotherModule(t *testing.T) {
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
		"go.mod": "module example.org/other\n\ngo 1.26.5\n\nrequire github.com/airlock-run/airlock v0.0.0\n\nreplace github.com/airlock-run/airlock => " + root + "\n",
		"main.go": `package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/client"
)

func main() {
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
	vet.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
