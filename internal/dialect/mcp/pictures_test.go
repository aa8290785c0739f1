package mcp

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/wire"
)

// A host's model sees a picture, and a person gets a link, unless the client fails on
// links.
func TestPictures(t *testing.T) {
	r := newRig(t)
	code := map[string]any{"code": "plot 3000 1500\nplot 10 10\nplot 10 10\nmake größe (1).txt"}
	kinds := func(result *sdk.CallToolResult) (kinds []string) {
		for _, c := range result.Content {
			switch c := c.(type) {
			case *sdk.TextContent:
				kinds = append(kinds, "text")
			case *sdk.ImageContent:
				kinds = append(kinds, c.MIMEType)
				if len(c.Data) > maxShown {
					t.Errorf("%d bytes", len(c.Data))
				}
			case *sdk.ResourceLink:
				kinds = append(kinds, "link")
				if !regexp.MustCompile(`^airlock://sessions/s_[A-Za-z0-9_-]{21}/files/gr%C3%B6%C3%9Fe%20%281%29.txt$`).MatchString(c.URI) &&
					!strings.HasSuffix(c.URI, "/files/gr%C3%B6%C3%9Fe%20(1).txt") {
					t.Errorf("link %s", c.URI)
				}
				read, err := r.client("ada", nil).ReadResource(t.Context(), &sdk.ReadResourceParams{URI: c.URI})
				if err != nil || read.Contents[0].Text != "made here" {
					t.Errorf("read %s: %v, %v", c.URI, read, err)
				}
			}
		}
		return kinds
	}
	if got := kinds(call1(t, r.client("ada", nil), "run_code", code)); !slices.Equal(got, []string{"text", "image/png", "image/png", "link"}) {
		t.Errorf("content %v", got)
	}
	r.url += "?images=0"
	if got := kinds(call1(t, r.client("ada", nil), "run_code", code)); !slices.Equal(got, []string{"text", "link"}) {
		t.Errorf("content without pictures %v", got)
	}
	r.url += "&links=0"
	if got := kinds(call1(t, r.client("ada", nil), "run_code", code)); !slices.Equal(got, []string{"text"}) {
		t.Errorf("content without pictures and links %v", got)
	}
	for _, bad := range [][]byte{nil, []byte("\x89PNG\r\n\x1a\n"), bomb()} {
		if _, _, err := wire.Shrink(bad, wire.PictureBounds{Side: maxSide, Bytes: maxShown}); err == nil {
			t.Errorf("a bad picture of %d bytes was taken", len(bad))
		}
	}
}

// A figure is in an answer once, whether it was shown, saved or both, and pictures for which
// there is no room are named.
func TestPicturesOnce(t *testing.T) {
	r := newRig(t)
	for code, want := range map[string]struct {
		pictures int
		left     string
	}{
		"plot 10 10 saved.png\nmake saved.png": {1, ""},
		"plot 10 10\nplot 10 10":               {2, ""},
		"plot 10 10\nplot 10 10\nplot 10 10":   {2, "Pictures not in this answer, which has at most 2: picture 3\n"},
		"plot 9 9\nplot 9 9\nplot 9 9 c.png":   {2, "Pictures not in this answer, which has at most 2: c.png\n"},
		"plot 9 9\nplot 9 9\nmake d.png":       {2, "Pictures not in this answer, which has at most 2: d.png\n"},
		"plot 9 9 a.png\nplot 9 9\nmake a.png": {2, ""},
	} {
		result := call1(t, r.client("ada", nil), "run_code", map[string]any{"code": code})
		pictures := 0
		for _, c := range result.Content {
			if _, ok := c.(*sdk.ImageContent); ok {
				pictures++
			}
		}
		text := textOf(result) + "\n"
		if pictures != want.pictures || want.left == "" && strings.Contains(text, "Pictures") ||
			!strings.Contains(text, want.left) {
			t.Errorf("%q: %d pictures and %q", code, pictures, text)
		}
	}
}

// bomb returns a small file that claims to be a huge picture.
func bomb() []byte {
	b := picture1(1, 1)
	copy(b[16:], []byte{0, 1, 0, 0, 0, 1, 0, 0})
	return b
}
