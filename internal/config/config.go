// Package config loads the settings of Airlock. There is one table of options. Each row
// is a flag (--max-upload), an environment variable (AIRLOCK_MAX_UPLOAD) and a key of
// airlock.yaml (max_upload). A flag overrides the environment, the environment the file,
// and the file the default. Config records the origin of each value.
//
// The file is the one that --config names. Without the flag there are two:
// /etc/airlock/airlock.yaml, and <data>/airlock.yaml, which overrides it. Root reads only
// the first: the unprivileged service can write to its data directory, and must not
// control root.
//
// No other package of Airlock reads the environment.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// SystemFile is the settings file of the whole machine.
const SystemFile = "/etc/airlock/airlock.yaml"

// FileName is the settings file inside the data directory.
const FileName = "airlock.yaml"

// Config holds the effective settings. Load sets its fields through the option table.
type Config struct {
	Data      string // data directory; absolute
	LogLevel  slog.Level
	LogFormat string // LogJSON, or text
	Verbose   bool

	Listen          string         // host:port
	OTLPEndpoint    string         // of an OpenTelemetry collector; empty: nothing is sent
	FirstKey        Secret         // token of the first key; empty: it is made by a command
	MetricsToken    Secret         // gives access to the metrics only; empty: none
	TrustNetworks   []netip.Prefix // callers from these networks need no key
	AllowHosts      []string       // host names that those callers may use
	PublicURL       string         // address for clients, with or without a slash at its end
	MCPIssuer       string         // issuer of access tokens for /mcp, spelled as in them
	SignIn          SignIn
	E2BDomain       string         // domain of the host names of sandboxes; may have a port
	NetworkAllow    []string       // rules of what programs may contact; see engine.NetworkRule
	NetworkPrivate  []netip.Prefix // private networks to which those rules apply
	NetworkInspect  bool
	NetworkInject   Secret // lines of HOST HEADER: VALUE
	NetworkMaxBytes int64
	Packages        []string      // rules that give programs a set of Python packages; see checkPackages
	Images          []string      // rules that give programs an image; see checkImages
	WarmImages      []string      // names of images whose interpreters are kept ready
	Mounts          []string      // NAME=FOLDER or NAME=FOLDER:rw
	MountAccess     []string      // NAME or key:ID=NAME, also with :ro
	VolumesDir      string        // see Volumes
	Isolation       string        // IsolationStrict or IsolationBest
	Wall            string        // WallShared or WallGVisor
	Warm            bool          // keep sandboxes warm
	DrainTime       time.Duration // for running programs at shutdown

	Role           string // RoleAll, RoleAPI or RoleWorker
	WorkerToken    Secret
	WorkerTokens   Secret // of an api
	ApproveWorkers bool
	WorkerAPIs     []string // URLs
	Advertise      string   // host:port; empty: Listen
	NodeName       string   // empty: see Node

	Database    Secret // of the index; empty: in the data directory
	Blobs       string // bucket, see bucket.ParseAddress; empty: in the data directory
	BlobCache   int64
	ImageCache  int64 // bytes
	MaxUpload   int64
	MinFree     int64 // bytes of the disk that stay free; 0: a part of it
	Concurrency int   // 0: twice the number of cores
	Queue       int
	QueueTime   time.Duration
	FileTTL     time.Duration
	RunTTL      time.Duration
	SnapshotTTL time.Duration
	KeepCode    bool // of runs

	// Limits of one owner.
	OwnerRuns, OwnerQueue     int // at once, and waiting; OwnerRuns 0: see its option
	OwnerRate                 int // requests a second
	OwnerDisk                 int64
	OwnerMonth                string
	UsageTTL, AuditTTL        time.Duration
	OwnerFiles, OwnerSessions int // 0: no limit
	OwnerResults              int64

	// Live interpreters.
	Live, OwnerLive int // Live 0: by memory
	LiveIdle        time.Duration

	DefaultTimeout, MaxTimeout     time.Duration
	DefaultMemory, MaxMemory       int64
	DefaultProcesses, MaxProcesses int
	DefaultOutput, MaxOutput       int64

	RootDialect string // DialectOnyx, DialectLibreChat, or empty
	Onyx        Onyx
	LibreChat   LibreChat
	DifyTimeout time.Duration // of a run for Dify
	Upstream    Account       // model behind /openai/v1; no URL: none

	Workspaces      []string // folders that callers may link with a project
	ProjectAPIs     []string // private addresses that callers may name
	CodeInterpreter string   // URL of the run_python tool's service; empty: none
	DemoProject     bool     // serve a project API under /demo

	API      string // of a project; empty: the one of its link
	APIToken Secret // for that API
	Policy   string // file with rules that approve changes; empty: none
	Editor   string

	Provider    string // of models: "openai", ...; empty: not chosen
	Model       string
	Hints       string // "auto" or "off"
	MaxDownload int64
	ModelURL    string // of provider local
	ModelKey    Secret

	// The accounts at providers.
	OpenAI, Anthropic, Gemini, XAI    Account
	OpenAIOrganization, OpenAIProject string

	Server string // URL of a remote service; empty: this machine
	Key    Secret // for that service

	// State is the directory for what commands remember of a person, as the history of inputs.
	// It is empty without a home directory.
	State string

	// Pictures says how pictures are drawn on a terminal, one of the constants. PicturesAuto is left
	// where the environment does not tell: the terminal has to be asked.
	Pictures string

	// Plain is set if the environment asks for output without colour.
	Plain bool
	// Dumb is set if the terminal knows no escape sequences.
	Dumb bool

	origins map[string]string
	image   string
}

