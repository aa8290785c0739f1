package onyx

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// The bodies of answers, with the keys in the order of the original.

type executeBody struct {
	bashBody
	Files []workspaceFile `json:"files"`
}

type bashBody struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	endBody
}

type resultEvent struct {
	endBody
	Files []workspaceFile `json:"files"`
}

type endBody struct {
	ExitCode *int  `json:"exit_code"` // null if it timed out, and only then
	TimedOut bool  `json:"timed_out"`
	Duration int64 `json:"duration_ms"`
}

func endOfRun(run *engine.Run) endBody {
	return endBody{exitCode(run), run.Status == engine.StatusTimeout, run.Duration.Milliseconds()}
}

func bodyOf(run *engine.Run) bashBody {
	return bashBody{run.Stdout, run.Stderr + explanation(run), endOfRun(run)}
}

type outputEvent struct {
	Stream engine.Stream `json:"stream"`
	Data   string        `json:"data"`
}

type errorEvent struct {
	Message string `json:"message"`
}

type workspaceFile struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // always "file"
	FileID string `json:"file_id"`
}

func filesOf(run *engine.Run) []workspaceFile {
	files := make([]workspaceFile, 0, len(run.Files))
	for _, f := range run.Files {
		files = append(files, workspaceFile{Path: f.Path, Kind: "file", FileID: f.ID.UUID()})
	}
	return files
}

type uploadBody struct {
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
	Size     int64  `json:"size_bytes"`
}

type listedFile struct {
	FileID   string   `json:"file_id"`
	Filename string   `json:"filename"`
	Size     int64    `json:"size_bytes"`
	Uploaded unixTime `json:"upload_time"`
}

type sessionBody struct {
	SessionID string   `json:"session_id"`
	ExpiresAt unixTime `json:"expires_at"`
}

// unixTime is written as seconds since 1970 with a point, as Python's
// time.time() is.
type unixTime time.Time

// MarshalJSON implements json.Marshaler.
func (t unixTime) MarshalJSON() ([]byte, error) {
	b := strconv.AppendFloat(nil, float64(time.Time(t).UnixMicro())/1e6, 'f', -1, 64)
	if bytes.IndexByte(b, '.') < 0 {
		b = append(b, ".0"...)
	}
	return b, nil
}

// storedName returns the name of a file in the original: that of the upload, or the path of a
// program's file.
func storedName(f engine.File) string {
	return cmp.Or(f.Path, f.Name)
}

// appendString writes a JSON string as UTF-8.
func appendString(b []byte, s string) []byte { return append(b, wire.EncodePlain(s)...) }

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json", wire.EncodePlain(body))
}
