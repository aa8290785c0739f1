package config

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Scope says which commands take an option as a flag. The environment and the
// settings file set options of every scope for every command.
type Scope int

// The scopes of options.
const (
	Global  Scope = iota // every command
	Service              // airlock serve
	Client               // commands that can talk to a service elsewhere
	Project              // commands that change folders and report to projects
	Models               // commands that talk to models
)

// Option is one row of the table.
type Option struct {
	Key     string // in airlock.yaml: "max_upload"
	Scope   Scope
	Group   string // heading above the flag in a help text
	Value   string // placeholder after the flag in a help text: "SIZE"; empty for a switch
	Default string // as it would be written in the file; empty: none, or Help says it
	Help    string
	Secret  bool // never printed; also set by <key>_file, the name of a file that holds it
	Many    bool // may be repeated; a list in the file, separated by commas in the environment

	// Foreign are environment variables of other products. They count where the
	// option's own variable is not set.
	Foreign []string
	Unit    string // appended to their values: "ms"

	field field
}

// Flag returns the option's name on the command line, without the hyphens.
func (o *Option) Flag() string { return flagName(o.Key) }

// Env returns the option's name in the environment.
func (o *Option) Env() string { return envName(o.Key) }

// Switch reports whether the option is on or off and needs no value.
func (o *Option) Switch() bool { return o.Value == "" }

func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }
func envName(key string) string  { return "AIRLOCK_" + strings.ToUpper(key) }

// Options returns the table in order. Each command makes its flags of it, so it is made once.
var Options = sync.OnceValue(func() []Option { return new(Config).options() })

// find returns the option of a key, or nil.
func find(options []Option, key string) *Option {
	if i := slices.IndexFunc(options, func(o Option) bool { return o.Key == key }); i >= 0 {
		return &options[i]
	}
	return nil
}

// options returns the table, whose fields are those of c.
func (c *Config) options() []Option {
	return slices.Concat(
		c.generalOptions(), c.networkOptions(), c.signInOptions(), c.programOptions(), c.storageOptions(),
		c.protocolOptions(), c.libreChatOptions(), c.limitOptions(), c.projectOptions(), c.modelOptions(), c.clientOptions())
}

// section returns the options of one scope and heading.
func section(scope Scope, group string, options []Option) []Option {
	for i := range options {
		options[i].Scope, options[i].Group = scope, group
	}
	return options
}

// generalOptions are for every command.
func (c *Config) generalOptions() []Option {
	return section(Global, "Data and log", []Option{
		{Key: "data", Value: "DIR", field: directory(&c.Data),
			Help: "directory for files, index and runtimes; /var/lib/airlock for root, else $XDG_DATA_HOME/airlock"},
		{Key: "log_level", Value: "LEVEL", Default: "info", field: level(&c.LogLevel),
			Help: "least level that is logged: debug, info, warn or error"},
		{Key: "log_format", Value: "FORMAT", Default: LogText, field: text(&c.LogFormat, oneOf(LogText, LogJSON, "plain")),
			Help: "how the log is written: text, or json with one object a line; plain is text"},
		{Key: "verbose", Default: "false", field: truth(&c.Verbose),
			Help: "log in detail: the same as --log-level debug"},
	})
}

