package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/internal/engine"
)

// logText is a run's output as it is stored: the text of each stream once,
// and in which pieces it came. A piece is a varint, its length in bytes times
// two, plus one for stderr.
type logText struct {
	stdout, stderr, chunks []byte
	source                 *engine.Source
}

// joinLog makes a run's log into its stored form. The pieces of a stream must
// add up to the run's text, for that is not stored a second time.
func joinLog(log []engine.OutputChunk, run *engine.Run) (logText, error) {
	text := logText{
		stdout: make([]byte, 0, len(run.Stdout)),
		stderr: make([]byte, 0, len(run.Stderr)),
		chunks: make([]byte, 0, 2*len(log)),
		source: run.Source,
	}
	for _, chunk := range log {
		length := uint64(len(chunk.Data)) << 1
		switch chunk.Stream {
		case engine.Stdout:
			text.stdout = append(text.stdout, chunk.Data...)
		case engine.Stderr:
			text.stderr = append(text.stderr, chunk.Data...)
			length |= 1
		default:
			return logText{}, fmt.Errorf("a log with a stream %q", chunk.Stream)
		}
		text.chunks = binary.AppendUvarint(text.chunks, length)
	}
	if string(text.stdout) != run.Stdout || string(text.stderr) != run.Stderr {
		return logText{}, errors.New("the log and the text of a run differ")
	}
	return text, nil
}

// split is the inverse of joinLog.
func (t logText) split() (log []engine.OutputChunk, err error) {
	for chunks := t.chunks; len(chunks) > 0; {
		length, n := binary.Uvarint(chunks)
		if n <= 0 {
			return nil, errors.New("a damaged list of chunks")
		}
		chunks = chunks[n:]
		stream, text := engine.Stdout, &t.stdout
		if length&1 == 1 {
			stream, text = engine.Stderr, &t.stderr
		}
		if length >>= 1; length > uint64(len(*text)) {
			return nil, errors.New("a list of chunks that is longer than its text")
		}
		log = append(log, engine.OutputChunk{Stream: stream, Data: string((*text)[:length])})
		*text = (*text)[length:]
	}
	if len(t.stdout)+len(t.stderr) > 0 {
		return nil, errors.New("a text that is longer than its list of chunks")
	}
	return log, nil
}

// findLog reads a run's output and source; a run without any has no row.
func findLog(ctx context.Context, c *conn, run engine.ID) (text logText, err error) {
	err = c.row(ctx, []any{&text.stdout, &text.stderr, &text.chunks, sourceColumn{&text.source}},
		"SELECT stdout, stderr, chunks, source FROM run_logs WHERE run = $1", run[:])
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	return text, err
}

// insertLog inserts a run's output and source. The log that was stored at its start must
// have been deleted.
func (db *DB) insertLog(ctx context.Context, c *conn, run *engine.Run, text logText) error {
	source, err := sourceText(text.source)
	if err != nil {
		return err
	}
	counted := len(text.stdout) + len(text.stderr) + len(source.String)
	if counted < countedOutput {
		counted = 0
	}
	_, err = c.exec(ctx,
		"INSERT INTO run_logs (run, stdout, stderr, chunks, owner, counted, source) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		run.ID[:], bytesOf(text.stdout), bytesOf(text.stderr), bytesOf(text.chunks), run.Owner, counted, source)
	if err != nil || counted == 0 {
		return err
	}
	return db.trimResults(ctx, c, run.Owner, run.ID)
}

// bytesOf is b for a column that is never NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
