package config

import (
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// Scope says which commands take an option as a flag. In the environment and
// in the file every option counts for every command.
type Scope int

// The scopes of options.
const (
	Global  Scope = iota // every command
	Service              // airlock serve
	Client               // commands that can talk to a service elsewhere
)

// Option is one row of the table.
type Option struct {
	Key     string // in airlock.yaml: "max_upload"
	Scope   Scope
	Value   string // what stands after the flag in a help text: "SIZE"; empty for a switch
	Default string // as it would be written in the file; empty: none, or Help says it
	Help    string
	Secret  bool // never printed; also as <key>_file, the name of a file that holds it
	Many    bool // may be repeated; a list in the file, separated by commas in the environment

	field field
}

// Flag is the option's name on the command line, without the hyphens.
func (o *Option) Flag() string { return flagName(o.Key) }

// Env is the option's name in the environment.
func (o *Option) Env() string { return envName(o.Key) }

// Switch reports whether the option is on or off and needs no value.
func (o *Option) Switch() bool { return o.Value == "" }

func (o *Option) defaults() []string {
	if o.Default == "" {
		return nil
	}
	return []string{o.Default}
}

func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }
func envName(key string) string  { return "AIRLOCK_" + strings.ToUpper(key) }

// Options returns the table in order.
func Options() []Option { return append([]Option(nil), table...) }

func find(key string) *Option {
	for i := range table {
		if table[i].Key == key {
			return &table[i]
		}
	}
	return nil
}

var table = []Option{
	{Key: "data", Scope: Global, Value: "DIR",
		Help:  "directory for files, index and runtimes; /var/lib/airlock for root, else $XDG_DATA_HOME/airlock",
		field: directory(func(c *Config) *string { return &c.Data })},
	{Key: "log_level", Scope: Global, Value: "LEVEL", Default: "info",
		Help:  "least level that is logged: debug, info, warn or error",
		field: level(func(c *Config) *slog.Level { return &c.LogLevel })},
	{Key: "verbose", Scope: Global, Default: "false",
		Help:  "log in detail: the same as --log-level debug",
		field: truth(func(c *Config) *bool { return &c.Verbose })},

	{Key: "listen", Scope: Service, Value: "HOST:PORT", Default: "127.0.0.1:8000",
		Help:  "address of the HTTP service; port 0 takes a free one",
		field: text(func(c *Config) *string { return &c.Listen }, checkListen)},
	{Key: "trust_network", Scope: Service, Value: "CIDR", Many: true,
		Help:  "callers from this network need no key, as 10.1.2.0/24; may be repeated",
		field: networks(func(c *Config) *[]netip.Prefix { return &c.TrustNetworks })},
	{Key: "allow_host", Scope: Service, Value: "NAME", Many: true,
		Help:  "host name under which callers without a key may address the service; may be repeated",
		field: texts(func(c *Config) *[]string { return &c.AllowHosts }, checkHost)},
	{Key: "isolation", Scope: Service, Value: "MODE",
		Help:  "strict refuses to start without memory and process limits, best takes what there is; best on loopback, else strict",
		field: text(func(c *Config) *string { return &c.Isolation }, oneOf(IsolationStrict, IsolationBest))},
	{Key: "drain_time", Scope: Service, Value: "TIME", Default: "30s",
		Help:  "how long running programs may go on after a request to stop",
		field: duration(func(c *Config) *time.Duration { return &c.DrainTime }, 0)},
	{Key: "max_upload", Scope: Service, Value: "SIZE", Default: "200MiB",
		Help:  "largest file that is accepted",
		field: size(func(c *Config) *int64 { return &c.MaxUpload })},
	{Key: "concurrency", Scope: Service, Value: "N", Default: "0",
		Help:  "runs at the same time; 0 is twice the number of cores",
		field: count(func(c *Config) *int { return &c.Concurrency }, 0)},
	{Key: "queue", Scope: Service, Value: "N", Default: "256",
		Help:  "runs that may wait for their turn",
		field: count(func(c *Config) *int { return &c.Queue }, 1)},
	{Key: "file_ttl", Scope: Service, Value: "TIME", Default: "24h",
		Help:  "how long a file is kept after its last use",
		field: duration(func(c *Config) *time.Duration { return &c.FileTTL }, time.Second)},

	{Key: "default_timeout", Scope: Service, Value: "TIME", Default: "1m",
		Help:  "time limit of a run that names none",
		field: duration(func(c *Config) *time.Duration { return &c.DefaultTimeout }, time.Millisecond)},
	{Key: "max_timeout", Scope: Service, Value: "TIME", Default: "5m",
		Help:  "longest time limit that a run may ask for",
		field: duration(func(c *Config) *time.Duration { return &c.MaxTimeout }, time.Millisecond)},
	{Key: "default_memory", Scope: Service, Value: "SIZE", Default: "1GiB",
		Help:  "memory limit of a run that names none",
		field: size(func(c *Config) *int64 { return &c.DefaultMemory })},
	{Key: "max_memory", Scope: Service, Value: "SIZE", Default: "1GiB",
		Help:  "largest memory limit that a run may ask for",
		field: size(func(c *Config) *int64 { return &c.MaxMemory })},
	{Key: "default_processes", Scope: Service, Value: "N", Default: "128",
		Help:  "processes and threads of a run that names no limit",
		field: count(func(c *Config) *int { return &c.DefaultProcesses }, 1)},
	{Key: "max_processes", Scope: Service, Value: "N", Default: "128",
		Help:  "largest process limit that a run may ask for",
		field: count(func(c *Config) *int { return &c.MaxProcesses }, 1)},
	{Key: "default_output", Scope: Service, Value: "SIZE", Default: "1MiB",
		Help:  "text kept of stdout and of stderr where a run names no limit",
		field: size(func(c *Config) *int64 { return &c.DefaultOutput })},
	{Key: "max_output", Scope: Service, Value: "SIZE", Default: "1MiB",
		Help:  "largest output limit that a run may ask for",
		field: size(func(c *Config) *int64 { return &c.MaxOutput })},

	{Key: "server", Scope: Client, Value: "URL",
		Help:  "use the service at this address, as http://host:8000, not this machine",
		field: text(func(c *Config) *string { return &c.Server }, checkServer)},
	{Key: "key", Scope: Client, Value: "KEY", Secret: true,
		Help:  "key for that service; better in AIRLOCK_KEY or a file than on a command line",
		field: secret(func(c *Config) *Secret { return &c.Key })},
}
