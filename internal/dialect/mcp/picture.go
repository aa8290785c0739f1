package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // what image.Decode reads
	"image/jpeg"
	"image/png"
	"io"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // what image.Decode reads
)

const (
	maxPictures = 10
	maxSide     = 1024     // pixels of a picture in an answer
	maxShown    = 64 << 10 // bytes of one
	maxPixels   = 40 << 20 // of a picture that is decoded
	maxStored   = 32 << 20 // bytes of one
)

// pictures returns those of a program that fit into an answer: first what it
// showed, then the files that it made.
func (s *Server) pictures(ctx context.Context, c *call, out *outcome) (shown []sdk.Content) {
	most := s.shown(c)
	add := func(raw []byte) {
		s.decoding.Lock()
		defer s.decoding.Unlock()
		if data, kind, err := shrink(raw); err == nil {
			shown = append(shown, &sdk.ImageContent{Data: data, MIMEType: kind})
		}
	}
	for _, p := range out.pictures {
		if len(shown) >= most {
			return shown
		}
		if raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(p.base64, "\n", "")); err == nil {
			add(raw)
		}
	}
	for _, f := range out.files {
		if len(shown) >= most {
			return shown
		}
		if !strings.HasPrefix(f.MIME, "image/") || f.Size > maxStored {
			continue
		}
		_, content, err := s.Engine.OpenFile(ctx, c.caller, f.ID)
		if err != nil {
			continue // it is named in the text
		}
		raw, err := io.ReadAll(content)
		content.Close()
		if err == nil {
			add(raw)
		}
	}
	return shown
}

// shown is how many pictures an answer may have: what its request says, else
// what the server was told.
func (s *Server) shown(c *call) int {
	if extra := c.request.Extra; extra != nil {
		if n, err := strconv.Atoi(extra.Header.Get(imagesHeader)); err == nil {
			return min(n, maxPictures)
		}
	}
	return min(s.Images, maxPictures)
}

var errPicture = errors.New("no picture that can be shown")

// shrink makes a picture small enough for an answer. Its dimensions are read
// before it is decoded.
func shrink(raw []byte) (data []byte, kind string, err error) {
	is, format, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil || is.Width < 1 || is.Height < 1 || is.Width > maxPixels/is.Height {
		return nil, "", errPicture
	}
	if max(is.Width, is.Height) <= maxSide && len(raw) <= maxShown && format != "webp" {
		return raw, "image/" + format, nil
	}
	full, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, "", errPicture
	}
	for side := maxSide; side >= 128; side = side * 3 / 4 {
		small := scale(full, side)
		var b bytes.Buffer
		if png.Encode(&b, small) == nil && b.Len() <= maxShown {
			return b.Bytes(), "image/png", nil
		}
		b.Reset()
		if jpeg.Encode(&b, small, &jpeg.Options{Quality: 80}) == nil && b.Len() <= maxShown {
			return b.Bytes(), "image/jpeg", nil
		}
	}
	return nil, "", errPicture
}

// scale makes a picture's longest side at most so long, on white, since JPEG
// knows nothing of transparency.
func scale(full image.Image, side int) image.Image {
	w, h := full.Bounds().Dx(), full.Bounds().Dy()
	if longest := max(w, h); longest > side {
		w, h = max(w*side/longest, 1), max(h*side/longest, 1)
	}
	small := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(small, small.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.CatmullRom.Scale(small, small.Bounds(), full, full.Bounds(), draw.Over, nil)
	return small
}
