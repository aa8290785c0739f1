package workspace_test

import (
	"testing"

	"github.com/airlock-run/airlock/workspace"
	"github.com/airlock-run/airlock/workspace/workspacetest"
)

func TestDir(t *testing.T) {
	workspacetest.TestStore(t, func(t *testing.T, dir string) workspace.Store {
		s, err := workspace.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}
