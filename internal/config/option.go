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
	Project              // commands that change folders and tell projects
	Models               // commands that talk to models
)

// Option is one row of the table.
type Option struct {
	Key     string // in airlock.yaml: "max_upload"
	Scope   Scope
	Group   string // heading above the flag in a help text
	Value   string // what stands after the flag in a help text: "SIZE"; empty for a switch
	Default string // as it would be written in the file; empty: none, or Help says it
	Help    string
	Secret  bool // never printed; also as <key>_file, the name of a file that holds it
	Many    bool // may be repeated; a list in the file, separated by commas in the environment

	// Foreign are names from other products that count where ours is not set.
	Foreign []Foreign

	field field
}

// Foreign is an environment variable of another product, in whose place we
// stand.
type Foreign struct {
	Name string
	Unit string // to be added to its value: "ms"
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
	{Key: "data", Scope: Global, Group: "Data and log", Value: "DIR",
		Help:  "directory for files, index and runtimes; /var/lib/airlock for root, else $XDG_DATA_HOME/airlock",
		field: directory(func(c *Config) *string { return &c.Data })},
	{Key: "log_level", Scope: Global, Group: "Data and log", Value: "LEVEL", Default: "info",
		Help:  "least level that is logged: debug, info, warn or error",
		field: level(func(c *Config) *slog.Level { return &c.LogLevel })},
	{Key: "log_format", Scope: Global, Group: "Data and log", Value: "FORMAT", Default: LogText,
		Help:  "how the log is written: text, or json with one object a line; plain is text",
		field: text(func(c *Config) *string { return &c.LogFormat }, oneOf(LogText, LogJSON, "plain"))},
	{Key: "verbose", Scope: Global, Group: "Data and log", Default: "false",
		Help:  "log in detail: the same as --log-level debug",
		field: truth(func(c *Config) *bool { return &c.Verbose })},

	{Key: "listen", Scope: Service, Group: "Network", Value: "HOST:PORT", Default: "127.0.0.1:8000",
		Help:  "address of the HTTP service; port 0 takes a free one",
		field: text(func(c *Config) *string { return &c.Listen }, checkListen)},
	{Key: "role", Scope: Service, Group: "Cluster", Value: "ROLE", Default: RoleAll,
		Help:  "all is a service by itself; api takes requests and has workers run programs; worker runs them for apis",
		field: text(func(c *Config) *string { return &c.Role }, oneOf(RoleAll, RoleAPI, RoleWorker))},
	{Key: "worker_token", Scope: Service, Group: "Cluster", Value: "TOKEN", Secret: true,
		Help:  "what apis and workers prove to each other that they have, at least 32 characters; needed beyond loopback",
		field: secret(func(c *Config) *Secret { return &c.WorkerToken })},
	{Key: "worker_api", Scope: Service, Group: "Cluster", Value: "URL", Many: true,
		Help:  "where a worker finds an api, as http://airlock-api:8000; may be repeated; --api URL,URL is short for it",
		field: texts(func(c *Config) *[]string { return &c.WorkerAPIs }, checkServer).separate()},
	{Key: "advertise", Scope: Service, Group: "Cluster", Value: "HOST:PORT",
		Help:  "where others of the cluster reach this process; else its address to listen on",
		field: text(func(c *Config) *string { return &c.Advertise }, checkListen)},
	{Key: "node_name", Scope: Service, Group: "Cluster", Value: "NAME",
		Help:  "name of this process in the cluster; else its machine's, with the port",
		field: text(func(c *Config) *string { return &c.NodeName }, anything)},
	{Key: "metrics_token", Scope: Service, Group: "Network", Value: "TOKEN", Secret: true,
		Help:  "what Prometheus shows to read /metrics and nothing else, at least 32 characters; an admin key can, too",
		field: secret(func(c *Config) *Secret { return &c.MetricsToken }, longEnough)},
	{Key: "trust_network", Scope: Service, Group: "Network", Value: "CIDR", Many: true,
		Help:  "callers from this network need no key, as 10.1.2.0/24; may be repeated",
		field: networks(func(c *Config) *[]netip.Prefix { return &c.TrustNetworks })},
	{Key: "allow_host", Scope: Service, Group: "Network", Value: "NAME", Many: true,
		Help:  "host name under which callers without a key may address the service; may be repeated",
		field: texts(func(c *Config) *[]string { return &c.AllowHosts }, checkHost)},
	{Key: "public_url", Scope: Service, Group: "Network", Value: "URL",
		Help:  "address at which clients elsewhere reach this service, as https://airlock.example.com",
		field: text(func(c *Config) *string { return &c.PublicURL }, checkOrigin)},
	{Key: "mcp_oauth_issuer", Scope: Service, Group: "Network", Value: "URL",
		Help: "identity provider whose access tokens /mcp takes beside keys, as https://id.example.com/realms/main; " +
			"needs public_url",
		field: text(func(c *Config) *string { return &c.MCPIssuer }, checkOrigin)},
	{Key: "e2b_domain", Scope: Service, Group: "Network", Value: "NAME[:PORT]",
		Help:  "domain of E2B's clients: they call this service api.NAME, and sandboxes PORT-ID.NAME",
		field: text(func(c *Config) *string { return &c.E2BDomain }, checkDomain)},
	{Key: "project_api", Scope: Service, Group: "Network", Value: "ADDRESS", Many: true,
		Help: "address of a project's API that callers may name although it is not public: https://host, a host or a " +
			"network such as 10.1.2.0/24; may be repeated",
		field: texts(func(c *Config) *[]string { return &c.ProjectAPIs }, anything)},
	{Key: "isolation", Scope: Service, Group: "Programs", Value: "MODE",
		Help: "strict refuses to start without memory and process limits, best takes what there is; best on loopback, " +
			"else strict",
		field: text(func(c *Config) *string { return &c.Isolation }, oneOf(IsolationStrict, IsolationBest))},
	{Key: "warm", Scope: Service, Group: "Programs", Default: "true",
		Help:  "keep Python ready in sandboxes that wait; =false starts every program cold and saves their memory",
		field: truth(func(c *Config) *bool { return &c.Warm })},
	{Key: "live", Scope: Service, Group: "Programs", Value: "N", Default: "0",
		Help:  "live interpreters of all owners together; 0 is as many as half of the memory has room for",
		field: count(func(c *Config) *int { return &c.Live }, 0)},
	{Key: "live_idle", Scope: Service, Group: "Programs", Value: "TIME", Default: "30m",
		Help:  "a live interpreter without a cell for so long is ended; its files stay",
		field: duration(func(c *Config) *time.Duration { return &c.LiveIdle }, time.Second)},
	{Key: "python_packages", Scope: Service, Group: "Programs", Value: "RULE", Many: true,
		Help: "set of Python packages: NAME for all programs, onyx=NAME, librechat=NAME or native=NAME for those of a " +
			"protocol, key:ID=NAME for those of a key; may be repeated",
		field: texts(func(c *Config) *[]string { return &c.Packages }, checkPackages)},
	{Key: "network_allow", Scope: Service, Group: "Programs", Value: "RULE", Many: true,
		Help: "what programs may be allowed to contact, if their request asks for it: api.example.com, *.example.com:443, " +
			"203.0.113.0/24, https://HOST/PATH/*, packages for the registries of pip and npm, * for all; may be repeated",
		field: texts(func(c *Config) *[]string { return &c.NetworkAllow }, anything)},
	{Key: "network_private", Scope: Service, Group: "Programs", Value: "CIDR", Many: true,
		Help:  "network that is not public and that those rules reach all the same, as 10.1.2.0/24; may be repeated",
		field: networks(func(c *Config) *[]netip.Prefix { return &c.NetworkPrivate })},
	{Key: "network_inspect", Scope: Service, Group: "Programs", Default: "false",
		Help:  "read inside of TLS where a rule has a path or a header is injected, with an authority for each run",
		field: truth(func(c *Config) *bool { return &c.NetworkInspect })},
	{Key: "network_inject", Scope: Service, Group: "Programs", Value: "LINES", Secret: true,
		Help:  "headers that are added to requests, with network_inspect: lines of HOST HEADER: VALUE",
		field: secret(func(c *Config) *Secret { return &c.NetworkInject })},
	{Key: "network_max_bytes", Scope: Service, Group: "Programs", Value: "SIZE", Default: "1GiB",
		Help:  "what one run may send and receive together",
		field: size(func(c *Config) *int64 { return &c.NetworkMaxBytes })},
	{Key: "drain_time", Scope: Service, Group: "Load", Value: "TIME", Default: "30s",
		Help:  "how long running programs may go on after a request to stop",
		field: duration(func(c *Config) *time.Duration { return &c.DrainTime }, 0)},
	{Key: "max_upload", Scope: Service, Group: "Storage", Value: "SIZE", Default: "200MiB",
		Help:  "largest file that is accepted",
		field: size(func(c *Config) *int64 { return &c.MaxUpload })},
	{Key: "min_free", Scope: Service, Group: "Storage", Value: "SIZE",
		Help: "room that stays free on the disk of the data directory: with less, no uploads and no runs; a twentieth of " +
			"the disk, at most 512MiB, if it is not set",
		field: size(func(c *Config) *int64 { return &c.MinFree })},
	{Key: "database", Scope: Service, Group: "Storage", Value: "URL", Secret: true,
		Help: "PostgreSQL database that records files, sessions, runs and keys in place of the data directory, as " +
			"postgres://airlock@db.example.com/airlock?sslmode=verify-full; PG* variables as psql has them count, too",
		field: secret(func(c *Config) *Secret { return &c.Database })},
	{Key: "blobs", Scope: Service, Group: "Storage", Value: "URL",
		Help: "S3 bucket that keeps the bytes of files in place of the data directory, as " +
			"s3://BUCKET/PREFIX?endpoint=https://s3.example.com&region=NAME&ca=FILE&path_style=BOOL; credentials as " +
			"AWS's tools have them",
		field: text(func(c *Config) *string { return &c.Blobs }, anything)},
	{Key: "blob_cache", Scope: Service, Group: "Storage", Value: "SIZE", Default: "10GiB",
		Help:  "what the data directory keeps of a bucket, to be read again",
		field: size(func(c *Config) *int64 { return &c.BlobCache })},
	{Key: "concurrency", Scope: Service, Group: "Load", Value: "N", Default: "0",
		Foreign: []Foreign{{Name: "MAX_CONCURRENT_EXECUTIONS"}},
		Help: "runs at the same time; 0 is twice the number of cores that compute, and beside them, as memory allows, " +
			"those that wait for something",
		field: count(func(c *Config) *int { return &c.Concurrency }, 0)},
	{Key: "queue", Scope: Service, Group: "Load", Value: "N", Default: "256",
		Help:  "runs that may wait for their turn",
		field: count(func(c *Config) *int { return &c.Queue }, 1)},
	{Key: "queue_time", Scope: Service, Group: "Load", Value: "TIME", Default: "30s",
		Foreign: []Foreign{{"EXECUTION_QUEUE_TIMEOUT_SEC", "s"}},
		Help: "how long a run that somebody waits for may wait for its turn before it is refused; 0s refuses all that " +
			"cannot start at once",
		field: duration(func(c *Config) *time.Duration { return &c.QueueTime }, 0)},
	{Key: "file_ttl", Scope: Service, Group: "Storage", Value: "TIME", Default: "24h",
		Help:  "how long a file is kept after its last use",
		field: duration(func(c *Config) *time.Duration { return &c.FileTTL }, time.Second)},
	{Key: "run_ttl", Scope: Service, Group: "Storage", Value: "TIME", Default: "24h",
		Help:  "how long a run is kept with its output and code; the files that it made are kept as file_ttl says",
		field: duration(func(c *Config) *time.Duration { return &c.RunTTL }, time.Second)},
	{Key: "keep_code", Scope: Service, Group: "Storage", Default: "true",
		Help:  "keep the code of each run with its output, for the page's list of runs; a request can ask not to",
		field: truth(func(c *Config) *bool { return &c.KeepCode })},

	{Key: "root_dialect", Scope: Service, Group: "Network", Value: "NAME",
		Help:  "protocol that is served at / too, for clients that cannot be told a path: onyx or librechat",
		field: text(func(c *Config) *string { return &c.RootDialect }, oneOf(DialectOnyx, DialectLibreChat))},
	{Key: "dify_timeout", Scope: Service, Group: "Dify", Value: "TIME", Default: "15s",
		Foreign: []Foreign{{"SANDBOX_WORKER_TIMEOUT", "s"}},
		Help:    "time limit of a run that comes from Dify, which waits for 60s: more than 55s count as 55s",
		field:   duration(func(c *Config) *time.Duration { return &c.DifyTimeout }, time.Millisecond)},
	{Key: "openai_upstream_url", Scope: Service, Group: "OpenAI's API", Value: "URL",
		Help: "model that /openai/v1 asks: any API with chat completions, as http://localhost:11434/v1; everybody with a " +
			"key may use it",
		field: text(func(c *Config) *string { return &c.Upstream.URL }, checkAPI)},
	{Key: "openai_upstream_key", Scope: Service, Group: "OpenAI's API", Value: "KEY", Secret: true,
		Help:  "key for that model; most want none",
		field: secret(func(c *Config) *Secret { return &c.Upstream.Key })},
	{Key: "onyx_max_timeout", Scope: Service, Group: "Onyx", Value: "TIME", Default: "1m",
		Foreign: []Foreign{{"MAX_EXEC_TIMEOUT_MS", "ms"}},
		Help:    "longest time limit of a run that comes from Onyx",
		field:   duration(func(c *Config) *time.Duration { return &c.Onyx.MaxTimeout }, time.Millisecond)},
	{Key: "onyx_max_output", Scope: Service, Group: "Onyx", Value: "SIZE", Default: "1000000B",
		Foreign: []Foreign{{"MAX_OUTPUT_BYTES", "B"}},
		Help:    "text kept of stdout and of stderr of a run that comes from Onyx",
		field:   size(func(c *Config) *int64 { return &c.Onyx.MaxOutput })},
	{Key: "onyx_max_file", Scope: Service, Group: "Onyx", Value: "SIZE", Default: "100MiB",
		Foreign: []Foreign{{"MAX_FILE_SIZE_MB", "MiB"}},
		Help:    "largest file that Onyx may upload",
		field:   size(func(c *Config) *int64 { return &c.Onyx.MaxFile })},
	{Key: "onyx_file_ttl", Scope: Service, Group: "Onyx", Value: "TIME", Default: "1h",
		Foreign: []Foreign{{"FILE_TTL_SEC", "s"}},
		Help:    "how long a file of Onyx is kept after its last use",
		field:   duration(func(c *Config) *time.Duration { return &c.Onyx.FileTTL }, time.Second)},
	{Key: "onyx_memory", Scope: Service, Group: "Onyx", Value: "SIZE", Foreign: []Foreign{{"MEMORY_LIMIT_MB", "MiB"}},
		Help:  "memory limit of a run that comes from Onyx; default_memory if it is not set",
		field: size(func(c *Config) *int64 { return &c.Onyx.Memory })},
	{Key: "onyx_cpu_time", Scope: Service, Group: "Onyx", Value: "TIME", Default: "0s",
		Foreign: []Foreign{{"CPU_TIME_LIMIT_SEC", "s"}},
		Help:    "processor time of a run that comes from Onyx; 0s is no limit but the one of the clock",
		field:   duration(func(c *Config) *time.Duration { return &c.Onyx.CPUTime }, 0)},

	{Key: "librechat_api_key", Scope: Service, Group: "LibreChat", Value: "KEY", Secret: true,
		Foreign: []Foreign{{Name: "LIBRECHAT_CODE_API_KEY"}},
		Help:    "key that a LibreChat shows for all of its users; better in a file than on a command line",
		field:   secret(func(c *Config) *Secret { return &c.LibreChat.APIKey })},
	{Key: "librechat_file_ttl", Scope: Service, Group: "LibreChat", Value: "TIME", Default: "168h",
		Help:  "how long a file of LibreChat is kept after its last use",
		field: duration(func(c *Config) *time.Duration { return &c.LibreChat.FileTTL }, time.Second)},
	{Key: "librechat_jwt_public_key", Scope: Service, Group: "LibreChat", Value: "PEM|JWK",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_PUBLIC_KEY"}},
		Help:    "public key, Ed25519 or RSA, as PEM or JSON Web Key, of the tokens that LibreChat makes for its users",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTPublicKey }, anything)},
	{Key: "librechat_jwt_kid", Scope: Service, Group: "LibreChat", Value: "ID", Default: "lc-codeapi-2026-05",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_KID"}, {Name: "CODEAPI_JWT_KEY_ID"}},
		Help:    "id of librechat_jwt_public_key and librechat_jwt_secret in the tokens",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTKeyID }, anything)},
	{Key: "librechat_jwt_keys_dir", Scope: Service, Group: "LibreChat", Value: "DIR",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_PUBLIC_KEYS_DIR"}},
		Help: "directory of public keys of LibreChat's tokens, each file called after its kid, as <kid>.pem; read again " +
			"every 30 s",
		field: text(func(c *Config) *string { return &c.LibreChat.JWTKeysDir }, anything)},
	{Key: "librechat_jwt_jwks", Scope: Service, Group: "LibreChat", Value: "JSON|FILE",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_JWKS_JSON"}},
		Help:    "JSON Web Key Set of LibreChat's tokens, or the name of a file with one, which is read again every 30 s",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTKeySet }, anything)},
	{Key: "librechat_jwt_secret", Scope: Service, Group: "LibreChat", Value: "SECRET", Secret: true,
		Foreign: []Foreign{{Name: "CODEAPI_JWT_HS256_SECRET"}, {Name: "CODEAPI_JWT_SECRET"}},
		Help:    "secret of LibreChat's tokens where they are signed by HS256, at least 32 bytes",
		field:   secret(func(c *Config) *Secret { return &c.LibreChat.JWTSecret })},
	{Key: "librechat_jwt_secret_kid", Scope: Service, Group: "LibreChat", Value: "ID",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_HS256_KID"}},
		Help:    "id of librechat_jwt_secret in the tokens; librechat_jwt_kid if it is not set",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTSecretKeyID }, anything)},
	{Key: "librechat_jwt_algorithms", Scope: Service, Group: "LibreChat", Value: "LIST",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_ALLOWED_ALGS"}},
		Help: "algorithms that LibreChat's tokens may use, of EdDSA, RS256, HS256, with commas; each key's own if it is " +
			"not set",
		field: text(func(c *Config) *string { return &c.LibreChat.JWTAlgorithms }, anything)},
	{Key: "librechat_jwt_trust", Scope: Service, Group: "LibreChat", Value: "JSON",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_TRUST_ENTRIES_JSON"}},
		Help: "list of issuers with their audiences, keys, algorithms and sources, in the place of librechat_jwt_issuer, " +
			"_audience, _algorithms",
		field: text(func(c *Config) *string { return &c.LibreChat.JWTTrust }, anything)},
	{Key: "librechat_jwt_max_life", Scope: Service, Group: "LibreChat", Value: "TIME", Default: "5m",
		Foreign: []Foreign{{"CODEAPI_JWT_MAX_TTL_SECONDS", "s"}},
		Help:    "longest life of a token of LibreChat's, at most 5m",
		field:   duration(func(c *Config) *time.Duration { return &c.LibreChat.JWTMaxLife }, time.Second)},
	{Key: "librechat_jwt_skew", Scope: Service, Group: "LibreChat", Value: "TIME", Default: "30s",
		Foreign: []Foreign{{"CODEAPI_JWT_CLOCK_SKEW_SECONDS", "s"}},
		Help:    "by how much the clock of LibreChat may differ from ours, at most 30s",
		field:   duration(func(c *Config) *time.Duration { return &c.LibreChat.JWTSkew }, 0)},
	{Key: "librechat_jwt_issuer", Scope: Service, Group: "LibreChat", Value: "NAME", Default: "librechat",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_ISSUER"}},
		Help:    "who must have issued LibreChat's tokens",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTIssuer }, anything)},
	{Key: "librechat_jwt_audience", Scope: Service, Group: "LibreChat", Value: "NAME", Default: "codeapi",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_AUDIENCE"}},
		Help:    "for whom LibreChat's tokens must be",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTAudience }, anything)},
	{Key: "librechat_jwt_tenant", Scope: Service, Group: "LibreChat", Value: "NAME", Default: "legacy",
		Foreign: []Foreign{{Name: "CODEAPI_JWT_SINGLE_TENANT_ID"}},
		Help:    "tenant of a token of LibreChat's that names none",
		field:   text(func(c *Config) *string { return &c.LibreChat.JWTTenant }, anything)},
	{Key: "librechat_jwt_strict_tenant", Scope: Service, Group: "LibreChat", Default: "false",
		Foreign: []Foreign{{Name: "CODEAPI_TENANT_ISOLATION_STRICT"}, {Name: "TENANT_ISOLATION_STRICT"}},
		Help:    "refuse tokens of LibreChat's that name no tenant",
		field:   truth(func(c *Config) *bool { return &c.LibreChat.JWTStrictTenant })},
	{Key: "librechat_user_scope", Scope: Service, Group: "LibreChat", Value: "MODE", Default: UserScopeShared,
		Help: "what requests with a LibreChat key that name no user may do: shared lets them find every user's files by " +
			"their ids, strict refuses them",
		field: text(func(c *Config) *string { return &c.LibreChat.UserScope }, oneOf(UserScopeShared, UserScopeStrict))},
	{Key: "librechat_unknown_session", Scope: Service, Group: "LibreChat", Value: "ANSWER", Default: "auto",
		Help: "what a listing of an unknown session answers LibreChat: 404, 403, empty, or auto (404 for a summary, else " +
			"empty)",
		field: text(func(c *Config) *string { return &c.LibreChat.UnknownSession }, oneOf("auto", "404", "403", "empty"))},
	{Key: "librechat_python_state", Scope: Service, Group: "LibreChat", Value: "WHICH", Default: "off",
		Help: "which LibreChat programs go on with the files and Python variables of the last one: off, hint (with one " +
			"runtime_session_hint), on (also with one session_id, entity_id or session of files)",
		field: text(func(c *Config) *string { return &c.LibreChat.PythonState }, oneOf("off", "hint", "on"))},
	{Key: "librechat_peer_ptc_errors", Scope: Service, Group: "LibreChat", Default: "false",
		Help: "answer a bad programmatic request of LibreChat with 200 and an error in the body, " +
			"as LibreCodeInterpreter does",
		field: truth(func(c *Config) *bool { return &c.LibreChat.PeerErrors })},

	{Key: "owner_runs", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "0",
		Help: "runs of one owner at the same time; 0 is all of --concurrency while there are no keys, and one less when " +
			"there are",
		field: count(func(c *Config) *int { return &c.OwnerRuns }, 0)},
	{Key: "owner_queue", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "64",
		Help:  "runs of one owner that may wait for their turn",
		field: count(func(c *Config) *int { return &c.OwnerQueue }, 1)},
	{Key: "owner_rate", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "200",
		Help: "requests of one owner in a second, twice as many in a burst; callers on this machine without a key are not " +
			"counted",
		field: count(func(c *Config) *int { return &c.OwnerRate }, 1)},
	{Key: "owner_disk", Scope: Service, Group: "Limits of one owner", Value: "SIZE", Default: "20GiB",
		Help:  "files that one owner may keep, together",
		field: size(func(c *Config) *int64 { return &c.OwnerDisk })},
	{Key: "owner_files", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "200000",
		Help:  "number of files that one owner may keep; 0 is no limit",
		field: count(func(c *Config) *int { return &c.OwnerFiles }, 0)},
	{Key: "owner_sessions", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "1000",
		Help:  "sessions that one owner may keep open; 0 is no limit",
		field: count(func(c *Config) *int { return &c.OwnerSessions }, 0)},
	{Key: "owner_live", Scope: Service, Group: "Limits of one owner", Value: "N", Default: "16",
		Help:  "live interpreters of one owner; one more ends the one that was idle for longest",
		field: count(func(c *Config) *int { return &c.OwnerLive }, 1)},
	{Key: "owner_results", Scope: Service, Group: "Limits of one owner", Value: "SIZE", Default: "1GiB",
		Help:  "output of runs that is kept for one owner; beyond it the oldest runs are forgotten early",
		field: size(func(c *Config) *int64 { return &c.OwnerResults })},

	{Key: "default_timeout", Scope: Service, Group: "Limits of one run", Value: "TIME", Default: "1m",
		Help:  "time limit of a run that names none",
		field: duration(func(c *Config) *time.Duration { return &c.DefaultTimeout }, time.Millisecond)},
	{Key: "max_timeout", Scope: Service, Group: "Limits of one run", Value: "TIME", Default: "5m",
		Help:  "longest time limit that a run may ask for",
		field: duration(func(c *Config) *time.Duration { return &c.MaxTimeout }, time.Millisecond)},
	{Key: "default_memory", Scope: Service, Group: "Limits of one run", Value: "SIZE", Default: "1GiB",
		Help:  "memory limit of a run that names none",
		field: size(func(c *Config) *int64 { return &c.DefaultMemory })},
	{Key: "max_memory", Scope: Service, Group: "Limits of one run", Value: "SIZE", Default: "1GiB",
		Help:  "largest memory limit that a run may ask for",
		field: size(func(c *Config) *int64 { return &c.MaxMemory })},
	{Key: "default_processes", Scope: Service, Group: "Limits of one run", Value: "N", Default: "128",
		Help:  "processes and threads of a run that names no limit",
		field: count(func(c *Config) *int { return &c.DefaultProcesses }, 1)},
	{Key: "max_processes", Scope: Service, Group: "Limits of one run", Value: "N", Default: "128",
		Help:  "largest process limit that a run may ask for",
		field: count(func(c *Config) *int { return &c.MaxProcesses }, 1)},
	{Key: "default_output", Scope: Service, Group: "Limits of one run", Value: "SIZE", Default: "1MiB",
		Help:  "text kept of stdout and of stderr where a run names no limit",
		field: size(func(c *Config) *int64 { return &c.DefaultOutput })},
	{Key: "max_output", Scope: Service, Group: "Limits of one run", Value: "SIZE", Default: "1MiB",
		Help:  "largest output limit that a run may ask for",
		field: size(func(c *Config) *int64 { return &c.MaxOutput })},

	{Key: "workspace", Scope: Service, Group: "Projects and tools", Value: "DIR", Many: true,
		Help:  "folder that callers may link with a project, and all below it; may be repeated; none by default",
		field: texts(func(c *Config) *[]string { return &c.Workspaces }, checkFolder)},
	{Key: "code_interpreter_url", Scope: Service, Group: "Projects and tools", Value: "URL",
		Foreign: []Foreign{{Name: "CODE_INTERPRETER_BASE_URL"}},
		Help:    "service that the run_python tool uses, as http://host:8000/onyx; without it this one",
		field:   text(func(c *Config) *string { return &c.CodeInterpreter }, anything)},
	{Key: "demo_project", Scope: Service, Group: "Projects and tools", Default: "false",
		Help:  "serve a project API to try things out with, under /demo",
		field: truth(func(c *Config) *bool { return &c.DemoProject })},

	{Key: "api", Scope: Project, Group: "Projects", Value: "URL",
		Help:  "the project's API, as https://projects.example.com; else the one of the project's link",
		field: text(func(c *Config) *string { return &c.API }, checkAPI)},
	{Key: "api_token", Scope: Project, Group: "Projects", Value: "TOKEN", Secret: true,
		Help:  "token for that API; better in AIRLOCK_API_TOKEN or a file than on a command line",
		field: secret(func(c *Config) *Secret { return &c.APIToken })},
	{Key: "policy", Scope: Project, Group: "Projects", Value: "FILE",
		Help:  "JSON file with rules that approve changes of files without asking; docs/workspace.md explains them",
		field: text(func(c *Config) *string { return &c.Policy }, anything)},
	{Key: "editor", Scope: Project, Group: "Projects", Value: "COMMAND",
		Foreign: []Foreign{{"VISUAL", ""}, {"EDITOR", ""}}, Default: "vi",
		Help:  "program with which a proposed file is edited",
		field: text(func(c *Config) *string { return &c.Editor }, anything)},

	{Key: "provider", Scope: Models, Group: "Model", Value: "NAME",
		Help:  "who runs the model's code: openai, anthropic, gemini, xai, or local for this machine's sandbox",
		field: text(func(c *Config) *string { return &c.Provider }, oneOf("openai", "anthropic", "gemini", "xai", "local"))},
	{Key: "model", Scope: Models, Group: "Model", Value: "NAME",
		Help:  "the model, by its provider's name for it",
		field: text(func(c *Config) *string { return &c.Model }, anything)},
	{Key: "hints", Scope: Models, Group: "Model", Value: "MODE", Default: "auto",
		Help:  "off tells the model nothing about where its files are and go; auto tells it what is known to help",
		field: text(func(c *Config) *string { return &c.Hints }, oneOf("auto", "off"))},
	{Key: "max_download", Scope: Models, Group: "Model", Value: "SIZE", Default: "100MiB",
		Help:  "largest file that is fetched from a provider",
		field: size(func(c *Config) *int64 { return &c.MaxDownload })},
	{Key: "model_url", Scope: Models, Group: "Local provider", Value: "URL",
		Help: "endpoint of the model of --provider local that speaks OpenAI's API, as http://localhost:11434/v1; on the " +
			"command line also for --provider openai, with model_key",
		field: text(func(c *Config) *string { return &c.ModelURL }, checkAPI)},
	{Key: "model_key", Scope: Models, Group: "Local provider", Value: "KEY", Secret: true,
		Help:  "key for that endpoint; most want none",
		field: secret(func(c *Config) *Secret { return &c.ModelKey })},
	{Key: "openai_api_key", Scope: Models, Group: "OpenAI", Value: "KEY", Secret: true,
		Foreign: []Foreign{{Name: "OPENAI_API_KEY"}},
		Help:    "key for OpenAI; better in OPENAI_API_KEY or a file than on a command line",
		field:   secret(func(c *Config) *Secret { return &c.OpenAI.Key })},
	{Key: "openai_base_url", Scope: Models, Group: "OpenAI", Value: "URL", Foreign: []Foreign{{Name: "OPENAI_BASE_URL"}},
		Help:  "address of OpenAI's API, where it is another",
		field: text(func(c *Config) *string { return &c.OpenAI.URL }, checkAPI)},
	{Key: "openai_organization", Scope: Models, Group: "OpenAI", Value: "ID", Foreign: []Foreign{{Name: "OPENAI_ORG_ID"}},
		Help:  "organization at OpenAI; empty: the key's",
		field: text(func(c *Config) *string { return &c.OpenAIOrganization }, anything)},
	{Key: "openai_project", Scope: Models, Group: "OpenAI", Value: "ID", Foreign: []Foreign{{Name: "OPENAI_PROJECT_ID"}},
		Help:  "project at OpenAI; empty: the key's",
		field: text(func(c *Config) *string { return &c.OpenAIProject }, anything)},
	{Key: "anthropic_api_key", Scope: Models, Group: "Anthropic", Value: "KEY", Secret: true,
		Foreign: []Foreign{{Name: "ANTHROPIC_API_KEY"}},
		Help:    "key for Anthropic",
		field:   secret(func(c *Config) *Secret { return &c.Anthropic.Key })},
	{Key: "anthropic_base_url", Scope: Models, Group: "Anthropic", Value: "URL",
		Foreign: []Foreign{{Name: "ANTHROPIC_BASE_URL"}},
		Help:    "address of Anthropic's API, without /v1, where it is another",
		field:   text(func(c *Config) *string { return &c.Anthropic.URL }, checkAPI)},
	{Key: "gemini_api_key", Scope: Models, Group: "Gemini", Value: "KEY", Secret: true,
		Foreign: []Foreign{{Name: "GEMINI_API_KEY"}, {Name: "GOOGLE_API_KEY"}},
		Help:    "key for Gemini",
		field:   secret(func(c *Config) *Secret { return &c.Gemini.Key })},
	{Key: "gemini_base_url", Scope: Models, Group: "Gemini", Value: "URL",
		Foreign: []Foreign{{Name: "GOOGLE_GEMINI_BASE_URL"}},
		Help:    "address of Gemini's API, where it is another",
		field:   text(func(c *Config) *string { return &c.Gemini.URL }, checkAPI)},
	{Key: "xai_api_key", Scope: Models, Group: "xAI", Value: "KEY", Secret: true,
		Foreign: []Foreign{{Name: "XAI_API_KEY"}},
		Help:    "key for xAI",
		field:   secret(func(c *Config) *Secret { return &c.XAI.Key })},
	{Key: "xai_base_url", Scope: Models, Group: "xAI", Value: "URL", Foreign: []Foreign{{Name: "XAI_BASE_URL"}},
		Help:  "address of xAI's API, where it is another",
		field: text(func(c *Config) *string { return &c.XAI.URL }, checkAPI)},

	{Key: "server", Scope: Client, Group: "Service elsewhere", Value: "URL",
		Help:  "use the service at this address, as http://host:8000, not this machine",
		field: text(func(c *Config) *string { return &c.Server }, checkServer)},
	{Key: "key", Scope: Client, Group: "Service elsewhere", Value: "KEY", Secret: true,
		Help:  "key for that service; better in AIRLOCK_KEY or a file than on a command line",
		field: secret(func(c *Config) *Secret { return &c.Key })},
}