// networkOptions are about the network and the cluster of a service.
func (c *Config) networkOptions() []Option {
	return slices.Concat(section(Service, "Network", []Option{
		{Key: "listen", Value: "HOST:PORT", Default: "127.0.0.1:8000", field: text(&c.Listen, checkListen),
			Help: "address of the HTTP service; port 0 takes a free one"},
		{Key: "first_key", Value: "TOKEN", Secret: true, field: secret(&c.FirstKey, keyToken),
			Help: "token of the first key, with admin rights, which is made of it if there never was a key: ak_, 12 of " +
				"a-z and 2-9 without l, _, and 43 random letters and digits"},
		{Key: "metrics_token", Value: "TOKEN", Secret: true, field: secret(&c.MetricsToken, longEnough),
			Help: "what Prometheus shows to read /metrics and nothing else, at least 32 characters; an admin key can, too"},
		{Key: "otlp_endpoint", Value: "URL", Foreign: []string{"OTEL_EXPORTER_OTLP_ENDPOINT"},
			field: text(&c.OTLPEndpoint, checkServer),
			Help:  "OpenTelemetry collector to which traces and metrics are sent by OTLP over HTTP, as http://collector:4318"},
		{Key: "trust_network", Value: "CIDR", Many: true, field: networks(&c.TrustNetworks),
			Help: "callers from this network need no key, as 10.1.2.0/24; may be repeated"},
		{Key: "allow_host", Value: "NAME", Many: true, field: texts(&c.AllowHosts, checkHost),
			Help: "host name under which callers without a key may address the service; may be repeated"},
		{Key: "public_url", Value: "URL", field: text(&c.PublicURL, checkOrigin),
			Help: "address at which clients elsewhere reach this service, as https://airlock.example.com"},
		{Key: "mcp_oauth_issuer", Value: "URL", field: text(&c.MCPIssuer, checkOrigin),
			Help: "identity provider whose access tokens /mcp takes beside keys, as https://id.example.com/realms/main; " +
				"needs public_url"},
		{Key: "e2b_domain", Value: "NAME[:PORT]", field: text(&c.E2BDomain, checkDomain),
			Help: "domain of E2B's clients: they call this service api.NAME, and sandboxes PORT-ID.NAME"},
		{Key: "project_api", Value: "ADDRESS", Many: true, field: texts(&c.ProjectAPIs),
			Help: "address of a project's API that callers may name although it is not public: https://host, a host or a " +
				"network such as 10.1.2.0/24; may be repeated"},
		{Key: "root_dialect", Value: "NAME", field: text(&c.RootDialect, oneOf(DialectOnyx, DialectLibreChat)),
			Help: "protocol that is served at / too, for clients that cannot be told a path: onyx or librechat"},
	}), section(Service, "Cluster", []Option{
		{Key: "role", Value: "ROLE", Default: RoleAll, field: text(&c.Role, oneOf(RoleAll, RoleAPI, RoleWorker)),
			Help: "all is a service by itself; api takes requests and has workers run programs; worker runs them for apis"},
		{Key: "worker_token", Value: "TOKEN", Secret: true, field: secret(&c.WorkerToken),
			Help: "what apis and workers prove to each other that they have, at least 32 characters; needed beyond loopback"},
		{Key: "worker_tokens", Value: "LINES", Secret: true, field: secret(&c.WorkerTokens),
			Help: "for apis: tokens of workers by name, as lines of NAME TOKEN, or NAME* TOKEN for a pool; several of a name " +
				"are good, so that they can be replaced; beside worker_token, which is for all names"},
		{Key: "approve_workers", Default: "false", field: truth(&c.ApproveWorkers),
			Help: "for apis of a cluster: a worker of a new name waits until an operator lets it in with `airlock nodes approve`"},
		{Key: "worker_api", Value: "URL", Many: true, field: texts(&c.WorkerAPIs, checkServer).separate(),
			Help: "where a worker finds an api, as http://airlock-api:8000; may be repeated; --api URL,URL is short for it"},
		{Key: "advertise", Value: "HOST:PORT", field: text(&c.Advertise, checkListen),
			Help: "where others of the cluster reach this process; else its address to listen on"},
		{Key: "node_name", Value: "NAME", field: text(&c.NodeName),
			Help: "name of this process in the cluster; else its machine's, with the port"},
	}))
}

