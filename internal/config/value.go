package config

import (
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
	for i := range table {
		o := &table[i]
		v := Value{Key: o.Key, Values: []string{}, Origin: c.origins[o.Key], Help: o.Help}
		for _, text := range o.field.get(c) {
			if text != "" {
				v.Values = append(v.Values, text)
			}
		}
		values = append(values, v)
	}
	return values
}

// Secrets returns the texts of all secrets that are set, to be looked for where
// they must not be.
func (c *Config) Secrets() (texts []string) {
	for i := range table {
		if o := &table[i]; o.Secret {
			if text := o.field.reveal(c); text != "" {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// Origin says where a setting comes from: "default", "--listen",
// "AIRLOCK_LISTEN", "<file>:<line>".
func (c *Config) Origin(key string) string { return c.origins[key] }

// Environ returns the environment for a process of ours that has another
// user: this one's, with the settings of c in it, so that it need not, and
// does not, read files that only we may read. Secrets stay out.
func (c *Config) Environ(home string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "AIRLOCK_") && name != "HOME" &&
			!strings.HasPrefix(name, "XDG_") && (c.Role != RoleWorker || !storageVariable(name)) {
			env = append(env, entry)
		}
	}
	env = append(env, "HOME="+home, envName("config")+"="+NoFile)
	for i := range table {
		o := &table[i]
		if c.Role == RoleWorker && o.Key == "blobs" {
			continue
		}
		if values := o.field.get(c); !o.Secret && len(values) > 0 {
			env = append(env, o.Env()+"="+strings.Join(values, ","))
		}
	}
	return env
}

// ServiceSecrets returns those settings that Environ leaves out and the service
// needs, wherever they came from, as entries of an environment. Nobody but its
// user and root can read them there.
func (c *Config) ServiceSecrets() []string {
	var env []string
	for i := range table {
		o := &table[i]
		if !o.Secret || o.Scope != Service && o.Scope != Models && o.Scope != Project ||
			c.Role == RoleWorker && o.Key != "worker_token" {
			continue
		}
		if text := o.field.reveal(c); text != "" {
			env = append(env, o.Env()+"="+text)
		}
	}
	return env
}

// storageVariable reports whether a variable of the environment is read by what keeps
// files and records, and may be a key to them.
func storageVariable(name string) bool {
	return strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "MINIO_")
}

// Unwanted reports whether the environment of a worker has secrets that are not for it:
// it runs beside untrusted programs. Environ and ServiceSecrets are without them.
func (c *Config) Unwanted() bool {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" {
			continue
		}
		if storageVariable(name) || name == envName("blobs") {
			return true
		}
		for i := range table {
			o := &table[i]
			if o.Secret && o.Key != "worker_token" && (name == o.Env() || name == o.Env()+"_FILE") {
				return true
			}
		}
	}
	return false
}
