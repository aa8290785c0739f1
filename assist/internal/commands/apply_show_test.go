package commands

import (
	"os"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
)

// The commands that a receipt names work as they are, from the folder that the user is in.
func TestReceiptNamesCommandsThatWork(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	fits := &workspace.Proposal{Files: []workspace.FileChange{{Path: "a"}}}
	refused := &workspace.Proposal{Files: []workspace.FileChange{{Path: "a"},
		{Path: "../b", Findings: []workspace.Finding{{Severity: workspace.Refuse}}}}}
	unchanged := &workspace.Proposal{Files: []workspace.FileChange{{Path: "a", Op: workspace.OpUnchanged},
		refused.Files[1]}}
	result := &changes.Result{TxnID: "in", Undo: "out"}
	for _, c := range [][2]string{
		{receipt{Result: result}.undo(), "airlock undo out"},
		{receipt{Result: result, root: here}.undo(), "airlock undo out"},
		{receipt{Result: result, root: "/the site"}.undo(), "airlock undo out --root '/the site'"},
		{receipt{Result: result, proposal: fits}.approve(), "`airlock apply --approve in` carries it out"},
		{receipt{Result: result, proposal: refused}.approve(),
			"`airlock apply --approve in --best-effort` carries out the rest"},
		{receipt{Result: result, proposal: unchanged}.approve(), "Of the rest there is nothing to do"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}