// programOptions are about how a service runs programs.
func (c *Config) programOptions() []Option {
	return slices.Concat(section(Service, "Programs", []Option{
		{Key: "isolation", Value: "MODE", field: text(&c.Isolation, oneOf(IsolationStrict, IsolationBest)),
			Help: "strict refuses to start without memory and process limits, best takes what there is; best on loopback, " +
				"else strict"},
		{Key: "wall", Value: "WALL", Default: WallShared, field: text(&c.Wall, oneOf(WallShared, WallGVisor)),
			Help: "what is between programs and this machine: shared is its own kernel with few calls, gvisor a kernel of its " +
				"own for each program; keys and requests may raise it"},
		{Key: "warm", Default: "true", field: truth(&c.Warm),
			Help: "keep Python ready in sandboxes that wait; =false starts every program cold and saves their memory"},
		{Key: "live", Value: "N", Default: "0", field: count(&c.Live, 0),
			Help: "live interpreters of all owners together; 0 is as many as half of the memory has room for"},
		{Key: "live_idle", Value: "TIME", Default: "30m", field: duration(&c.LiveIdle, time.Second),
			Help: "a live interpreter without a cell for so long is ended; its files stay"},
		{Key: "python_packages", Value: "RULE", Many: true, field: texts(&c.Packages, checkPackages),
			Help: "set of Python packages: NAME for all programs, onyx=NAME, librechat=NAME or native=NAME for those of a " +
				"protocol, key:ID=NAME for those of a key; may be repeated"},
		{Key: "images", Value: "RULE", Many: true, field: texts(&c.Images, checkImages),
			Help: "image whose files programs have in place of the machine's own: NAME for all programs; native=NAME, " +
				"onyx=NAME, librechat=NAME, e2b=NAME, jupyter=NAME, mcp=NAME, dify=NAME, openai=NAME or terminal=NAME for those " +
				"of a protocol, key:ID=NAME for those of a key; host is none; may be repeated"},
		{Key: "warm_images", Value: "NAME", Many: true, field: texts(&c.WarmImages, checkImageName).separate(),
			Help: "image whose interpreters wait from the start of the service on, and where there are no control groups " +
				"the only ones that do; may be repeated"},
		{Key: "mounts", Value: "NAME=FOLDER", Many: true, field: texts(&c.Mounts, checkMount).separate(),
			Help: "folder of this machine that programs may see as /mnt/NAME, if their request asks for it: read-only, as " +
				"datasets=/srv/datasets, or to write to, as out=/srv/out:rw; may be repeated"},
		{Key: "mount_access", Value: "RULE", Many: true, field: texts(&c.MountAccess, checkMountAccess),
			Help: "who may ask for a mount: NAME for every caller, key:ID=NAME for those of a key, NAME:ro only to read; " +
				"admins may ask for all; may be repeated"},
		{Key: "volumes_dir", Value: "FOLDER", field: directory(&c.VolumesDir),
			Help: "folder of the volumes, which programs write to and which outlive them; empty is volumes in the data " +
				"directory. Apis and workers need one that all of them share, on NFS or the like"},
		{Key: "network_allow", Value: "RULE", Many: true, field: texts(&c.NetworkAllow),
			Help: "what programs may be allowed to contact, if their request asks for it: api.example.com, *.example.com:443, " +
				"203.0.113.0/24, https://HOST/PATH/*, packages for the registries of pip and npm, * for all; may be repeated"},
		{Key: "network_private", Value: "CIDR", Many: true, field: networks(&c.NetworkPrivate),
			Help: "network that is not public and that those rules reach all the same, as 10.1.2.0/24; may be repeated"},
		{Key: "network_inspect", Default: "false", field: truth(&c.NetworkInspect),
			Help: "read inside of TLS where a rule has a path or a header is injected, with an authority for each run"},
		{Key: "network_inject", Value: "LINES", Secret: true, field: secret(&c.NetworkInject),
			Help: "headers that are added to requests, with network_inspect: lines of HOST HEADER: VALUE"},
		{Key: "network_max_bytes", Value: "SIZE", Default: "1GiB", field: size(&c.NetworkMaxBytes),
			Help: "what one run may send and receive together"},
	}), section(Service, "Load", []Option{
		{Key: "drain_time", Value: "TIME", Default: "30s", field: duration(&c.DrainTime, 0),
			Help: "how long running programs may go on after a request to stop"},
		{Key: "concurrency", Value: "N", Default: "0",
			Foreign: []string{"MAX_CONCURRENT_EXECUTIONS"}, field: count(&c.Concurrency, 0),
			Help: "runs at the same time; 0 is twice the number of cores, or of what a container may use of them, that " +
				"compute, and beside them, as memory allows, those that wait for something"},
		{Key: "queue", Value: "N", Default: "256", field: count(&c.Queue, 1),
			Help: "runs that may wait for their turn"},
		{Key: "queue_time", Value: "TIME", Default: "30s",
			Foreign: []string{"EXECUTION_QUEUE_TIMEOUT_SEC"}, Unit: "s", field: duration(&c.QueueTime, 0),
			Help: "how long a run that somebody waits for may wait for its turn before it is refused; 0s refuses all that " +
				"cannot start at once"},
	}))
}

