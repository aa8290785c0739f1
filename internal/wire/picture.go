package wire

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // what image.Decode reads
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // what image.Decode reads
)

// maxPixels is the limit of a picture that is decoded.
const maxPixels = 40 << 20

var errPicture = errors.New("no picture that can be shown")

// PictureBounds are the limits of a picture in an answer.
type PictureBounds struct {
	Side  int  // pixels of its longer side
	Bytes int  // of it, encoded
	JPEG  bool // it may become a JPEG; else what is changed is a PNG
}

// Shrink makes a picture small enough for an answer. The dimensions are read before the picture is
// decoded. Decoding takes up to 200 MB: callers decode one at a time.
func Shrink(raw []byte, most PictureBounds) (data []byte, kind string, err error) {
	is, format, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil || is.Width < 1 || is.Height < 1 || is.Width > maxPixels/is.Height {
		return nil, "", errPicture
	}
	if max(is.Width, is.Height) <= most.Side && len(raw) <= most.Bytes && format != "webp" {
		return raw, "image/" + format, nil
	}
	full, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, "", errPicture
	}
	for side := min(most.Side, max(is.Width, is.Height)); side >= 64; side = side * 3 / 4 {
		small := scale(full, side)
		var b bytes.Buffer
		if png.Encode(&b, small) == nil && b.Len() <= most.Bytes {
			return b.Bytes(), "image/png", nil
		}
		b.Reset()
		if most.JPEG && jpeg.Encode(&b, small, &jpeg.Options{Quality: 80}) == nil && b.Len() <= most.Bytes {
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
