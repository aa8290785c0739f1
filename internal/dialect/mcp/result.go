package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	namedFiles = 10 // in the text and as links
	linksSince = "2025-06-18"
	metaRun    = "airlock-run/run"
)

// result returns the end of a program: one text with all that a model needs, then pictures, then
// links for a person. There is no structured content: large hosts show it instead of text and
// pictures.
func (s *Server) result(ctx context.Context, c *call, out *outcome, chars int) *sdk.CallToolResult {
	text, cut := body(out, chars)
	pictures, left := s.pictures(ctx, c, out)
	r := answer(heading(out) + s.fileLine(out) + leftOut(left, c.images) + text)
	r.Content = append(r.Content, pictures...)
	if c.links && c.version >= linksSince { // older clients reject the whole result
		for _, f := range out.Files[:min(len(out.Files), namedFiles)] {
			r.Content = append(r.Content, &sdk.ResourceLink{
				URI: fileURI(out.session, f.Path), Name: f.Path, MIMEType: f.MIME, Size: new(f.Size),
				Annotations: &sdk.Annotations{Audience: []sdk.Role{"user"}}, // otherwise hosts load it for the model
			})
		}
	}
	r.Meta = metaOf(out, cut)
	return r
}

// metaOf describes a program, running or finished, for other programs.
func metaOf(out *outcome, cut bool) sdk.Meta {
	files := make([]map[string]any, len(out.Files))
	for i, f := range out.Files {
		files[i] = map[string]any{
			"id": f.ID.String(), "path": f.Path, "name": f.Name, "size": f.Size, "mime": f.MIME, "sha256": f.SHA256.String(),
			"created_at": f.CreatedAt, "expires_at": f.ExpiresAt,
		}
	}
	return sdk.Meta{metaRun: map[string]any{
		"run": out.run, "session": out.session, "status": out.Status, "exit_code": out.exit, "signal": signalOf(out),
		"duration_ms": out.Usage.Duration.Milliseconds(), "truncated": out.Truncated || cut,
		"files": files, "variables": out.variables,
	}}
}

// signalOf returns the signal that ended a program, or "".
func signalOf(out *outcome) string {
	if out.exit == nil || *out.exit <= 128 {
		return ""
	}
	return unix.SignalName(syscall.Signal(*out.exit - 128))
}

// heading returns how a program ended and how to continue.
func heading(out *outcome) string {
	words := engine.Status(out.Status).Words()
	switch {
	case out.Status == live.StatusLost && out.exit != nil && *out.exit == 0:
		words = engine.StatusOK.Words()
	case out.Status == live.StatusLost:
		words = "the interpreter ended"
	}
	words = strings.ToUpper(words[:1]) + words[1:]
	if out.exit != nil {
		words += fmt.Sprintf(", exit %d", *out.exit)
	}
	if signal := signalOf(out); signal != "" {
		words += ", " + signal
	}
	line := fmt.Sprintf("%s, %.2f s. session %s keeps its files", words, out.Usage.Duration.Seconds(), out.session)
	if out.variables == "lost" {
		line += ": pass it to go on. The variables of earlier calls are lost."
	} else {
		line += " and variables: pass it to go on."
	}
	if out.Message != "" {
		line += "\n" + out.Message
	}
	return line
}

// fileLine names the files that a program made.
func (s *Server) fileLine(out *outcome) string {
	var b strings.Builder
	for i, f := range out.Files {
		switch {
		case i == namedFiles:
			fmt.Fprintf(&b, "; %d more", len(out.Files)-namedFiles)
		case i > namedFiles:
		case i == 0:
			b.WriteString("\nFiles made: ")
		default:
			b.WriteString(", ")
		}
		if i < namedFiles {
			fmt.Fprintf(&b, "%s (%s, %s)", engine.ShownName(f.Path), f.MIME, humanize.Bytes(uint64(f.Size)))
			if s.PublicURL != "" {
				b.WriteString(" " + s.PublicURL + "/api/v1/files/" + f.ID.String() + "/content")
			}
		}
	}
	for i, d := range out.Dropped[:min(len(out.Dropped), namedFiles)] {
		if i == 0 {
			b.WriteString("\nNot kept: ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", engine.ShownName(d.Path), d.Reason)
	}
	return b.String()
}

// body returns what a program printed, and whether its middle was left out since it is too long.
func body(out *outcome, chars int) (text string, cut bool) {
	text = out.stdout
	if out.stderr != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "--- stderr ---\n" + out.stderr
	}
	if text == "" {
		return "", false
	}
	short := shorten(text, chars)
	return "\n\n" + short, short != text
}