// storageOptions are about what a service stores.
func (c *Config) storageOptions() []Option {
	return section(Service, "Storage", []Option{
		{Key: "max_upload", Value: "SIZE", Default: "200MiB", field: size(&c.MaxUpload),
			Help: "largest file that is accepted"},
		{Key: "min_free", Value: "SIZE", field: size(&c.MinFree),
			Help: "room that stays free on the disk of the data directory: with less, no uploads and no runs; a twentieth of " +
				"the disk, at most 512MiB, if it is not set"},
		{Key: "database", Value: "URL", Secret: true, field: secret(&c.Database),
			Help: "PostgreSQL database that records files, sessions, runs and keys in place of the data directory, as " +
				"postgres://airlock@db.example.com/airlock?sslmode=verify-full; PG* variables as psql has them count, too"},
		{Key: "blobs", Value: "URL", field: text(&c.Blobs),
			Help: "S3 bucket that keeps the bytes of files in place of the data directory, as " +
				"s3://BUCKET/PREFIX?endpoint=https://s3.example.com&region=NAME&ca=FILE&path_style=BOOL; credentials as " +
				"AWS's tools have them"},
		{Key: "blob_cache", Value: "SIZE", Default: "10GiB", field: size(&c.BlobCache),
			Help: "what the data directory keeps of a bucket, to be read again"},
		{Key: "image_cache", Value: "SIZE", Default: "20GiB", field: size(&c.ImageCache),
			Help: "what the data directory keeps of the images of a cluster, those that were used last"},
		{Key: "file_ttl", Value: "TIME", Default: "24h", field: duration(&c.FileTTL, time.Second),
			Help: "how long a file is kept after its last use"},
		{Key: "run_ttl", Value: "TIME", Default: "24h", field: duration(&c.RunTTL, time.Second),
			Help: "how long a run is kept with its output and code; the files that it made are kept as file_ttl says"},
		{Key: "audit_ttl", Value: "TIME", Default: "9600h", field: duration(&c.AuditTTL, 720*time.Hour),
			Help: "how long acts of administration are kept for `airlock audit`; at least 720h"},
		{Key: "usage_ttl", Value: "TIME", Default: "9600h", field: duration(&c.UsageTTL, 31*24*time.Hour),
			Help: "how long it is kept what was used in a day; at least 744h, the longest month"},
		{Key: "snapshot_ttl", Value: "TIME", Default: "168h", field: duration(&c.SnapshotTTL, time.Second),
			Help: "how long a snapshot of a session is kept after it was made, or after the last session was made of it"},
		{Key: "keep_code", Default: "true", field: truth(&c.KeepCode),
			Help: "keep the code of each run with its output, for the page's list of runs; a request can ask not to"},
	})
}

// protocolOptions are about protocols of other products.
func (c *Config) protocolOptions() []Option {
	return slices.Concat(section(Service, "Dify", []Option{
		{Key: "dify_timeout", Value: "TIME", Default: "15s",
			Foreign: []string{"SANDBOX_WORKER_TIMEOUT"}, Unit: "s", field: duration(&c.DifyTimeout, time.Millisecond),
			Help: "time limit of a run that comes from Dify, which waits for 60s: more than 55s count as 55s"},
	}), section(Service, "OpenAI's API", []Option{
		{Key: "openai_upstream_url", Value: "URL", field: text(&c.Upstream.URL, checkAPI),
			Help: "model that /openai/v1 asks: any API with chat completions, as http://localhost:11434/v1; everybody with a " +
				"key may use it"},
		{Key: "openai_upstream_key", Value: "KEY", Secret: true, field: secret(&c.Upstream.Key),
			Help: "key for that model; most want none"},
	}), section(Service, "Onyx", []Option{
		{Key: "onyx_max_timeout", Value: "TIME", Default: "1m",
			Foreign: []string{"MAX_EXEC_TIMEOUT_MS"}, Unit: "ms", field: duration(&c.Onyx.MaxTimeout, time.Millisecond),
			Help: "longest time limit of a run that comes from Onyx"},
		{Key: "onyx_max_output", Value: "SIZE", Default: "1000000B",
			Foreign: []string{"MAX_OUTPUT_BYTES"}, Unit: "B", field: size(&c.Onyx.MaxOutput),
			Help: "text kept of stdout and of stderr of a run that comes from Onyx"},
		{Key: "onyx_max_file", Value: "SIZE", Default: "100MiB",
			Foreign: []string{"MAX_FILE_SIZE_MB"}, Unit: "MiB", field: size(&c.Onyx.MaxFile),
			Help: "largest file that Onyx may upload"},
		{Key: "onyx_file_ttl", Value: "TIME", Default: "1h",
			Foreign: []string{"FILE_TTL_SEC"}, Unit: "s", field: duration(&c.Onyx.FileTTL, time.Second),
			Help: "how long a file of Onyx is kept after its last use"},
		{Key: "onyx_memory", Value: "SIZE", Foreign: []string{"MEMORY_LIMIT_MB"}, Unit: "MiB", field: size(&c.Onyx.Memory),
			Help: "memory limit of a run that comes from Onyx; default_memory if it is not set"},
		{Key: "onyx_cpu_time", Value: "TIME", Default: "0s",
			Foreign: []string{"CPU_TIME_LIMIT_SEC"}, Unit: "s", field: duration(&c.Onyx.CPUTime, 0),
			Help: "processor time of a run that comes from Onyx; 0s is no limit but the one of the clock"},
		{Key: "onyx_image", Value: "IMAGE", Foreign: []string{"PYTHON_EXECUTOR_DOCKER_IMAGE"}, field: text(&c.Onyx.Image),
			Help: "name or reference of an image, which is the same as images: [onyx=NAME] where this machine has it"},
	}))
}

