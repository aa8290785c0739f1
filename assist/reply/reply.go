package reply

import (
	"encoding/json"
	"strings"
)

// Kind says what an item would do to a folder, or that it is a status block.
type Kind string

// The kinds of items.
const (
	// KindFile gives a file's whole content.
	KindFile Kind = "file"
	// KindEdit changes parts of a file that exists: SEARCH/REPLACE hunks, a
	// unified diff, an update inside a patch envelope.
	KindEdit Kind = "edit"
	// KindDelete removes a file. A diff that deletes has hunks with the expected content of
	// the file.
	KindDelete Kind = "delete"
	// KindRename moves a file from Path to To, and may edit it on the way.
	KindRename Kind = "rename"
	// KindBlock is a status block, such as === SUBMISSION ===.
	KindBlock Kind = "block"
)

// Verdict is the parser's judgement of an item. A program may act on VerdictOK only,
// without asking a person.
type Verdict string

// The verdicts.
const (
	// VerdictOK: read in the only way it can be read.
	VerdictOK Verdict = "ok"
	// VerdictAmbiguous: understood, but not in one way only, or not with enough
	// confidence. Readings holds other ways where there are any. A person decides.
	VerdictAmbiguous Verdict = "ambiguous"
	// VerdictPartial: a snippet that leaves something out ("... existing code
	// ..."), or a part of a file (path#L10-L20). Never a whole file.
	VerdictPartial Verdict = "partial"
	// VerdictTruncated: the reply ended inside it.
	VerdictTruncated Verdict = "truncated"
	// VerdictCitation: code quoted from a file (12:15:path). Never a write.
	VerdictCitation Verdict = "citation"
	// VerdictExample: shown, not meant: inside a code fence, in the model's
	// thoughts, or full of placeholders.
	VerdictExample Verdict = "example"
	// VerdictRefused: a path that leads out of the folder or cannot be a name.
	VerdictRefused Verdict = "refused"
	// VerdictSuperseded: a later item of the reply gives the same file anew.
	VerdictSuperseded Verdict = "superseded"
	// VerdictDuplicate: a block that was already given with the same content.
	VerdictDuplicate Verdict = "duplicate"
	// VerdictInvalid: malformed; Reason says how.
	VerdictInvalid Verdict = "invalid"
)

// Form is the spelling in which an item was found.
type Form string

// The forms.
const (
	FormFence    Form = "fence"          // ```lang:path and its many relatives
	FormSearch   Form = "search-replace" // <<<<<<< SEARCH ... >>>>>>> REPLACE
	FormDiff     Form = "unified-diff"   // --- a/p, +++ b/p, @@
	FormEnvelope Form = "envelope"       // *** Begin Patch ... *** End Patch
	FormTag      Form = "tag"            // <file path="p">, <boltAction>, <PlandexBlock>, <source>, <write_to_file>
	FormList     Form = "list"           // ### Move Files, ### Remove Files
	FormBlock    Form = "block"          // === NAME === ... === END NAME ===
)

// PathSource says where an item's path was found.
type PathSource string

// The places of a path, the surest first.
const (
	PathAttribute PathSource = "attribute" // ```ts file="src/a.ts"
	PathInfo      PathSource = "info"      // ```ts:src/a.ts
	PathInfoSpace PathSource = "info-word" // ```ts src/a.ts
	PathBareInfo  PathSource = "bare-info" // ```src/a.ts
	PathDirective PathSource = "directive" // // filepath: src/a.ts
	PathAbove     PathSource = "above"     // **src/a.ts** on the line above
	PathComment   PathSource = "comment"   // // src/a.ts as the first line
	PathHeader    PathSource = "header"    // a header of a diff or an envelope
	PathTag       PathSource = "tag"       // an attribute of a tag
	PathProse     PathSource = "prose"     // named in a sentence above
	PathEarlier   PathSource = "earlier"   // an edit without a path after one with a path
)

// Threshold is the confidence from which an item can be VerdictOK.
const Threshold = 0.85

// Span is a range of bytes of the reply, End not included.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Len is the number of bytes in the span.
func (s Span) Len() int { return s.End - s.Start }

// Warning is something that a person should know of an item or of the reply.
type Warning struct {
	// Code is stable and meant for programs: "path.backslash", "fence.unclosed".
	Code    string `json:"code"`
	Message string `json:"message"`
	// Offset is the byte of the reply that it is about.
	Offset int `json:"offset"`
}

// Reading is one way to read an ambiguous item.
type Reading struct {
	Description string `json:"description"`
	// Content is the file's content under this reading.
	Content []byte `json:"content"`
}