// shorten keeps two thirds of chars from the beginning of a text and one third from its end, cut at
// ends of lines that are near.
func shorten(text string, chars int) string {
	runes := []rune(text)
	if len(runes) <= chars {
		return text
	}
	head, tail := string(runes[:chars*2/3]), string(runes[len(runes)-chars/3:])
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i+1]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	left := len(runes) - len([]rune(head)) - len([]rune(tail))
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[%d characters omitted: print less, or write to a file and read_file it]\n%s", head, left, tail)
}

// stillRunning tells the model to continue with wait_run.
func stillRunning(out *outcome, waited time.Duration, chars int) *sdk.CallToolResult {
	text, cut := body(out, chars)
	r := answer(fmt.Sprintf("Still running after %d s. Call wait_run with run=%q. session %s keeps its files.",
		int(waited.Seconds()), out.run, out.session) + text)
	r.Meta = metaOf(out, cut)
	return r
}

// fileURI returns the address of a file in a session. Its path is ASCII, since header
// fields repeat the address.
func fileURI(session, path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "airlock://sessions/" + session + "/files/" + strings.Join(segments, "/")
}

const (
	maxPictures = 10
	maxSide     = 1024     // pixels of a picture in an answer
	maxShown    = 64 << 10 // bytes of one picture
	maxStored   = 32 << 20 // bytes of one file
)

// pictures returns the pictures that fit into an answer, and names the others: first those that
// the program showed, then files that are none of them.
func (s *Server) pictures(ctx context.Context, c *call, out *outcome) (shown []sdk.Content, left []string) {
	add := func(name string, raw []byte) {
		s.decoding.Lock()
		defer s.decoding.Unlock()
		data, kind, err := wire.Shrink(raw, wire.PictureBounds{Side: maxSide, Bytes: maxShown, JPEG: true})
		if err != nil {
			left = append(left, name)
			return
		}
		shown = append(shown, &sdk.ImageContent{Data: data, MIMEType: kind})
	}
	known := map[string]bool{}
	for i, p := range out.pictures {
		name := cmp.Or(p.saved, fmt.Sprintf("picture %d", i+1))
		known[p.saved] = true
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(p.data, "\n", ""))
		if err != nil || len(shown) >= c.images {
			left = append(left, name)
			continue
		}
		add(name, raw)
	}
	for _, f := range out.Files {
		if !strings.HasPrefix(f.MIME, "image/") || known[f.Path] {
			continue
		}
		if len(shown) >= c.images || f.Size > maxStored {
			left = append(left, f.Path)
			continue
		}
		_, content, err := s.Engine.OpenFile(ctx, c.caller, f.ID)
		if err != nil {
			continue // it is among the files made
		}
		raw, err := io.ReadAll(content)
		content.Close()
		if err == nil {
			add(f.Path, raw)
		}
	}
	return shown, left
}

// leftOut names the pictures that are not in an answer.
func leftOut(names []string, most int) string {
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, 0, namedFiles)
	for _, name := range names[:min(len(names), namedFiles)] {
		shown = append(shown, engine.ShownName(name))
	}
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("\nPictures not in this answer, which has at most %d: %s", most, strings.Join(shown, ", "))
}

// shown returns the limit of pictures in an answer: that of the request, or of the server.
func (s *Server) shown(extra *sdk.RequestExtra) int {
	if extra != nil {
		if n, err := strconv.Atoi(extra.Header.Get(imagesHeader)); err == nil {
			return min(n, maxPictures)
		}
	}
	return min(s.Images, maxPictures)
}

// linked reports whether answers to a request may have links to files, on which some clients fail.
func linked(extra *sdk.RequestExtra) bool {
	return extra == nil || extra.Header.Get(linksHeader) != "0"
}