// libreChatOptions are about the protocol of LibreChat.
func (c *Config) libreChatOptions() []Option {
	return section(Service, "LibreChat", []Option{
		{Key: "librechat_api_key", Value: "KEY", Secret: true,
			Foreign: []string{"LIBRECHAT_CODE_API_KEY"}, field: secret(&c.LibreChat.APIKey),
			Help: "key that a LibreChat shows for all of its users; better in a file than on a command line"},
		{Key: "librechat_file_ttl", Value: "TIME", Default: "168h", field: duration(&c.LibreChat.FileTTL, time.Second),
			Help: "how long a file of LibreChat is kept after its last use"},
		{Key: "librechat_jwt_public_key", Value: "PEM|JWK",
			Foreign: []string{"CODEAPI_JWT_PUBLIC_KEY"}, field: text(&c.LibreChat.JWTPublicKey),
			Help: "public key, Ed25519 or RSA, as PEM or JSON Web Key, of the tokens that LibreChat makes for its users"},
		{Key: "librechat_jwt_kid", Value: "ID", Default: "lc-codeapi-2026-05",
			Foreign: []string{"CODEAPI_JWT_KID", "CODEAPI_JWT_KEY_ID"}, field: text(&c.LibreChat.JWTKeyID),
			Help: "id of librechat_jwt_public_key and librechat_jwt_secret in the tokens"},
		{Key: "librechat_jwt_keys_dir", Value: "DIR",
			Foreign: []string{"CODEAPI_JWT_PUBLIC_KEYS_DIR"}, field: place(&c.LibreChat.JWTKeysDir),
			Help: "directory of public keys of LibreChat's tokens, each file called after its kid, as <kid>.pem; read again " +
				"every 30 s"},
		{Key: "librechat_jwt_jwks", Value: "JSON|FILE",
			Foreign: []string{"CODEAPI_JWT_JWKS_JSON"}, field: place(&c.LibreChat.JWTKeySet),
			Help: "JSON Web Key Set of LibreChat's tokens, or the name of a file with one, which is read again every 30 s"},
		{Key: "librechat_jwt_secret", Value: "SECRET", Secret: true,
			Foreign: []string{"CODEAPI_JWT_HS256_SECRET", "CODEAPI_JWT_SECRET"}, field: secret(&c.LibreChat.JWTSecret),
			Help: "secret of LibreChat's tokens where they are signed by HS256, at least 32 bytes"},
		{Key: "librechat_jwt_secret_kid", Value: "ID",
			Foreign: []string{"CODEAPI_JWT_HS256_KID"}, field: text(&c.LibreChat.JWTSecretKeyID),
			Help: "id of librechat_jwt_secret in the tokens; librechat_jwt_kid if it is not set"},
		{Key: "librechat_jwt_algorithms", Value: "LIST",
			Foreign: []string{"CODEAPI_JWT_ALLOWED_ALGS"}, field: text(&c.LibreChat.JWTAlgorithms),
			Help: "algorithms that LibreChat's tokens may use, of EdDSA, RS256, HS256, with commas; each key's own if it is " +
				"not set"},
		{Key: "librechat_jwt_trust", Value: "JSON",
			Foreign: []string{"CODEAPI_JWT_TRUST_ENTRIES_JSON"}, field: text(&c.LibreChat.JWTTrust),
			Help: "list of issuers with their audiences, keys, algorithms and sources, in the place of librechat_jwt_issuer, " +
				"_audience, _algorithms"},
		{Key: "librechat_jwt_max_life", Value: "TIME", Default: "5m",
			Foreign: []string{"CODEAPI_JWT_MAX_TTL_SECONDS"}, Unit: "s", field: duration(&c.LibreChat.JWTMaxLife, time.Second),
			Help: "longest life of a token of LibreChat's, at most 5m"},
		{Key: "librechat_jwt_skew", Value: "TIME", Default: "30s",
			Foreign: []string{"CODEAPI_JWT_CLOCK_SKEW_SECONDS"}, Unit: "s", field: duration(&c.LibreChat.JWTSkew, 0),
			Help: "by how much the clock of LibreChat may differ from ours, at most 30s"},
		{Key: "librechat_jwt_issuer", Value: "NAME", Default: "librechat",
			Foreign: []string{"CODEAPI_JWT_ISSUER"}, field: text(&c.LibreChat.JWTIssuer),
			Help: "who must have issued LibreChat's tokens"},
		{Key: "librechat_jwt_audience", Value: "NAME", Default: "codeapi",
			Foreign: []string{"CODEAPI_JWT_AUDIENCE"}, field: text(&c.LibreChat.JWTAudience),
			Help: "for whom LibreChat's tokens must be"},
		{Key: "librechat_jwt_tenant", Value: "NAME", Default: "legacy",
			Foreign: []string{"CODEAPI_JWT_SINGLE_TENANT_ID"}, field: text(&c.LibreChat.JWTTenant),
			Help: "tenant of a token of LibreChat's that names none"},
		{Key: "librechat_jwt_strict_tenant", Default: "false",
			Foreign: []string{"CODEAPI_TENANT_ISOLATION_STRICT", "TENANT_ISOLATION_STRICT"},
			field:   truth(&c.LibreChat.JWTStrictTenant),
			Help:    "refuse tokens of LibreChat's that name no tenant"},
		{Key: "librechat_user_scope", Value: "MODE", Default: UserScopeShared,
			field: text(&c.LibreChat.UserScope, oneOf(UserScopeShared, UserScopeStrict)),
			Help: "what requests with a LibreChat key that name no user may do: shared lets them find every user's files by " +
				"their ids, strict refuses them"},
		{Key: "librechat_unknown_session", Value: "ANSWER", Default: "auto",
			field: text(&c.LibreChat.UnknownSession, oneOf("auto", "404", "403", "empty")),
			Help: "what a listing of an unknown session answers LibreChat: 404, 403, empty, or auto (404 for a summary, else " +
				"empty)"},
		{Key: "librechat_python_state", Value: "WHICH", Default: "off",
			field: text(&c.LibreChat.PythonState, oneOf("off", "hint", "on")),
			Help: "which LibreChat programs go on with the files and Python variables of the last one: off, hint (with one " +
				"runtime_session_hint), on (also with one session_id, entity_id or session of files)"},
		{Key: "librechat_peer_ptc_errors", Default: "false", field: truth(&c.LibreChat.PeerErrors),
			Help: "answer a bad programmatic request of LibreChat with 200 and an error in the body, " +
				"as LibreCodeInterpreter does"},
	})
}

