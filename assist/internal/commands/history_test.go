package commands

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
)

func TestLogOfBestEffort(t *testing.T) {
	receipt := &workspace.Receipt{FilesCreated: []string{"new"}, FilesUpdated: []string{"old"},
		FilesDeleted: []string{"gone"}, FilesRenamed: []workspace.Renamed{{From: "before", To: "after"}}}
	shown := transactionOf(workspace.Transaction{Record: &workspace.Record{Receipt: receipt}})
	want := []string{"create new", "update old", "delete gone", "rename before to after"}
	if diff := cmp.Diff(want, shown.Files); diff != "" {
		t.Error(diff)
	}
}

func TestUndoTellsOfKeptBytes(t *testing.T) {
	receipt := &workspace.Receipt{Undo: "t2", FilesUpdated: []string{"a.txt"},
		Kept: []workspace.KeptBytes{{Path: "a.txt"}}}
	var out strings.Builder
	undoReport{Receipt: receipt}.WriteText(&command.Page{Writer: &out})
	if !strings.Contains(out.String(), "a.txt was written by another program") {
		t.Errorf("the report is\n%s", out.String())
	}
}
