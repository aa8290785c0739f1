package cli

import (
	"bytes"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/index"
)

// A backup that was cut off within a file is called a part of one, wherever it was cut.
func TestCutBackup(t *testing.T) {
	from := &app{cfg: &config.Config{Data: t.TempDir()}}
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content)
	if err := os.WriteFile(filepath.Join(from.cfg.Data, "large"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := index.Open(t.Context(), filepath.Join(from.cfg.Data, databases[0]), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if _, err := from.writeBackup(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{whole.Len() / 4, whole.Len() / 2, whole.Len() - 20} {
		to := &app{cfg: &config.Config{Data: t.TempDir()}}
		_, err := to.readBackup(t.Context(), io.LimitReader(bytes.NewReader(whole.Bytes()), int64(left)))
		if err == nil || !strings.Contains(err.Error(), "only a part of one") {
			t.Errorf("%d of %d bytes: %v", left, whole.Len(), err)
		}
	}
}