// limitOptions bound owners and runs.
func (c *Config) limitOptions() []Option {
	return slices.Concat(section(Service, "Limits of one owner", []Option{
		{Key: "owner_runs", Value: "N", Default: "0", field: count(&c.OwnerRuns, 0),
			Help: "runs of one owner at the same time; 0 is all of --concurrency while there are no keys, and one less when " +
				"there are"},
		{Key: "owner_queue", Value: "N", Default: "64", field: count(&c.OwnerQueue, 1),
			Help: "runs of one owner that may wait for their turn"},
		{Key: "owner_rate", Value: "N", Default: "200", field: count(&c.OwnerRate, 1),
			Help: "requests of one owner in a second, twice as many in a burst; callers on this machine without a key are not " +
				"counted"},
		{Key: "owner_disk", Value: "SIZE", Default: "20GiB", field: size(&c.OwnerDisk),
			Help: "files that one owner may keep, together"},
		{Key: "owner_files", Value: "N", Default: "200000", field: count(&c.OwnerFiles, 0),
			Help: "number of files that one owner may keep; 0 is no limit"},
		{Key: "owner_sessions", Value: "N", Default: "1000", field: count(&c.OwnerSessions, 0),
			Help: "sessions that one owner may keep open; 0 is no limit"},
		{Key: "owner_live", Value: "N", Default: "16", field: count(&c.OwnerLive, 1),
			Help: "live interpreters of one owner; one more ends the one that was idle for longest, or waits as runs do"},
		{Key: "owner_month", Value: "AMOUNTS", field: text(&c.OwnerMonth),
			Help: "what one owner may use in a month of UTC, as runs=10000,cpu=100h,memory=500GiBh,stored=10GiB,sent=100GiB, " +
				"or some of these; then nothing new is begun until the next one"},
		{Key: "owner_results", Value: "SIZE", Default: "1GiB", field: size(&c.OwnerResults),
			Help: "output of runs that is kept for one owner; beyond it the oldest runs are forgotten early"},
	}), section(Service, "Limits of one run", []Option{
		{Key: "default_timeout", Value: "TIME", Default: "1m", field: duration(&c.DefaultTimeout, time.Millisecond),
			Help: "time limit of a run that names none"},
		{Key: "max_timeout", Value: "TIME", Default: "5m", field: duration(&c.MaxTimeout, time.Millisecond),
			Help: "longest time limit that a run may ask for"},
		{Key: "default_memory", Value: "SIZE", Default: "1GiB", field: size(&c.DefaultMemory),
			Help: "memory limit of a run that names none"},
		{Key: "max_memory", Value: "SIZE", Default: "1GiB", field: size(&c.MaxMemory),
			Help: "largest memory limit that a run may ask for"},
		{Key: "default_processes", Value: "N", Default: "128", field: count(&c.DefaultProcesses, 1),
			Help: "processes and threads of a run that names no limit"},
		{Key: "max_processes", Value: "N", Default: "128", field: count(&c.MaxProcesses, 1),
			Help: "largest process limit that a run may ask for"},
		{Key: "default_output", Value: "SIZE", Default: "1MiB", field: size(&c.DefaultOutput),
			Help: "text kept of stdout and of stderr where a run names no limit"},
		{Key: "max_output", Value: "SIZE", Default: "1MiB", field: size(&c.MaxOutput),
			Help: "largest output limit that a run may ask for"},
	}))
}