// Account is an account at a provider of models.
type Account struct {
	Key Secret
	URL string // empty: the provider's own
}

// The values of Config.Isolation.
const (
	IsolationStrict = "strict" // refuse to start without limits of memory and processes
	IsolationBest   = "best"   // start with what the host can enforce

	WallShared = "shared" // programs share the machine's kernel
	WallGVisor = "gvisor" // each has a kernel of its own
)

// The values of Config.LogFormat.
const (
	LogText = "text"
	LogJSON = "json"
)

// The values of Config.RootDialect.
const (
	DialectOnyx      = "onyx"
	DialectLibreChat = "librechat"
)

// Onyx holds the settings of the dialect of Onyx.
type Onyx struct {
	MaxTimeout time.Duration
	MaxOutput  int64
	MaxFile    int64
	FileTTL    time.Duration
	Memory     int64         // 0: the service's default
	CPUTime    time.Duration // 0: no limit
	Image      string        // name or reference of an image; empty: what Images says
}

// LibreChat holds the settings of the dialect of LibreChat.
type LibreChat struct {
	APIKey  Secret // one key for a whole LibreChat; empty: none
	FileTTL time.Duration

	// The tokens that LibreChat makes for its users. Without a key none is accepted.
	JWTPublicKey, JWTKeyID, JWTKeysDir, JWTKeySet string
	JWTSecret                                     Secret
	JWTSecretKeyID                                string
	JWTIssuer, JWTAudience, JWTTenant             string
	JWTStrictTenant                               bool
	JWTAlgorithms, JWTTrust                       string
	JWTMaxLife, JWTSkew                           time.Duration

	UserScope      string // UserScopeShared or UserScopeStrict
	UnknownSession string
	PythonState    string
	PeerErrors     bool
}

// The values of LibreChat.UserScope.
const (
	UserScopeShared = "shared"
	UserScopeStrict = "strict"
)

// Error reports a setting that is not acceptable, and its origin.
type Error struct {
	Setting string // the option's key, or the file's name
	Origin  string // "--listen", "AIRLOCK_LISTEN", "/etc/airlock/airlock.yaml:3"
	Hint    string
	Err     error
}

