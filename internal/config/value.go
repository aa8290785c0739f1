package config

import (
	"log/slog"
	"os"
	"strings"
)

// Value is one effective setting, safe to print.
type Value struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // none where it is not set
	Origin string   `json:"origin"` // "default", "--listen", "AIRLOCK_LISTEN", "<file>:<line>"
	Help   string   `json:"help"`
}

// Values returns every setting in the order of the table, secrets redacted.
func (c *Config) Values() []Value {
	var values []Value
	for _, o := range c.options() {
		v := Value{Key: o.Key, Values: []string{}, Origin: c.origins[o.Key], Help: o.Help}
		for _, text := range o.field.get() {
			if text != "" {
				v.Values = append(v.Values, text)
			}
		}
		values = append(values, v)
	}
	return values
}

// Secrets returns the texts of all secrets that are set, for redaction.
func (c *Config) Secrets() (texts []string) {
	for _, o := range c.options() {
		if o.Secret && o.field.reveal() != "" {
			texts = append(texts, o.field.reveal())
		}
	}
	return texts
}

// Origin returns where a setting comes from: "default", "--listen",
// "AIRLOCK_LISTEN", "<file>:<line>".
func (c *Config) Origin(key string) string { return c.origins[key] }

// Environ returns the environment of a child process that has another user: that
// of this process with the settings of c, so that the child reads no files that
// its user may not read. Secrets stay out.
func (c *Config) Environ(home string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "AIRLOCK_") && name != "HOME" &&
			!strings.HasPrefix(name, "XDG_") && (c.Role != RoleWorker || !storageVariable(name)) {
			env = append(env, entry)
		}
	}
	env = append(env, "HOME="+home, envName("config")+"="+NoFile)
	for _, o := range c.options() {
		if c.Role == RoleWorker && o.Key == "blobs" {
			continue
		}
		if values := o.field.get(); !o.Secret && len(values) > 0 {
			env = append(env, o.Env()+"="+strings.Join(values, ","))
		}
	}
	return env
}

// ServiceSecrets returns the settings that Environ leaves out and the service
// needs, as entries of an environment. Only the service's user and root can read
// them there.
func (c *Config) ServiceSecrets() []string {
	var env []string
	for _, o := range c.options() {
		if !o.Secret || o.Scope != Service && o.Scope != Models && o.Scope != Project ||
			c.Role == RoleWorker && o.Key != "worker_token" {
			continue
		}
		if text := o.field.reveal(); text != "" {
			env = append(env, o.Env()+"="+text)
		}
	}
	return env
}

// storageVariable reports whether the clients of buckets and databases read a
// variable of the environment: it may hold a key.
func storageVariable(name string) bool {
	return strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "MINIO_")
}

// Unwanted reports whether the environment of a worker, which runs beside untrusted
// programs, holds secrets that it does not need. Environ and ServiceSecrets leave them out.
func (c *Config) Unwanted() bool {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" {
			continue
		}
		if storageVariable(name) || name == envName("blobs") {
			return true
		}
		for _, o := range Options() {
			if o.Secret && o.Key != "worker_token" && (name == o.Env() || name == o.Env()+"_FILE") {
				return true
			}
		}
	}
	return false
}

// Secret is a text that is always printed as ***.
type Secret string

const redacted = "***"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer, without the text.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler, without the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer, without the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