// projectOptions are about projects and tools.
func (c *Config) projectOptions() []Option {
	return slices.Concat(section(Service, "Projects and tools", []Option{
		{Key: "workspace", Value: "DIR", Many: true, field: texts(&c.Workspaces, checkFolder),
			Help: "folder that callers may link with a project, and all below it; may be repeated; none by default"},
		{Key: "code_interpreter_url", Value: "URL",
			Foreign: []string{"CODE_INTERPRETER_BASE_URL"}, field: text(&c.CodeInterpreter),
			Help: "service that the run_python tool uses, as http://host:8000/onyx; without it this one"},
		{Key: "demo_project", Default: "false", field: truth(&c.DemoProject),
			Help: "serve a project API to try things out with, under /demo"},
	}), section(Project, "Projects", []Option{
		{Key: "api", Value: "URL", field: text(&c.API, checkAPI),
			Help: "the project's API, as https://projects.example.com; else the one of the project's link"},
		{Key: "api_token", Value: "TOKEN", Secret: true, field: secret(&c.APIToken),
			Help: "token for that API; better in AIRLOCK_API_TOKEN or a file than on a command line"},
		{Key: "policy", Value: "FILE", field: text(&c.Policy),
			Help: "JSON file with rules that approve changes of files without asking; docs/workspace.md explains them"},
		{Key: "editor", Value: "COMMAND", Foreign: []string{"VISUAL", "EDITOR"}, Default: "vi", field: text(&c.Editor),
			Help: "program with which a proposed file is edited"},
	}))
}

