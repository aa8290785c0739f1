package sqlite

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// What is said of a damaged file has none of its bytes as they are, and an end.
func TestDamageIsReadable(t *testing.T) {
	cause := errors.New("row \x1b[31m\xff\n of \"größe\"" + strings.Repeat("\x00", 10_000))
	err := Schema{Loss: "all"}.Damaged("index.db", cause)
	if !errors.Is(err, ErrDamaged) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	text := err.Error()
	odd := func(r rune) bool { return !strconv.IsGraphic(r) || r == '\ufffd' }
	if strings.ContainsFunc(text, odd) || len(text) > 1000 ||
		!strings.Contains(text, `of "größe"`) || !strings.Contains(text, "put back a backup") {
		t.Errorf("%q", text)
	}
}