func (e *Error) Error() string {
	if e.Origin == "" || e.Origin == e.Setting {
		return fmt.Sprintf("%s: %v", e.Setting, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Origin, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Input is what Load reads from.
type Input struct {
	File  string              // named by --config; empty: AIRLOCK_CONFIG, else the usual places
	Flags map[string][]string // values of flags, by key of their option

	Program string // name of this binary; see OnyxProgram

	Lookup func(name string) (string, bool) // the environment; nil: the process's
	Root   bool                             // the process is root
	Home   string                           // the user's home directory
	System string                           // empty: SystemFile
	Image  string                           // empty: ImageData
}

// FromProcess returns the Input of this process, without flags.
func FromProcess() Input {
	home, _ := os.UserHomeDir()
	return Input{Program: filepath.Base(os.Args[0]), Lookup: os.LookupEnv, Root: os.Geteuid() == 0, Home: home}
}

// NoFile is the name of the settings file that means none is read.
const NoFile = "none"

// Load reads all sources and returns the effective settings.
func Load(in Input) (*Config, error) {
	if in.Lookup == nil {
		in.Lookup = os.LookupEnv
	}
	in.System = cmp.Or(in.System, SystemFile)
	if in.File == "" {
		in.File, _ = in.Lookup(envName("config"))
	}
	c := &Config{origins: map[string]string{}, image: cmp.Or(in.Image, ImageData)}
	table := c.options()
	for _, o := range table {
		var values []string
		if o.Default != "" {
			values = []string{o.Default}
		}
		if err := c.set(&o, values, "default"); err != nil {
			return nil, err
		}
	}
	system, err := c.readFirst(in)
	if err != nil {
		return nil, err
	}
	env, err := fromEnvironment(in.Lookup)
	if err != nil {
		return nil, err
	}
	flags, err := fromFlags(in.Flags)
	if err != nil {
		return nil, err
	}
	// The data directory comes first: the second file is inside it.
	if err := c.locate(in, flags, env, system); err != nil {
		return nil, err
	}
	layers := []settings{fromName(in), system}
	if in.File == "" && !in.Root {
		own, err := readFile(filepath.Join(c.Data, FileName), false)
		if err != nil {
			return nil, err
		}
		if s, ok := own["data"]; ok {
			return nil, &Error{Setting: "data", Origin: s.origin, Err: errors.New(
				"the file inside the data directory cannot move it"),
				Hint: "use --data, AIRLOCK_DATA or " + in.System}
		}
		layers = append(layers, own)
	}
	for _, layer := range append(layers, env, flags) {
		for _, o := range table {
			if s, ok := layer[o.Key]; ok && o.Key != "data" {
				if err := c.set(&o, s.values, s.origin); err != nil {
					return nil, err
				}
			}
		}
	}
	c.State = stateOf(in)
	if c.Pictures == PicturesAuto {
		c.Pictures = picturesOf(in)
	}
	noColour, _ := in.Lookup("NO_COLOR")
	terminal, _ := in.Lookup("TERM")
	c.Dumb = terminal == "dumb"
	c.Plain = c.Dumb || noColour != ""
	return c, c.finalize()
}

// readFirst reads the file that the input names, else the system's.
func (c *Config) readFirst(in Input) (settings, error) {
	switch in.File {
	case NoFile:
		return nil, nil
	case "":
		return readFile(in.System, false)
	}
	return readFile(in.File, true)
}

// locate finds the data directory: in the first of the sources that names it, else
// at the usual place for this user.
func (c *Config) locate(in Input, sources ...settings) error {
	for _, source := range sources {
		if s, ok := source["data"]; ok {
			return c.set(find(c.options(), "data"), s.values, s.origin)
		}
	}
	if in.Root {
		c.Data = RootData
		return nil
	}
	if dir, ok := in.Lookup("XDG_DATA_HOME"); ok && filepath.IsAbs(dir) {
		c.Data = filepath.Join(dir, "airlock")
		return nil
	}
	if in.Home == "" {
		return &Error{Setting: "data", Err: errors.New("no home directory, so no place for the data"),
			Hint: "name one with --data DIR"}
	}
	c.Data = filepath.Join(in.Home, ".local", "share", "airlock")
	return nil
}

// finalize sets what depends on other settings, and checks them together.
func (c *Config) finalize() error {
	if c.Isolation == "" {
		c.Isolation, c.origins["isolation"] = IsolationBest, "default on loopback"
		if !c.Loopback() {
			c.Isolation, c.origins["isolation"] = IsolationStrict, "default beyond loopback"
		}
	}
	if c.Verbose && c.LogLevel > slog.LevelDebug {
		c.LogLevel, c.origins["log_level"] = slog.LevelDebug, c.origins["verbose"]
	}
	return cmp.Or(c.checkWritable(), pair(c, "timeout", &c.DefaultTimeout, &c.MaxTimeout),
		pair(c, "memory", &c.DefaultMemory, &c.MaxMemory),
		pair(c, "processes", &c.DefaultProcesses, &c.MaxProcesses),
		pair(c, "output", &c.DefaultOutput, &c.MaxOutput))
}

// checkWritable returns an error if programs could write to the data directory by a mount.
func (c *Config) checkWritable() error {
	for _, m := range c.Mounts {
		if _, folder, write := Mount(m); write && (within(folder, c.Data) || within(c.Data, folder)) {
			return &Error{Setting: "mounts", Origin: c.origins["mounts"],
				Err:  fmt.Errorf("programs could write to the data directory %s by %q", c.Data, m),
				Hint: "name a folder apart from it; a volume is a folder that Airlock keeps"}
		}
	}
	return nil
}

// within reports whether a path is a folder or below it.
func within(folder, at string) bool {
	rel, err := filepath.Rel(folder, at)
	return err == nil && filepath.IsLocal(rel)
}

// pair keeps the default limit of a run within the largest one. If only one of the two
// was set, the other follows it.
func pair[T int | int64 | time.Duration](c *Config, name string, usual, most *T) error {
	a, b := "default_"+name, "max_"+name
	switch {
	case *usual <= *most:
	case c.origins[b] == "default":
		*most, c.origins[b] = *usual, c.origins[a]
	case c.origins[a] == "default":
		*usual, c.origins[a] = *most, c.origins[b]
	default:
		return &Error{Setting: a, Origin: c.origins[a], Err: fmt.Errorf("%s is above %s (%s)", a, b, c.origins[b]),
			Hint: "set it lower, or " + b + " higher"}
	}
	return nil
}

// Strict reports whether a sandbox without limits of memory and processes is refused.
func (c *Config) Strict() bool { return c.Isolation == IsolationStrict }

// Loopback reports whether only this machine can reach Listen.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && IsLoopback(host)
}

// IsLoopback reports whether a host name or an address is of this machine's loopback.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// The roles of a process.
const (
	RoleAll    = "all"
	RoleAPI    = "api"
	RoleWorker = "worker"
)

// Node returns the name of this process in a cluster, and its address for others.
func (c *Config) Node() (name, address string) {
	address = cmp.Or(c.Advertise, c.Listen)
	if name = c.NodeName; name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "airlock"
		}
		_, port, _ := net.SplitHostPort(address)
		name = host + "-" + port
	}
	return name, address
}

