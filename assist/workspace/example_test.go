package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

// A reply of a model changes a folder: planned, shown, approved, committed,
// and undone.
func Example() {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(base)
	project := filepath.Join(base, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		panic(err)
	}

	store, err := workspace.OpenDir(filepath.Join(base, "state")) // outside of the folder
	if err != nil {
		panic(err)
	}
	defer store.Close()
	w, err := workspace.Open(ctx, project, workspace.Options{Store: store})
	if err != nil {
		panic(err)
	}

	answer := reply.Parse([]byte("```text:hello.txt\nhello, world\n```\n"))
	p, err := w.Plan(ctx, workspace.Origin{Kind: "reply"}, workspace.FromReply(answer)...)
	if err != nil {
		panic(err)
	}
	for i := range p.Files {
		fmt.Println(p.Files[i].Summary())
		fmt.Print(p.Files[i].Unified())
	}

	approval, err := p.Approve() // a person approved the shown proposal
	if err != nil {
		panic(err)
	}
	receipt, err := w.Commit(ctx, p, approval, workspace.CommitOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("created", receipt.FilesCreated)

	undo, err := w.Undo(ctx, receipt.Undo)
	if err != nil {
		panic(err)
	}
	if approval, err = undo.Approve(); err != nil {
		panic(err)
	}
	if receipt, err = w.Commit(ctx, undo, approval, workspace.CommitOptions{}); err != nil {
		panic(err)
	}
	fmt.Println("deleted", receipt.FilesDeleted)
	// Output:
	// create hello.txt (+1 -0)
	// --- /dev/null
	// +++ b/hello.txt
	// @@ -0,0 +1,1 @@
	// +hello, world
	// created [hello.txt]
	// deleted [hello.txt]
}
