package index

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// The scanners below read columns into the engine's types, and refuse values
// that this package does not write.

type idColumn struct{ *engine.ID }

func (c idColumn) Scan(value any) error { return scanBytes(c.ID[:], value) }

type digestColumn struct{ *engine.Digest }

func (c digestColumn) Scan(value any) error { return scanBytes(c.Digest[:], value) }

// scanBytes reads a BLOB of exactly the length of into; NULL is all zero.
func scanBytes(into []byte, value any) error {
	switch raw := value.(type) {
	case nil:
		clear(into)
		return nil
	case []byte:
		if len(raw) == len(into) {
			copy(into, raw)
			return nil
		}
	}
	return fmt.Errorf("a column holds %T where %d bytes belong", value, len(into))
}

type timeColumn struct{ *time.Time }

func (c timeColumn) Scan(value any) error {
	switch us := value.(type) {
	case nil:
		*c.Time = time.Time{}
	case int64:
		*c.Time = time.UnixMicro(us).UTC()
	default:
		return fmt.Errorf("a column holds %T where a time belongs", value)
	}
	return nil
}

type durationColumn struct{ *time.Duration }

func (c durationColumn) Scan(value any) error {
	us, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a column holds %T where a duration belongs", value)
	}
	*c.Duration = time.Duration(us) * time.Microsecond
	return nil
}

// orNull returns the value of an id, NULL for the zero one.
func orNull(id engine.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// timeOrNull returns the value of an instant, NULL for the zero one.
func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// listColumn is a list that is stored as JSON, NULL for an empty one.
type listColumn[T any] struct{ list *[]T }

func listOf[T any](list *[]T) listColumn[T] { return listColumn[T]{list} }

func (c listColumn[T]) Value() (driver.Value, error) {
	if len(*c.list) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(*c.list)
	return string(text), err
}

func (c listColumn[T]) Scan(value any) error {
	*c.list = nil
	return scanJSON(c.list, value)
}

// scanJSON reads a JSON document, and leaves v as it is for NULL.
func scanJSON(v, value any) error {
	if value == nil {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("a column holds %T where JSON belongs", value)
	}
	return json.Unmarshal([]byte(text), v)
}

// sourceRecord is a source as it is stored.
type sourceRecord struct {
	engine.Source
	Timeout int64       `json:"timeout_us,omitempty"`
	Files   []refRecord `json:"files,omitempty"`
}

type refRecord struct {
	ID       engine.ID    `json:"id"`
	Owner    engine.Owner `json:"owner,omitempty"`
	Path     string       `json:"path,omitempty"`
	ReadOnly bool         `json:"read_only,omitempty"`
}

// sourceText is a source as it is stored, NULL for none.
func sourceText(s *engine.Source) (sql.NullString, error) {
	if s == nil {
		return sql.NullString{}, nil
	}
	record := sourceRecord{Source: *s, Timeout: s.Timeout.Microseconds()}
	for _, f := range s.Files {
		record.Files = append(record.Files, refRecord(f))
	}
	text, err := json.Marshal(record)
	return sql.NullString{String: string(text), Valid: err == nil}, err
}

type sourceColumn struct{ into **engine.Source }

func (c sourceColumn) Scan(value any) error {
	*c.into = nil
	var r sourceRecord
	if err := scanJSON(&r, value); err != nil || value == nil {
		return err
	}
	r.Source.Timeout = time.Duration(r.Timeout) * time.Microsecond
	for _, f := range r.Files {
		r.Source.Files = append(r.Source.Files, engine.FileRef(f))
	}
	*c.into = &r.Source
	return nil
}
