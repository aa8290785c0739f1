package workspace

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/gif"  // the dimensions of a picture
	_ "image/jpeg" //
	_ "image/png"  //
	"io"
	"path"
	"slices"
	"strings"

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
	if why := b.program(name, c); why != "" {
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

// program returns that a file is a program, or a document that may run one, "" for
// other files.
func (b *BinaryFacts) program(name string, c *Content) string {
	kind, _, _ := strings.Cut(b.Type, ";")
	ext := strings.ToLower(path.Ext(name))
	switch {
	case slices.Contains([]string{"application/x-elf", "application/x-executable", "application/x-sharedlib",
		"application/x-object", "application/x-coredump", "application/vnd.microsoft.portable-executable",
		"application/x-mach-binary", "application/x-ms-shortcut", "application/x-msi", "application/x-ms-installer",
		"application/wasm", "application/java-archive", "application/x-java-applet",
		"application/vnd.debian.binary-package", "application/x-rpm", "application/vnd.android.package-archive",
		"application/x-installer", "application/x-cab"}, kind):
		return "it is a program (" + kind + ")"
	case slices.Contains([]string{".docm", ".dotm", ".xlsm", ".xltm", ".xlam", ".xlsb", ".pptm", ".potm", ".ppam",
		".ppsm"}, ext), hasMacros(c, kind):
		return "it is a document that may run macros"
	}
	return ""
}

// hasMacros reports whether an office document has Visual Basic in it.
func hasMacros(c *Content, kind string) bool {
	if !strings.Contains(kind, "officedocument") {
		return false
	}
	var at io.ReaderAt = bytes.NewReader(c.data)
	if c.file != nil {
		at = c.file
	}
	archive, err := zip.NewReader(at, c.size)
	if err != nil {
		return true // it cannot be looked into
	}
	return slices.ContainsFunc(archive.File, func(f *zip.File) bool {
		return strings.HasSuffix(strings.ToLower(f.Name), "vbaproject.bin")
	})
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
