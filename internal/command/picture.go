package command

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // the formats that are drawn
	_ "image/jpeg"
	"image/png"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/iterm2"
	"github.com/charmbracelet/x/ansi/kitty"
	"github.com/charmbracelet/x/ansi/sixel"
	"golang.org/x/image/draw"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/config"
)

// errNotDrawn reports that a terminal does not show a picture.
var errNotDrawn = errors.New("the picture cannot be drawn")

// Bounds of pictures that are drawn: programs made them.
const (
	// MaxPicture is the size of the largest file that is drawn.
	MaxPicture = 16 << 20
	maxPixels  = 40 << 20
)

// Pictures draws pictures on the terminal of standard output.
type Pictures struct {
	app *App
	how string // of config.Pictures...; PicturesAuto: the terminal was not asked yet
}

// Pictures returns what draws pictures, or nil if standard output shows none.
func (a *App) Pictures() *Pictures {
	if !a.Interactive() || !IsTerminal(a.Streams.Out) || a.Config.Dumb || a.Config.Pictures == config.PicturesOff {
		return nil
	}
	return &Pictures{app: a, how: a.Config.Pictures}
}

// Draw draws a picture in a format that is known, and reports whether it did.
func (p *Pictures) Draw(content []byte) bool {
	if p == nil || len(content) > MaxPicture {
		return false
	}
	if p.how == config.PicturesAuto {
		p.how = config.PicturesOff
		if p.app.hasSixel() {
			p.how = config.PicturesSixel
		}
	}
	if p.how == config.PicturesOff {
		return false
	}
	size, err := unix.IoctlGetWinsize(int(FileOf(p.app.Streams.Out).Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return false
	}
	drawn, err := drawing(p.how, content, *size)
	if err == nil {
		p.app.EndLine()
		_, err = io.WriteString(p.app.Streams.Out, drawn+"\n")
	}
	return err == nil
}

// drawing returns what draws a picture on a terminal of some size.
func drawing(how string, content []byte, size unix.Winsize) (string, error) {
	form, _, err := image.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	if form.Width < 1 || form.Height < 1 || form.Width > maxPixels/form.Height {
		return "", errNotDrawn
	}
	decoded, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	fitted := fit(decoded, size)
	// The terminal gets pixels that were encoded here, not a file of an untrusted program.
	var b bytes.Buffer
	switch how {
	case config.PicturesKitty:
		err = kitty.EncodeGraphics(&b, fitted, &kitty.Options{Action: kitty.TransmitAndPut, Transmission: kitty.Direct,
			Format: kitty.PNG, Chunk: true, Quiet: 2})
		return b.String(), err
	case config.PicturesITerm2:
		if err := png.Encode(&b, fitted); err != nil {
			return "", err
		}
		return ansi.ITerm2(iterm2.File{Name: "picture.png", Size: int64(b.Len()), Width: iterm2.Pixels(fitted.Bounds().Dx()),
			Inline: true, Content: base64.StdEncoding.AppendEncode(nil, b.Bytes())}), nil
	case config.PicturesSixel:
		err = new(sixel.Encoder).Encode(&b, fitted)
		return ansi.SixelGraphics(0, 1, 0, b.Bytes()), err
	}
	return "", errNotDrawn
}

// fit returns a picture on white, as large as it is, or as the terminal has room for: its width, and
// two thirds of its height.
func fit(picture image.Image, size unix.Winsize) image.Image {
	const usualWidth, usualHeight = 9, 18 // of a cell, if the terminal does not say it
	columns, rows := cmp.Or(int(size.Col), PageWidth), cmp.Or(int(size.Row), 24)
	width, height := int(size.Xpixel), int(size.Ypixel)
	if width == 0 || height == 0 {
		width, height = columns*usualWidth, rows*usualHeight
	}
	from := picture.Bounds()
	scale := min(1, float64(width)/float64(from.Dx()), float64(height)*2/3/float64(from.Dy()))
	to := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(from.Dx())*scale)), max(1, int(float64(from.Dy())*scale))))
	draw.Draw(to, to.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	if scale == 1 {
		draw.Draw(to, to.Bounds(), picture, from.Min, draw.Over)
		return to
	}
	draw.CatmullRom.Scale(to, to.Bounds(), picture, from, draw.Over, nil)
	return to
}

// attributes is a terminal's answer to the question what it can do.
var attributes = regexp.MustCompile("\x1b\\[\\?([0-9;]*)c")

// hasSixel asks the terminal whether it shows sixels. Keys that were typed ahead stay where they
// are: then it is not asked.
func (a *App) hasSixel() bool {
	const patience = time.Second // a later answer, from far away, is typed into the user's shell
	in, out := FileOf(a.Streams.In), FileOf(a.Streams.Out)
	if waiting, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ); err != nil || waiting > 0 {
		return false
	}
	restore, err := oneKeyAtATime(in)
	if err != nil {
		return false
	}
	defer func() { _ = restore() }()
	if _, err := io.WriteString(out, ansi.RequestPrimaryDeviceAttributes); err != nil {
		return false
	}
	answer, until := []byte{}, time.Now().Add(patience)
	for len(answer) < 64 && !attributes.Match(answer) {
		left := time.Until(until)
		if left <= 0 || !readableWithin(in, left) {
			return false
		}
		var one [1]byte
		if n, err := in.Read(one[:]); n == 0 || err != nil {
			return false
		}
		answer = append(answer, one[0])
	}
	found := attributes.FindSubmatch(answer)
	const sixelAttribute = "4"
	return found != nil && slices.Contains(strings.Split(string(found[1]), ";"), sixelAttribute)
}

func readableWithin(f *os.File, patience time.Duration) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	return err == nil && n > 0
}

// IsPicture reports whether a file's name is that of a picture that is drawn.
func IsPicture(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{".png", ".jpg", ".jpeg", ".gif"}, func(ending string) bool {
		return strings.HasSuffix(name, ending)
	})
}
