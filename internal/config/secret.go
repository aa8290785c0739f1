package config

import "log/slog"

// Secret is a text that prints as ***, wherever it is printed.
type Secret string

const redacted = "***"

// Reveal returns the text itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the text.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps encoders from writing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps logs from holding the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
