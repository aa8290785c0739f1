package workspace

// Verb is what a Change asks for.
type Verb string

// The verbs of a Change.
const (
	Write  Verb = "write"  // give the file this content
	Modify Verb = "modify" // edit the file's present content
	Delete Verb = "delete" // delete the file
	Rename Verb = "rename" // move the file to another path, edited or not
)

// Clash is what a Write does to a file that exists.
type Clash string

// What a Write can do to an existing file.
const (
	// ClashReplace updates the file. It is the default.
	ClashReplace Clash = ""
	// ClashRefuse makes a conflict of it, unless the bytes are the same.
	ClashRefuse Clash = "refuse"
	// ClashRename writes "name (2).ext" beside it, with the first free number.
	ClashRename Clash = "rename"
	// ClashSkip leaves the existing file and drops the change.
	ClashSkip Clash = "skip"
)

// Change is a change of one file. Changes are applied in order, each to the result of the
// ones before.
type Change struct {
	// ID names the change in findings and receipts, such as the id of an item
	// of a reply. It may be empty.
	ID   string
	Verb Verb
	// Path is the file's path relative to the root, as its author spelled it. The rules
	// interpret and check it.
	Path string
	// To is where Rename puts the file.
	To string
	// Content is what Write writes.
	Content *Content
	// Edit makes the new bytes from the present ones, for Modify, and for a Rename with an
	// edit (otherwise nil). It sees the file's own bytes (UTF-16 as UTF-8) and keeps its
	// line ends. Its error becomes a conflict, or an *Inexact with a result to look at or
	// to choose from.
	Edit func(current []byte) ([]byte, error)
	// Base is the content that the author was shown, nil if that is unknown.
	// A file that is something else by now is merged.
	Base []byte
	// Exact writes the bytes as they are. Otherwise a text takes over the line
	// ends, the byte order mark and the final newline of the file it replaces.
	Exact bool
	// Generated marks a file made by a program in a container: of its path
	// only what lies below the container's working directory counts, and a
	// hostile or missing name is replaced by a harmless one.
	Generated bool
	// Executable asks for the execute bit on a new file that begins with "#!".
	Executable bool
	// Clash is what happens if Write meets an existing file.
	Clash Clash
	// Doubt says why the change should not be made unseen: a guessed path, a
	// part of a file. It leaves the file unchecked.
	Doubt string
	// Guess reports that only the path is in doubt: an Edit that fits the file there
	// exactly resolves the Doubt.
	Guess bool
	// Refusal says why the change must not be made at all: it is shown, and
	// cannot be approved.
	Refusal string
	// Notes are shown with the file, such as how well an edit matched.
	Notes []string
	// Readings are other contents that a Write may mean, with a Doubt that says so. Content
	// is proposed until the user chooses another.
	Readings []Reading
}

// Reading is one of several contents that a change may mean.
type Reading struct {
	ID   string `json:"id"` // "r1", "r2", ...: a Choice for Workspace.Resolve
	What string `json:"what"`
	Post Fact   `json:"post"` // the file with this content

	Content *Content `json:"-"`
}
