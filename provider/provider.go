package provider

import (
	"context"
	"io"
	"iter"
	"time"
)

// Provider is a service that runs a model's code next to the files that it was
// given. One value serves one account; its methods may be called at once from
// many goroutines.
//
// A method tries once. Retrying, recording what was made and cleaning up are
// wrappers and parts around the interface ([Retry], [Ledger], [Collector],
// [Tracker]); an implementation that must retry a step within a method (a part
// of a large upload) does so with [Retry.Do], whose error no outer Do repeats.
//
// Every error is or wraps an [*Error].
type Provider interface {
	// Name is one of the names of this package: "openai", "anthropic", ...
	Name() string
	// Account tells accounts apart without naming them: a hash of the address
	// and the key. Ids of one account mean nothing in another.
	Account() string
	Caps() Capabilities
	// Check asks the service, before a token is spent, whether the key is
	// accepted and the model is there. An empty model checks the key alone.
	Check(ctx context.Context, model string) error
	Files() FileStore
	Sessions() SessionStore // [NoSessions] where the provider has none
	// Run asks the model and returns when its turn is over, with all the calls
	// that this takes (paused turns, calls of functions). Events go to sink as
	// they come, from the goroutine of the caller; with a nil sink an
	// implementation need not stream. A result may come together with an error:
	// it is what was there when the turn broke off, and its files exist.
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

// OutputMode is how files that the code made come back.
type OutputMode string

// How files that the code made come back.
const (
	OutputStdout  OutputMode = "stdout"  // framed in the output, see [Frame]; some also bring inline pictures
	OutputByID    OutputMode = "by id"   // ids in the blocks of the reply
	OutputListing OutputMode = "listing" // a session that can be listed
)

// Capabilities is what a provider can do and how much it takes. Zero sizes and
// times say "no limit that we know of".
type Capabilities struct {
	Outputs OutputMode

	Sessions      bool // the state of a run can be used by the next
	SessionCreate bool // sessions can be made before a run; else a run brings its own
	SessionFiles  bool // sessions can be listed
	SessionDelete bool
	SessionTouch  bool // asking after a session keeps it alive

	UploadReadable bool // our own uploads can be fetched again
	UploadTTL      bool // an upload can be given a lifetime
	InlineUpload   bool // small files can travel within the request
	ExitCode       bool
	SplitStderr    bool
	Stream         bool
	See            bool // images and PDFs can be shown to the model
	Functions      bool // the model can call functions of ours
	Schema         bool // the answer can be made to follow a JSON schema

	Limits    Limits
	IdleTTL   time.Duration // a session without use dies after this
	FileTTL   time.Duration // an upload without a lifetime of its own dies after this; 0: never
	TTLMin    time.Duration
	TTLMax    time.Duration
	Tools     []Tool   // what RunRequest.Tool may be, the preferred one first
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
	// Stat asks for what is known of a file, also one in a session.
	Stat(ctx context.Context, r FileRef) (FileInfo, error)
	// List goes through the files of the account, newest first where the
	// provider can. An error ends it.
	List(ctx context.Context, f Filter) iter.Seq2[FileInfo, error]
	// Open fetches a file from byte offset on (see [Body]). An error that the
	// provider sends is never returned as content.
	Open(ctx context.Context, r FileRef, offset int64) (io.ReadCloser, FileInfo, error)
	// Delete removes a file. One that is not there (any more) is deleted.
	Delete(ctx context.Context, r FileRef) error
}

// Upload is a file to be sent.
type Upload struct {
	Name    string // what the model shall know it as: a base name
	MIME    string // found out from the name when empty
	Purpose string // the provider's word; empty: the one that code execution needs
	Size    int64  // -1: not known
	// Body is read once. An attempt can only be repeated when it is an
	// io.Seeker too.
	Body io.Reader
	TTL  time.Duration // asked for where UploadTTL; 0: the provider's rule
	// SHA256 in hex, when known.
	SHA256 string
	// Progress is told how many bytes have been handed to the network; may be nil.
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

// FileRef names a remote file. What a provider does not need stays empty.
type FileRef struct {
	Provider string `json:"provider"`
	Scope    Scope  `json:"scope"`
	ID       string `json:"id,omitempty"`
	Session  string `json:"session,omitempty"`
	Path     string `json:"path,omitempty"` // inside the session
	URI      string `json:"uri,omitempty"`  // how requests refer to it, where that is not the id
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
	StatePending State = "pending" // the provider is still looking at it
	StateFailed  State = "failed"
	StateExpired State = "expired"
)

// FileInfo is what a provider says of a file.
type FileInfo struct {
	Ref      FileRef   `json:"ref"`
	Name     string    `json:"name"` // without what the provider puts before it
	MIME     string    `json:"mime,omitempty"`
	Size     int64     `json:"size"` // -1: not said
	Created  time.Time `json:"created,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Origin   Origin    `json:"origin,omitempty"`
	Readable bool      `json:"readable"` // Open can be expected to work
	State    State     `json:"state,omitempty"`
	SHA256   string    `json:"sha256,omitempty"` // hex, where the provider says it
}

// SessionStore is where code runs and files stay between runs: OpenAI's
// containers, our own sandbox.
type SessionStore interface {
	Create(ctx context.Context, s SessionSpec) (Session, error)
	Get(ctx context.Context, id string) (Session, error)
	// List goes through the sessions of the account.
	List(ctx context.Context, f Filter) iter.Seq2[Session, error]
	// Touch restarts the idle clock.
	Touch(ctx context.Context, id string) error
	// Files lists the files of a session, those given to it and those made in it.
	Files(ctx context.Context, id string) iter.Seq2[FileInfo, error]
	// Add puts an uploaded file into a session.
	Add(ctx context.Context, id string, f FileInfo) (FileInfo, error)
	// Delete ends a session. One that is not there (any more) is deleted.
	Delete(ctx context.Context, id string) error
}

// SessionSpec is what a new session shall be like.
type SessionSpec struct {
	Name    string // unique, so that a session whose id got lost can be found
	Files   []FileInfo
	Memory  string        // "1g", "4g", ...: the provider's word; empty: its rule
	IdleTTL time.Duration // 0: the provider's rule
	Network Network
}

// Network says what code in a session may reach.
type Network struct {
	Allowed bool
	Domains []string // with Allowed: only these; empty: the provider's rule
}

// Session is a session as the provider describes it.
type Session struct {
	ID       string        `json:"id"`
	Name     string        `json:"name,omitempty"`
	Created  time.Time     `json:"created,omitzero"`
	LastUsed time.Time     `json:"last_used,omitzero"`
	Expires  time.Time     `json:"expires,omitzero"` // at the latest known
	IdleTTL  time.Duration `json:"idle_ttl,omitempty"`
	Active   bool          `json:"active"`
}
