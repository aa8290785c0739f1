package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// amount is a duration that is a whole number of units in JSON.
//
// A type with durations has a method wire, which returns a struct for its JSON: the fields of the type, and
// amounts in place of the durations, which they point to.
type amount struct {
	of   *time.Duration
	unit time.Duration
}

func millis(d *time.Duration) amount  { return amount{d, time.Millisecond} }
func seconds(d *time.Duration) amount { return amount{d, time.Second} }

// count returns the number of units. A fraction counts as one, so that a short time is not none.
func (a amount) count() int64 {
	n := *a.of / a.unit
	if *a.of%a.unit > 0 {
		n++
	}
	return int64(n)
}

// IsZero reports whether omitzero leaves the amount out.
func (a amount) IsZero() bool { return *a.of == 0 }

// MarshalJSON implements json.Marshaler.
func (a amount) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, a.count(), 10), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (a amount) UnmarshalJSON(data []byte) error {
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if most := math.MaxInt64 / int64(a.unit); n > most || n < -most {
		return fmt.Errorf("%d times %v is longer than a time.Duration", n, a.unit)
	}
	*a.of = time.Duration(n) * a.unit
	return nil
}

// marshal encodes what wire returns. The encoder that asked for it decides about HTML.
func marshal(wire any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(wire)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// target returns where JSON is decoded into out. For a type with durations it saves the search for the end
// of the value before UnmarshalJSON is called, which a large output makes long.
func target(out any) any {
	if t, ok := out.(interface{ wire() any }); ok {
		return t.wire()
	}
	return out
}
