package command

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi/sixel"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/config"
)

// aPicture returns a picture that is transparent but for one point.
func aPicture(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	picture.Set(0, 0, color.Black)
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Each terminal gets the picture in its own way, on white, and no larger than it has room for.
func TestDrawing(t *testing.T) {
	size := unix.Winsize{Col: 10, Row: 10, Xpixel: 100, Ypixel: 300}
	for how, pixels := range map[string]func(string) (image.Image, error){
		config.PicturesKitty: func(drawn string) (image.Image, error) {
			var all strings.Builder
			for part := range strings.SplitSeq(strings.Trim(drawn, "\n"), "\x1b\\") {
				_, payload, _ := strings.Cut(strings.TrimPrefix(part, "\x1b_G"), ";")
				all.WriteString(payload)
			}
			content, err := base64.StdEncoding.DecodeString(all.String())
			if err != nil {
				return nil, err
			}
			return png.Decode(bytes.NewReader(content))
		},
		config.PicturesITerm2: func(drawn string) (image.Image, error) {
			_, payload, _ := strings.Cut(strings.TrimSuffix(drawn, "\x07"), ":")
			content, err := base64.StdEncoding.DecodeString(payload)
			if err != nil {
				return nil, err
			}
			return png.Decode(bytes.NewReader(content))
		},
		config.PicturesSixel: func(drawn string) (image.Image, error) {
			_, payload, _ := strings.Cut(strings.TrimSuffix(drawn, "\x1b\\"), "q")
			return new(sixel.Decoder).Decode(strings.NewReader(payload))
		},
	} {
		for _, c := range []struct{ width, height, wantWidth, wantHeight int }{
			{40, 60, 40, 60}, {200, 60, 100, 30}, {100, 400, 50, 200},
		} {
			drawn, err := drawing(how, aPicture(t, c.width, c.height), size)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pixels(drawn)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			// Sixels come in bands of six rows.
			if b := got.Bounds(); b.Dx() != c.wantWidth || b.Dy() < c.wantHeight || b.Dy() >= c.wantHeight+6 {
				t.Errorf("%s of %dx%d: %v, want %dx%d", how, c.width, c.height, b, c.wantWidth, c.wantHeight)
			}
			if r, _, _, a := got.At(c.wantWidth-1, c.wantHeight-1).RGBA(); r < 0xf000 || a < 0xf000 {
				t.Errorf("%s: what is transparent is not white: %v", how, got.At(c.wantWidth-1, c.wantHeight-1))
			}
		}
	}
}

// What is no picture, and one that would fill the memory, is not drawn.
func TestDrawingRefuses(t *testing.T) {
	huge := aPicture(t, 1, 1)
	copy(huge[16:], "\x00\x01\x00\x00\x00\x01\x00\x00") // 65536x65536; the sum is wrong then, too
	for _, content := range []string{"", "\x1b[2J", string(huge)} {
		if drawn, err := drawing(config.PicturesKitty, []byte(content), unix.Winsize{}); err == nil {
			t.Errorf("%q is drawn", drawn)
		}
	}
	if (*Pictures)(nil).Draw(huge) {
		t.Error("without a terminal it is drawn")
	}
}