// Socket returns the path of the unix socket of a service on this data directory.
func (c *Config) Socket() string { return filepath.Join(c.Data, "airlock.sock") }

// RootData is the default data directory of a service that root starts.
const RootData = "/var/lib/airlock"

// Runtimes returns the directory of the installed language packages.
func (c *Config) Runtimes() string { return filepath.Join(c.Installed(), "runtimes") }

// Volumes is the folder of the volumes; empty: there are none, since programs run on other machines.
func (c *Config) Volumes() string {
	if c.VolumesDir != "" || c.Role != RoleAll {
		return c.VolumesDir
	}
	return filepath.Join(c.Data, "volumes")
}

// ImageData is the directory of packages that setup installed when a container's image was
// built. The data directory is a volume, which may be older than the image.
const ImageData = "/opt/airlock"

// Installed returns the directory in which setup installed packages: the data directory,
// or the image's if the data directory has none.
func (c *Config) Installed() string {
	for _, dir := range []string{c.Data, c.image} {
		if _, err := os.Stat(filepath.Join(dir, "runtimes")); err == nil {
			return dir
		}
	}
	return c.Data
}

func (c *Config) set(o *Option, values []string, origin string) error {
	if err := o.field.set(values); err != nil {
		return &Error{Setting: o.Key, Origin: origin, Err: err, Hint: o.Help}
	}
	c.origins[o.Key] = origin
	return nil
}
