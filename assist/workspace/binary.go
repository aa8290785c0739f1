package workspace

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/gif"  // the dimensions of a picture
	_ "image/jpeg" //
	_ "image/png"  //
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/gabriel-vasile/mimetype"
)

// BinaryFacts describe a file that is not a text.
type BinaryFacts struct {
	Type      string `json:"type"`                // by its first bytes, such as "image/png"
	Extension string `json:"extension,omitempty"` // that the type usually has, with the dot
	Width     int    `json:"width,omitempty"`     // of a picture, in pixels
	Height    int    `json:"height,omitempty"`
	OldType   string `json:"old_type,omitempty"` // of the file that it replaces
}

// lookBinary returns the facts about a content.
func lookBinary(ctx context.Context, c *Content) (*BinaryFacts, error) {
	head, err := c.head(ctx)
	if err != nil {
		return nil, err
	}
	kind := mimetype.Detect(head)
	facts := &BinaryFacts{Type: kind.String(), Extension: kind.Extension()}
	if strings.HasPrefix(facts.Type, "image/") {
		if config, _, err := image.DecodeConfig(bytes.NewReader(head)); err == nil {
			facts.Width, facts.Height = config.Width, config.Height
		}
	}
	return facts, nil
}

// suspicion returns why a binary file needs a person's approval, "" if it does not.
func (b *BinaryFacts) suspicion(name string, c *Content) string {
	if why := outputrules.Program(name, b.Type, c.at(), c.size); why != "" {
		return why
	}
	kind, _, _ := strings.Cut(b.Type, ";")
	if slices.Contains([]string{"application/zip", "application/x-tar", "application/gzip", "application/x-7z-compressed",
		"application/x-rar-compressed", "application/x-xz", "application/x-bzip2", "application/zstd",
		"application/vnd.ms-cab-compressed", "application/x-archive", "application/lzip"}, kind) {
		return "it is an archive (" + kind + ")"
	}
	return ""
}

// mismatch returns that the name is one of another type of file, "" if it is not.
func (b *BinaryFacts) mismatch(name string) string {
	ext := strings.ToLower(path.Ext(name))
	if ext == "" || b.Extension == "" {
		return ""
	}
	kind, _, _ := strings.Cut(b.Type, ";")
	for k := mimetype.Lookup(kind); k != nil; k = k.Parent() {
		if k.Extension() == ext {
			return ""
		}
	}
	promised := promisedType(name)
	if promised == "" || promised == kind {
		return ""
	}
	return fmt.Sprintf("the name ends in %s, but the content is %s", ext, kind)
}

// promisedType returns the type of a file by its name, "" if the name tells none.
func promisedType(name string) string {
	return map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
		".bmp": "image/bmp",
		".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".mp3": "audio/mpeg",
		".mp4":  "video/mp4",
		".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
		".txt":  "text/plain", ".md": "text/plain", ".csv": "text/csv", ".json": "application/json", ".py": "text/x-python",
		".js": "text/javascript", ".html": "text/html",
	}[strings.ToLower(path.Ext(name))]
}
