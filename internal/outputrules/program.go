package outputrules

import (
	"archive/zip"
	"io"
	"path"
	"slices"
	"strings"
)

// Program returns that a file of a type, detected from its content, is a program or a document
// that may run one, "" for other files.
func Program(name, kind string, content io.ReaderAt, size int64) string {
	kind, _, _ = strings.Cut(kind, ";")
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
		".ppsm"}, ext), hasMacros(content, size, kind):
		return "it is a document that may run macros"
	}
	return ""
}

// hasMacros reports whether an office document has Visual Basic in it.
func hasMacros(content io.ReaderAt, size int64, kind string) bool {
	if !strings.Contains(kind, "officedocument") {
		return false
	}
	archive, err := zip.NewReader(content, size)
	if err != nil {
		return true // it cannot be looked into
	}
	return slices.ContainsFunc(archive.File, func(f *zip.File) bool {
		return strings.HasSuffix(strings.ToLower(f.Name), "vbaproject.bin")
	})
}
