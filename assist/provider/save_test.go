package provider_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
)

func TestSaveChecksInputs(t *testing.T) {
	dir := t.TempDir()
	data := []byte("new\n")
	sha := workspace.Sum(data).String()
	if err := os.WriteFile(filepath.Join(dir, sha), data, 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := provider.OpenQuarantine(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	approved := []provider.Artifact{{Name: "a.csv", SHA256: sha, Size: int64(len(data))}}
	inputs := []provider.Staged{{Path: "sub/a.csv", SHA256: "sent"}}
	for now, ok := range map[string]bool{"sent": true, "edited since": false} {
		changes, files, err := provider.Save(t.Context(), q, approved, "sub", workspace.ClashReplace, inputs,
			func(string) (string, error) { return now, nil })
		if ok != (err == nil) || !ok && provider.KindOf(err) != provider.Invalid {
			t.Errorf("the input is %q: %v", now, err)
		}
		if ok {
			if len(changes) != 1 || changes[0].Path != "sub/a.csv" || !changes[0].Exact ||
				changes[0].Content.Hash().String() != sha {
				t.Errorf("changes %+v", changes)
			}
			if err := files.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, _, err := provider.Save(t.Context(), q, []provider.Artifact{
		{Name: "x", SHA256: workspace.Sum([]byte("other")).String()}}, "", workspace.ClashRefuse, nil, nil); err == nil {
		t.Error("what is not held was saved")
	}
}
