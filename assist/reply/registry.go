package reply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FieldKind says how the value of a key is read.
type FieldKind string

// The kinds of fields.
const (
	FieldText    FieldKind = "text"
	FieldList    FieldKind = "list"    // bullets, numbers, checkboxes, lines
	FieldID      FieldKind = "id"      // one assignment id, or several
	FieldPercent FieldKind = "percent" // a progress
	FieldOptions FieldKind = "options" // choices
)

// Key is a field that a type of block can have.
type Key struct {
	// Name is the key in lower case with underscores: "assignment_id".
	Name string
	// Aliases are other spellings. Case, spaces and hyphens make no difference.
	Aliases  []string
	Kind     FieldKind
	Required bool
}

// Repeat says what a second block of a type means for the same id.
type Repeat string

// The meanings of a repeated block.
const (
	RepeatAll      Repeat = ""         // each counts
	RepeatLast     Repeat = "last"     // the last counts: progress
	RepeatConflict Repeat = "conflict" // a person decides: submissions
)

// BlockType is a type of status block.
type BlockType struct {
	// Name is what stands between the === signs, in capitals.
	Name    string
	Aliases []string
	Keys    []Key
	// Final says that the block marks work as complete: one without an END is
	// ambiguous, not OK.
	Final  bool
	Repeat Repeat
}

// Registry has the types of status blocks. Headings that are not in it are prose.
type Registry struct {
	byName map[string]*compiledType
}

// compiledType is a BlockType with its spellings.
type compiledType struct {
	BlockType
	keys map[string]*Key
}

// standard is never changed; Standard hands out copies.
var standard = func() *Registry {
	r := &Registry{byName: make(map[string]*compiledType)}
	for _, t := range standardTypes() {
		if err := r.Define(t); err != nil {
			panic(err) // the table below is wrong, which the first test sees
		}
	}
	return r
}()

// Standard returns a new registry of the blocks that Airlock knows: SUBMISSION,
// PROGRESS UPDATE, ESCALATION, STANDUP, DECISION.
func Standard() *Registry {
	r := &Registry{byName: make(map[string]*compiledType, len(standard.byName))}
	for name, t := range standard.byName {
		r.byName[name] = t
	}
	return r
}

func standardTypes() []BlockType {
	id := func(required bool) Key {
		return Key{Name: KeyAssignment, Aliases: []string{"assignment", "assignments", "assignment_ids", "id", "ids",
			"task_id", "task"}, Kind: FieldID, Required: required}
	}
	text := func(name string, aliases ...string) Key { return Key{Name: name, Aliases: aliases, Kind: FieldText} }
	list := func(name string, aliases ...string) Key { return Key{Name: name, Aliases: aliases, Kind: FieldList} }
	must := func(k Key) Key { k.Required = true; return k }
	return []BlockType{
		{Name: BlockSubmission, Aliases: []string{"SUBMIT", "ASSIGNMENT SUBMISSION", "WORK SUBMISSION"}, Final: true,
			Repeat: RepeatConflict, Keys: []Key{
				id(true), must(text(KeySummary, "submission_summary", "description")),
				list(KeyEvidence, "proof", "files", "submission_evidence", "artifacts"),
			}},
		{Name: BlockProgress, Aliases: []string{"PROGRESS", "PROGRESS REPORT", "STATUS UPDATE"}, Repeat: RepeatLast,
			Keys: []Key{
				id(true), {Name: KeyPercent, Aliases: []string{"progress", "percentage", "progress_percent", "percent_complete"},
					Kind: FieldPercent, Required: true},
				text(KeyCompleted, "done", "progress_notes", "notes"), list(
					KeyNext, "next_steps", "remaining", "remaining_items", "todo"),
				text(KeyBlocked, "blockers", "blocked_by"),
			}},
		{Name: BlockEscalation, Aliases: []string{"ESCALATE", "DECISION NEEDED"}, Keys: []Key{
			id(true), must(text(KeyDecisionNeeded, "decision", "question", "issue")),
			{Name: KeyOptions, Aliases: []string{"choices", "alternatives"}, Kind: FieldOptions},
			text(KeyRecommendation, "recommended", "recommend"), text(KeyRationale, "reason", "reasoning", "why"),
			text(KeyDeadline, "due", "needed_by"),
		}},
		{Name: BlockStandup, Aliases: []string{"STAND UP", "DAILY STANDUP"}, Repeat: RepeatLast, Keys: []Key{
			id(false), text(KeyWorkingOn, "today", "current", "doing"), text(KeyCompleted, "done", "yesterday"),
			text(KeyBlocked, "blockers", "blocked_by"),
			list(KeyNext, "next_steps", "remaining"), text(KeyEstimate, "eta"),
		}},
		{Name: BlockDecision, Repeat: RepeatConflict, Keys: []Key{
			{Name: KeyEscalation, Aliases: []string{"escalation", "id"}, Kind: FieldID, Required: true},
			must(text(KeyChoice, "decision", "answer", "option")), text(KeyNote, "notes", "comment", "reason"),
			{Name: KeyAssignment, Aliases: []string{"assignment"}, Kind: FieldText},
		}},
	}
}

// Define adds a type of block, or replaces one of the same name.
func (r *Registry) Define(t BlockType) error {
	name := blockName(t.Name)
	if name == "" || strings.HasPrefix(name, "END ") || name == "END" || strings.ContainsAny(name, "=/\n") {
		return fmt.Errorf("%q cannot be the name of a block: it must be words that do not begin with END", t.Name)
	}
	t.Name = name
	t.Keys = slices.Clone(t.Keys)
	c := &compiledType{BlockType: t, keys: make(map[string]*Key)}
	for i := range t.Keys {
		k := &t.Keys[i]
		k.Kind = cmp.Or(k.Kind, FieldText)
		for _, spelling := range append([]string{k.Name}, k.Aliases...) {
			spelling = foldKey(spelling)
			if spelling == "" {
				return errors.New("block " + name + " has a key without a name")
			}
			if other := c.keys[spelling]; other != nil {
				return fmt.Errorf("block %s has %q as a spelling of both %s and %s; leave it to one of them", name, spelling,
					other.Name, k.Name)
			}
			c.keys[spelling] = k
		}
	}
	for _, spelling := range append([]string{name}, t.Aliases...) {
		r.byName[blockName(spelling)] = c
	}
	return nil
}

// lookup finds a type by a name as it stands in a reply.
func (r *Registry) lookup(name string) *compiledType { return r.byName[blockName(name)] }

// blockName folds a block's name: capitals, single spaces.
func blockName(s string) string {
	s = strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '\t' {
			return ' '
		}
		return r
	}, s))
	return strings.Join(strings.Fields(s), " ")
}

// foldKey folds a key: lower case, underscores.
func foldKey(s string) string {
	s = strings.ToLower(strings.Trim(s, " \t*_`#>\"'"))
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '\t' }),
		"_")
}
