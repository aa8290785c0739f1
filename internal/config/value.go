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
			!strings.HasPrefix(name, "XDG_") {
			env = append(env, entry)
		}
	}
	env = append(env, "HOME="+home, envName("config")+"="+NoFile)
	for i := range table {
		o := &table[i]
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
		if !o.Secret || o.Scope != Service && o.Scope != Models && o.Scope != Project {
			continue
		}
		if text := o.field.reveal(c); text != "" {
			env = append(env, o.Env()+"="+text)
		}
	}
	return env
}
