package pytool

import (
	"path"
	"strings"
)

// types are the types of common outputs. The operating system's table differs between hosts.
var types = map[string]string{
	".avif": "image/avif", ".bmp": "image/bmp", ".bz2": "application/x-bzip2", ".c": "text/x-c", ".cfg": "text/plain",
	".css": "text/css", ".csv": "text/csv", ".db": "application/vnd.sqlite3", ".doc": "application/msword",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".eps": "application/postscript",
	".epub": "application/epub+zip", ".feather": "application/vnd.apache.arrow.file", ".gif": "image/gif",
	".go": "text/x-go", ".gz": "application/gzip", ".htm": "text/html", ".html": "text/html",
	".ico": "image/vnd.microsoft.icon", ".ini": "text/plain", ".ipynb": "application/x-ipynb+json",
	".java": "text/x-java", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript",
	".json": "application/json", ".jsonl": "application/x-ndjson", ".log": "text/plain", ".md": "text/markdown",
	".mid": "audio/midi", ".mov": "video/quicktime", ".mp3": "audio/mpeg", ".mp4": "video/mp4",
	".odp": "application/vnd.oasis.opendocument.presentation", ".ods": "application/vnd.oasis.opendocument.spreadsheet",
	".odt": "application/vnd.oasis.opendocument.text", ".ogg": "audio/ogg", ".parquet": "application/vnd.apache.parquet",
	".pdf": "application/pdf", ".png": "image/png",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".ps":   "application/postscript", ".py": "text/x-python", ".rtf": "application/rtf", ".sh": "text/x-shellscript",
	".sql": "application/sql", ".sqlite": "application/vnd.sqlite3", ".svg": "image/svg+xml",
	".tar": "application/x-tar", ".tex": "text/x-tex", ".tif": "image/tiff", ".tiff": "image/tiff",
	".toml": "application/toml", ".ts": "text/x-typescript", ".tsv": "text/tab-separated-values", ".txt": "text/plain",
	".wav": "audio/wav", ".webm": "video/webm", ".webp": "image/webp", ".xls": "application/vnd.ms-excel",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xml": "application/xml",
	".xz": "application/x-xz", ".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
}

// TypeOf returns the MIME type of a file by its name.
func TypeOf(name string) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}
