package mcp

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxPictures = 10
	maxSide     = 1024     // pixels of a picture in an answer
	maxShown    = 64 << 10 // bytes of one
	maxStored   = 32 << 20 // bytes of one
)

// pictures returns those of a program that fit into an answer: first what it
// showed, then the files that it made.
func (s *Server) pictures(ctx context.Context, c *call, out *outcome) (shown []sdk.Content) {
	most := c.images
	add := func(raw []byte) {
		s.decoding.Lock()
		defer s.decoding.Unlock()
		if data, kind, err := wire.Shrink(raw, wire.PictureBounds{Side: maxSide, Bytes: maxShown, JPEG: true}); err == nil {
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
func (s *Server) shown(extra *sdk.RequestExtra) int {
	if extra != nil {
		if n, err := strconv.Atoi(extra.Header.Get(imagesHeader)); err == nil {
			return min(n, maxPictures)
		}
	}
	return min(s.Images, maxPictures)
}