// Item is one thing that the reply asks for or shows.
//
// Invariant: Verdict is VerdictOK only if Confidence >= Threshold, and for
// everything but a block only if Path is a relative path without "..".
type Item struct {
	// ID is made of the reply's SHA-256 and the ordinal: the same reply gives
	// the same ids. It is empty until the whole reply was read.
	ID string `json:"id"`
	// Ordinal counts the items of a reply from 1.
	Ordinal int     `json:"ordinal"`
	Kind    Kind    `json:"kind"`
	Form    Form    `json:"form"`
	Verdict Verdict `json:"verdict"`
	// Reason says in a sentence why Verdict is not VerdictOK.
	Reason string `json:"reason,omitempty"`
	// Confidence is from 0 to 1: how sure the parser is of the path.
	Confidence float64 `json:"confidence"`
	// Span is the whole item in the reply, its fence or markers included; Body
	// is what stands between those.
	Span Span `json:"span"`
	Body Span `json:"body"`

	// Path is relative with forward slashes, but otherwise as written: package
	// workspace decides whether it may be written to. RawPath is the spelling
	// in the reply. Both are empty for a block.
	Path    string     `json:"path,omitempty"`
	RawPath string     `json:"raw_path,omitempty"`
	From    PathSource `json:"from,omitempty"`
	Lang    string     `json:"lang,omitempty"`
	// To is the new path of a KindRename; RawTo its spelling.
	To    string `json:"to,omitempty"`
	RawTo string `json:"raw_to,omitempty"`

	// Content is the content of a KindFile: the fence's bytes, each line ended
	// by a single LF. It may share memory with the reply; do not change it.
	Content []byte `json:"content,omitempty"`
	// Binary says that Content was decoded from base64 and is no text.
	Binary bool `json:"binary,omitempty"`
	// Create says that the item calls the file new ("Add File", /dev/null): an
	// existing one is a conflict.
	Create bool `json:"create,omitempty"`
	// Hunks are the edits of a KindEdit or KindRename, in order.
	Hunks []Hunk `json:"hunks,omitempty"`
	// Guessed reports that an edit is VerdictAmbiguous only for its path, or for being in a
	// tool's call. If the file there has the lines to change exactly once, the path is
	// likely right.
	Guessed bool `json:"guessed,omitempty"`
	// Repeated says that an edit of the reply before has the same hunks for the
	// same file.
	Repeated bool `json:"repeated,omitempty"`
	// Block is the status block of a KindBlock.
	Block *Block `json:"block,omitempty"`

	// Group is the ordinal of the first item of the envelope or diff that this
	// item came in, 0 if it came alone. A group is meant as a whole.
	Group int `json:"group,omitempty"`
	// Within is the ordinal of the status block in which the file stands, or 0.
	Within int `json:"within,omitempty"`

	Warnings []Warning `json:"warnings,omitempty"`
	Readings []Reading `json:"readings,omitempty"`
}

// OK reports whether the item may be acted on without asking about its reading.
// (Whether its path may be written to is another question; see package workspace.)
func (it *Item) OK() bool { return it.Verdict == VerdictOK }

// Proposable reports whether the item names a change that a person could
// approve after a look at it: OK, or ambiguous with a path. All else is shown
// at most.
func (it *Item) Proposable() bool {
	switch it.Verdict {
	case VerdictOK:
		return true
	case VerdictAmbiguous:
		return it.Kind == KindBlock || it.Path != ""
	}
	return false
}

// Substantial reports whether each hunk looks for so much text that it hardly
// stands anywhere by chance.
func (it *Item) Substantial() bool {
	for i := range it.Hunks {
		size, lines := 0, 0
		for _, line := range it.Hunks[i].Lines {
			if text := strings.TrimSpace(line.Text); line.Op != '+' && text != "" {
				size += len(text)
				lines++
			}
		}
		if size < 12 || lines < 2 && size < 20 {
			return false
		}
	}
	return len(it.Hunks) > 0
}

// Reply is a parsed reply of a model.
type Reply struct {
	// SHA256 is the hash of the reply's bytes, in hexadecimal.
	SHA256 string  `json:"sha256"`
	Size   int     `json:"size"`
	Items  []*Item `json:"items"`
	// Warnings are about the reply as a whole; an item has its own.
	Warnings []Warning `json:"warnings,omitempty"`
	// Examples counts the items that are VerdictExample.
	Examples int `json:"examples,omitempty"`
	// Tags are control tags, such as "PHASE_ADVANCE:X" for [PHASE_ADVANCE:X].
	Tags []string `json:"tags,omitempty"`
}

// Files returns the items about files that are OK, in order: the changes of a run without a
// person.
func (r *Reply) Files() []*Item {
	return r.pick(func(it *Item) bool { return it.Kind != KindBlock && it.OK() })
}

// Proposals returns the items about files that a person could approve, those of
// Files included.
func (r *Reply) Proposals() []*Item {
	return r.pick(func(it *Item) bool { return it.Kind != KindBlock && it.Proposable() })
}

// Blocks returns the status blocks that may be posted (OK) or need a person's confirmation
// (ambiguous), in order.
func (r *Reply) Blocks() []*Item {
	return r.pick(func(it *Item) bool { return it.Kind == KindBlock && it.Proposable() })
}

// Item returns the item with an id, or nil.
func (r *Reply) Item(id string) *Item {
	for _, it := range r.Items {
		if it.ID == id {
			return it
		}
	}
	return nil
}

// JSON returns the reply as an indented document, for people and logs.
func (r *Reply) JSON() ([]byte, error) { return json.MarshalIndent(r, "", "  ") }

func (r *Reply) pick(want func(*Item) bool) []*Item {
	var picked []*Item
	for _, it := range r.Items {
		if want(it) {
			picked = append(picked, it)
		}
	}
	return picked
}