// modelOptions are about models and the accounts at their providers.
func (c *Config) modelOptions() []Option {
	return slices.Concat(section(Models, "Model", []Option{
		{Key: "provider", Value: "NAME", field: text(&c.Provider, oneOf("openai", "anthropic", "gemini", "xai", "local")),
			Help: "who runs the model's code: openai, anthropic, gemini, xai, or local for this machine's sandbox"},
		{Key: "model", Value: "NAME", field: text(&c.Model),
			Help: "the model, by its provider's name for it"},
		{Key: "hints", Value: "MODE", Default: "auto", field: text(&c.Hints, oneOf("auto", "off")),
			Help: "off tells the model nothing about where its files are and go; auto tells it what is known to help"},
		{Key: "max_download", Value: "SIZE", Default: "100MiB", field: size(&c.MaxDownload),
			Help: "largest file that is fetched from a provider"},
	}), section(Models, "Local provider", []Option{
		{Key: "model_url", Value: "URL", field: text(&c.ModelURL, checkAPI),
			Help: "endpoint of the model of --provider local that speaks OpenAI's API, as http://localhost:11434/v1; on the " +
				"command line also for --provider openai, with model_key"},
		{Key: "model_key", Value: "KEY", Secret: true, field: secret(&c.ModelKey),
			Help: "key for that endpoint; most want none"},
	}), section(Models, "OpenAI", []Option{
		{Key: "openai_api_key", Value: "KEY", Secret: true,
			Foreign: []string{"OPENAI_API_KEY"}, field: secret(&c.OpenAI.Key),
			Help: "key for OpenAI; better in OPENAI_API_KEY or a file than on a command line"},
		{Key: "openai_base_url", Value: "URL", Foreign: []string{"OPENAI_BASE_URL"}, field: text(&c.OpenAI.URL, checkAPI),
			Help: "address of OpenAI's API, where it is another"},
		{Key: "openai_organization", Value: "ID", Foreign: []string{"OPENAI_ORG_ID"}, field: text(&c.OpenAIOrganization),
			Help: "organization at OpenAI; empty: the key's"},
		{Key: "openai_project", Value: "ID", Foreign: []string{"OPENAI_PROJECT_ID"}, field: text(&c.OpenAIProject),
			Help: "project at OpenAI; empty: the key's"},
	}), section(Models, "Anthropic", []Option{
		{Key: "anthropic_api_key", Value: "KEY", Secret: true,
			Foreign: []string{"ANTHROPIC_API_KEY"}, field: secret(&c.Anthropic.Key),
			Help: "key for Anthropic"},
		{Key: "anthropic_base_url", Value: "URL",
			Foreign: []string{"ANTHROPIC_BASE_URL"}, field: text(&c.Anthropic.URL, checkAPI),
			Help: "address of Anthropic's API, without /v1, where it is another"},
	}), section(Models, "Gemini", []Option{
		{Key: "gemini_api_key", Value: "KEY", Secret: true,
			Foreign: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, field: secret(&c.Gemini.Key),
			Help: "key for Gemini"},
		{Key: "gemini_base_url", Value: "URL", Foreign: []string{"GOOGLE_GEMINI_BASE_URL"},
			field: text(&c.Gemini.URL, checkAPI),
			Help:  "address of Gemini's API, where it is another"},
	}), section(Models, "xAI", []Option{
		{Key: "xai_api_key", Value: "KEY", Secret: true, Foreign: []string{"XAI_API_KEY"}, field: secret(&c.XAI.Key),
			Help: "key for xAI"},
		{Key: "xai_base_url", Value: "URL", Foreign: []string{"XAI_BASE_URL"}, field: text(&c.XAI.URL, checkAPI),
			Help: "address of xAI's API, where it is another"},
	}))
}

// clientOptions are about the terminal, and name a service elsewhere.
func (c *Config) clientOptions() []Option {
	return slices.Concat(section(Client, "Terminal", []Option{
		{Key: "pictures", Value: "HOW", Default: PicturesAuto, field: text(&c.Pictures, oneOf(PicturesAuto, PicturesKitty,
			PicturesITerm2, PicturesSixel, PicturesOff)),
			Help: "how run and repl draw pictures: kitty, iterm2 or sixel; auto asks the terminal, off says where they are"},
	}), section(Client, "Service elsewhere", []Option{
		{Key: "server", Value: "URL", field: text(&c.Server, checkServer),
			Help: "use the service at this address, as http://host:8000, not this machine"},
		{Key: "key", Value: "KEY", Secret: true, field: secret(&c.Key),
			Help: "key for that service; better in AIRLOCK_KEY or a file than on a command line"},
	}))
}
