package provider

import (
	"context"
	"io"
	"iter"
	"time"
)

// Provider is a service that runs a model's code next to files. One value serves
// one account; its methods may be called from many goroutines at once.
//
// A method tries once. Retrying, recording and cleaning up are wrappers and parts
// around the interface ([Retry], [Ledger], [Collector], [Tracker]). An
// implementation that must retry a step within a method (a part of a large upload)
// uses [Retry.Do], whose error no outer Do repeats.
//
// Every error is or wraps an [*Error].
type Provider interface {
	// Name is one of the names of this package: "openai", "anthropic", ...
	Name() string
	// Account tells accounts apart without naming them: a hash of the address
	// and the key. Ids of one account mean nothing in another.
	Account() string
	Caps() Capabilities
	// Check asks the service, without spending a token, whether the key is
	// accepted and the model exists. An empty model checks only the key.
	Check(ctx context.Context, model string) error
	Files() FileStore
	Sessions() SessionStore // [NoSessions] where the provider has none
	// Run asks the model and returns when its turn is over, after all the requests
	// that the turn takes (paused turns, function calls). Events go to sink as they
	// come, from the caller's goroutine; with a nil sink an implementation need not
	// stream. A result may come with an error: the partial result of a turn that
	// broke off, whose files exist.
	Run(ctx context.Context, r RunRequest, sink Sink) (*RunResult, error)
}

// The names of the providers.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Gemini    = "gemini"
	XAI       = "xai"
	Local     = "local"
)

// OutputMode is how a provider returns the files that code made.
type OutputMode string

// The output modes.
const (
	OutputStdout  OutputMode = "stdout"  // framed in the output, see [Frame]; some also return inline pictures
	OutputByID    OutputMode = "by id"   // ids in the blocks of the reply
	OutputListing OutputMode = "listing" // a session that can be listed
)

// Capabilities describes what a provider supports and its limits. Zero sizes and
// times mean "no known limit".
type Capabilities struct {
	Outputs OutputMode

	Sessions      bool // a run can use the state of an earlier one
	SessionCreate bool // sessions can be created before a run; else a run creates its own
	SessionFiles  bool // the files of sessions can be listed
	SessionDelete bool
	SessionTouch  bool // looking at a session keeps it alive

	UploadReadable bool // uploads can be downloaded
	UploadTTL      bool // an upload can be given a lifetime
	InlineUpload   bool // small files can travel within the request
	ExitCode       bool
	SplitStderr    bool
	Stream         bool
	See            bool // images and PDFs can be shown to the model
	Functions      bool // the model can call functions of the caller
	Schema         bool // the answer can be made to follow a JSON schema

	Limits    Limits
	IdleTTL   time.Duration // a session without use expires after this
	FileTTL   time.Duration // an upload without a lifetime expires after this; 0: never
	TTLMin    time.Duration
	TTLMax    time.Duration
	Tools     []Tool   // the values of RunRequest.Tool, the preferred one first
	Languages []string // "python", "bash"
}

// Limits are checked before a byte is sent, see [Limits.Check].
type Limits struct {
	Upload     int64    // bytes of one file
	Total      int64    // bytes of all files of a turn
	Count      int      // files of a turn
	Inline     int64    // bytes that may travel within the request
	NameLength int      // characters of a file's name
	NameBars   string   // characters that a name must not have
	Output     int64    // bytes of one output
	MIMETypes  []string // prefixes of accepted types; empty accepts all
}

// FileStore is the provider's store of files.
type FileStore interface {
	// Upload sends a file. The body is streamed: memory does not grow with it.
	Upload(ctx context.Context, u Upload) (FileInfo, error)
	// Stat returns the description of a file, also of one in a session.
	Stat(ctx context.Context, r FileRef) (FileInfo, error)
	// List returns the files of the account, newest first where the
	// provider can. An error ends it.
	List(ctx context.Context, f Filter) iter.Seq2[FileInfo, error]
	// Open downloads a file from byte offset on (see [Body]). An error that the
	// provider sends is never returned as content.
	Open(ctx context.Context, r FileRef, offset int64) (io.ReadCloser, FileInfo, error)
	// Delete removes a file. It succeeds if the file does not exist.
	Delete(ctx context.Context, r FileRef) error
}

// Upload is a file to be sent.
type Upload struct {
	Name    string // the base name that the model sees
	MIME    string // derived from the name when empty
	Purpose string // the provider's value; empty: the one for code execution
	Size    int64  // 0: that of Body, if it is an io.Seeker or has a Len; -1: not known
	// Body is read once. An attempt can only be repeated when it is an
	// io.Seeker too.
	Body io.Reader
	TTL  time.Duration // used where UploadTTL, the nearest that it has; 0: the provider's default
	// SHA256 in hex, when known.
	SHA256 string
	// Progress is called with the number of bytes handed to the network; may be nil.
	Progress func(sent int64)
}

