package reply

// The status blocks that every registry knows.
const (
	BlockSubmission = "SUBMISSION"
	BlockProgress   = "PROGRESS UPDATE"
	BlockEscalation = "ESCALATION"
	BlockStandup    = "STANDUP"
	BlockDecision   = "DECISION"
)

// Keys of the fields that the known blocks have.
const (
	KeyAssignment     = "assignment_id"
	KeySummary        = "summary"
	KeyEvidence       = "evidence"
	KeyPercent        = "percent"
	KeyCompleted      = "completed"
	KeyNext           = "next"
	KeyBlocked        = "blocked"
	KeyDecisionNeeded = "decision_needed"
	KeyOptions        = "options"
	KeyRecommendation = "recommendation"
	KeyRationale      = "rationale"
	KeyWorkingOn      = "working_on"
	KeyEstimate       = "estimate"
	KeyEscalation     = "escalation_id"
	KeyChoice         = "choice"
	KeyNote           = "note"
	KeyDeadline       = "deadline"
)

// Block is a status block.
type Block struct {
	// Type is the registered name, in capitals: "PROGRESS UPDATE".
	Type string `json:"type"`
	// IDs are the assignments that it is about. More than one makes the item
	// ambiguous: each would be a post of its own.
	IDs []string `json:"ids,omitempty"`
	// Fields are the registered fields in the order in which they stand.
	Fields []Field `json:"fields"`
	// Extra are unregistered fields. They are kept and shown, not sent.
	Extra []Field `json:"extra,omitempty"`
	// Percent is the progress of a PROGRESS UPDATE, nil elsewhere and where it
	// could not be read.
	Percent *Percent `json:"percent,omitempty"`
	// Options are the choices of an ESCALATION.
	Options []Option `json:"options,omitempty"`
	// Recovered says that the block had no END.
	Recovered bool `json:"recovered,omitempty"`
	// Syntax is how the body was written: "fields", "json" or "yaml".
	Syntax string `json:"syntax"`
	// Files are the ordinals of the files that stand inside the block.
	Files []int `json:"files,omitempty"`
	// Digest is the same for blocks of one type, with the same ids and the same
	// body but for white space: a duplicate.
	Digest string `json:"digest"`
}

// Field is a key of a block with its value.
type Field struct {
	// Key is the registered key; Name is the spelling in the reply.
	Key  string `json:"key"`
	Name string `json:"name"`
	// Text is the value with its lines, trimmed.
	Text string `json:"text"`
	// List is the value as items: bullets, numbers, checkboxes, lines or
	// commas, as the kind of field allows. A value that is no list is one item.
	List []string `json:"list,omitempty"`
	Span Span     `json:"span"`
}

// Percent is a progress, read from words such as "~75 %" or "3 of 4".
type Percent struct {
	// Value is from 0 to 100, rounded to a whole number.
	Value int    `json:"value"`
	Raw   string `json:"raw"`
	// Note says what was read into it ("a fraction"), empty for a plain number.
	Note string `json:"note,omitempty"`
}

// Option is a choice of an escalation.
type Option struct {
	Text        string `json:"text"`
	Recommended bool   `json:"recommended,omitempty"`
}

// ID returns the first assignment of the block, or "".
func (b *Block) ID() string {
	if len(b.IDs) == 0 {
		return ""
	}
	return b.IDs[0]
}

// Field returns the field of a key, or nil.
func (b *Block) Field(key string) *Field {
	for i := range b.Fields {
		if b.Fields[i].Key == key {
			return &b.Fields[i]
		}
	}
	return nil
}

// Text returns the value of a key, or "".
func (b *Block) Text(key string) string {
	if f := b.Field(key); f != nil {
		return f.Text
	}
	return ""
}

// List returns the value of a key as items, or nil.
func (b *Block) List(key string) []string {
	if f := b.Field(key); f != nil {
		return f.List
	}
	return nil
}
