package pytool_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/airlock-run/airlock/pytool"
)

func TestFolder(t *testing.T) {
	directory := t.TempDir()
	f, err := pytool.OpenFolder(directory+"/files", "/api/chat/file/")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := t.Context()
	id, err := f.Save(ctx, "../x", "text/csv", strings.NewReader("1,2"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := f.Open(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(content)
	content.Close()
	if err != nil || string(text) != "1,2" || f.Link(id) != "/api/chat/file/"+id {
		t.Errorf("%q, %v, %s", text, err, f.Link(id))
	}
	if err := os.WriteFile(directory+"/secret", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"../secret", "", ".", "/etc/passwd", "nope", `..\secret`} {
		if content, err := f.Open(ctx, bad); err == nil {
			content.Close()
			t.Errorf("%q opens", bad)
		}
	}
	if _, err := f.Save(ctx, "x", "", iotest.ErrReader(errors.New("cut"))); err == nil {
		t.Error("no error for a file that was cut")
	}
	if left, _ := os.ReadDir(directory + "/files"); len(left) != 1 {
		t.Errorf("half a file is left: %v", left)
	}
}