// Scope says where a file lives.
type Scope string

// Where a file lives.
const (
	ScopeFile    Scope = "file"    // in the account's file store
	ScopeSession Scope = "session" // inside a session
	ScopeInline  Scope = "inline"  // in the reply itself: FileRef.Inline has the bytes
)

// FileRef names a remote file. Fields that a provider does not need are empty.
type FileRef struct {
	Provider string `json:"provider"`
	Scope    Scope  `json:"scope"`
	ID       string `json:"id,omitempty"`
	Session  string `json:"session,omitempty"`
	Path     string `json:"path,omitempty"` // inside the session
	URI      string `json:"uri,omitempty"`  // for requests, where it is not the id
	Inline   []byte `json:"inline,omitempty"`
}

// Filter narrows a list.
type Filter struct {
	Name         string    // exactly this name
	CreatedAfter time.Time // and not older
}

// Origin says who made a file.
type Origin string

// Who made a file.
const (
	OriginUser  Origin = "user"
	OriginModel Origin = "model"
)

// State says whether a file can be used.
type State string

// Whether a file can be used.
const (
	StateReady   State = "ready"
	StatePending State = "pending" // the provider is still processing it
	StateFailed  State = "failed"
	StateExpired State = "expired"
)

// FileInfo is a provider's description of a file.
type FileInfo struct {
	Ref      FileRef   `json:"ref"`
	Name     string    `json:"name"` // without the provider's prefix
	MIME     string    `json:"mime,omitempty"`
	Size     int64     `json:"size"` // -1: unknown
	Created  time.Time `json:"created,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Origin   Origin    `json:"origin,omitempty"`
	Readable bool      `json:"readable"` // Open should work
	State    State     `json:"state,omitempty"`
	SHA256   string    `json:"sha256,omitempty"` // hex, where the provider returns it
}

// SessionStore manages sessions, in which code runs and files stay between runs: OpenAI's
// containers, Airlock's own sandbox.
type SessionStore interface {
	Create(ctx context.Context, s SessionSpec) (Session, error)
	Get(ctx context.Context, id string) (Session, error)
	// List returns the sessions of the account.
	List(ctx context.Context, f Filter) iter.Seq2[Session, error]
	// Touch restarts the idle clock.
	Touch(ctx context.Context, id string) error
	// Files lists the files of a session: inputs and those that code made.
	Files(ctx context.Context, id string) iter.Seq2[FileInfo, error]
	// Add puts an uploaded file into a session.
	Add(ctx context.Context, id string, f FileInfo) (FileInfo, error)
	// Delete ends a session. It succeeds if the session does not exist.
	Delete(ctx context.Context, id string) error
}

// NoSessions is the SessionStore of a provider without sessions.
type NoSessions struct{ Provider string }

func (n NoSessions) refused() error {
	return &Error{Kind: Invalid, Provider: n.Provider, Op: "session", Message: "this provider has no sessions"}
}

// Create implements SessionStore.
func (n NoSessions) Create(context.Context, SessionSpec) (Session, error) {
	return Session{}, n.refused()
}

// Get implements SessionStore.
func (n NoSessions) Get(context.Context, string) (Session, error) { return Session{}, n.refused() }

// List implements SessionStore: there are none.
func (n NoSessions) List(context.Context, Filter) iter.Seq2[Session, error] {
	return func(func(Session, error) bool) {}
}

// Touch implements SessionStore.
func (n NoSessions) Touch(context.Context, string) error { return n.refused() }

// Files implements SessionStore.
func (n NoSessions) Files(context.Context, string) iter.Seq2[FileInfo, error] {
	return func(yield func(FileInfo, error) bool) { yield(FileInfo{}, n.refused()) }
}

// Add implements SessionStore.
func (n NoSessions) Add(context.Context, string, FileInfo) (FileInfo, error) {
	return FileInfo{}, n.refused()
}

// Delete implements SessionStore. There is nothing to delete.
func (n NoSessions) Delete(context.Context, string) error { return nil }

// SessionSpec describes a new session.
type SessionSpec struct {
	Name    string // unique, so that a session can be found if its id got lost
	Files   []FileInfo
	Memory  string        // "1g", "4g", ...: the provider's value; empty: its default
	IdleTTL time.Duration // 0: the provider's default
	Network Network
}

// Network is the network access of code in a session.
type Network struct {
	Allowed bool
	Domains []string // with Allowed: only these; empty: the provider's default
}

// Session is a provider's description of a session.
type Session struct {
	ID       string        `json:"id"`
	Name     string        `json:"name,omitempty"`
	Created  time.Time     `json:"created,omitzero"`
	LastUsed time.Time     `json:"last_used,omitzero"`
	Expires  time.Time     `json:"expires,omitzero"` // the last known time
	IdleTTL  time.Duration `json:"idle_ttl,omitempty"`
	Active   bool          `json:"active"`
}
