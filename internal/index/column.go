package index

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// The scanners below read what SQLite gives into the engine's types, and
// refuse what nobody here has written.

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

// The source and the two lists of a run below are stored as JSON, under names of their own:
// renaming a field in Go must not change what is on disk.

type inputRecord struct {
	ID      engine.ID `json:"id"`
	Path    string    `json:"path"`
	Changed bool      `json:"changed,omitempty"`
	Deleted bool      `json:"deleted,omitempty"`
}

type droppedRecord struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	More   int    `json:"more,omitempty"`
}

type inputsColumn struct{ list *[]engine.InputState }

func (c inputsColumn) Value() (driver.Value, error) {
	return listValue(*c.list, func(s engine.InputState) inputRecord { return inputRecord(s) })
}

func (c inputsColumn) Scan(value any) error {
	return scanList(c.list, value, func(r inputRecord) engine.InputState { return engine.InputState(r) })
}

type droppedColumn struct{ list *[]engine.DroppedFile }

func (c droppedColumn) Value() (driver.Value, error) {
	return listValue(*c.list, func(f engine.DroppedFile) droppedRecord { return droppedRecord(f) })
}

func (c droppedColumn) Scan(value any) error {
	return scanList(c.list, value, func(r droppedRecord) engine.DroppedFile { return engine.DroppedFile(r) })
}

// listValue writes a list as JSON records, NULL for an empty one.
func listValue[T, R any](list []T, record func(T) R) (driver.Value, error) {
	if len(list) == 0 {
		return nil, nil
	}
	records := make([]R, len(list))
	for i, item := range list {
		records[i] = record(item)
	}
	text, err := json.Marshal(records)
	return string(text), err
}

func scanList[T, R any](list *[]T, value any, item func(R) T) error {
	*list = nil
	if value == nil {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("a column holds %T where a list belongs", value)
	}
	var records []R
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		return err
	}
	for _, r := range records {
		*list = append(*list, item(r))
	}
	return nil
}

type sourceRecord struct {
	Language string      `json:"language"`
	Code     string      `json:"code"`
	Stdin    []byte      `json:"stdin,omitempty"`
	Args     []string    `json:"args,omitempty"`
	Entry    string      `json:"entry,omitempty"`
	Client   string      `json:"client,omitempty"`
	Files    []refRecord `json:"files,omitempty"`
	Packages string      `json:"packages,omitempty"`
	Timeout  int64       `json:"timeout_us,omitempty"`
	Memory   int64       `json:"memory,omitempty"`
	EchoLast bool        `json:"echo_last,omitempty"`
	Plots    bool        `json:"plots,omitempty"`
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
	record := sourceRecord{
		Language: s.Language, Code: s.Code, Stdin: s.Stdin, Args: s.Args, Entry: s.Entry, Client: s.Client,
		Packages: s.Packages, Timeout: s.Timeout.Microseconds(), Memory: s.Memory, EchoLast: s.EchoLast, Plots: s.Plots,
	}
	for _, f := range s.Files {
		record.Files = append(record.Files, refRecord(f))
	}
	text, err := json.Marshal(record)
	return sql.NullString{String: string(text), Valid: err == nil}, err
}

type sourceColumn struct{ into **engine.Source }

func (c sourceColumn) Scan(value any) error {
	*c.into = nil
	text, ok := value.(string)
	if !ok {
		if value == nil {
			return nil
		}
		return fmt.Errorf("a column holds %T where a source belongs", value)
	}
	var r sourceRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	s := &engine.Source{
		Language: r.Language, Code: r.Code, Stdin: r.Stdin, Args: r.Args, Entry: r.Entry, Client: r.Client,
		Packages: r.Packages, Timeout: time.Duration(r.Timeout) * time.Microsecond, Memory: r.Memory,
		EchoLast: r.EchoLast, Plots: r.Plots,
	}
	for _, f := range r.Files {
		s.Files = append(s.Files, engine.FileRef(f))
	}
	*c.into = s
	return nil
}
