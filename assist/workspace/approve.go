package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// Approval is the user's consent to a proposal, or to parts of it. It is valid only for the
// contents that were shown: it has the proposal's token, which changes with any of them.
type Approval struct {
	Proposal string  `json:"proposal"`
	Token    string  `json:"token"`
	Files    []Grant `json:"files"`
	By       string  `json:"by,omitempty"` // for the history
}

// Grant approves one file.
type Grant struct {
	File string `json:"file"` // id
	// Hunks are the ids of the approved hunks of a text; nil approves the
	// whole change, also of its mode, encoding and line ends.
	Hunks []string `json:"hunks,omitempty"`
}

// Approve returns the approval of the files with the ids. An id names a file, "f2", or one
// of its hunks, "f2:h1". Without ids it approves every approvable file.
func (p *Proposal) Approve(ids ...string) (Approval, error) {
	a := Approval{Proposal: p.ID, Token: p.Token}
	if len(ids) == 0 {
		for i := range p.Files {
			if f := &p.Files[i]; f.approvable() == nil {
				a.Files = append(a.Files, Grant{File: f.ID})
			}
		}
		return a, nil
	}
	for _, id := range ids {
		file, hunk, one := strings.Cut(id, ":")
		f := p.File(file)
		if f == nil {
			return Approval{}, fmt.Errorf("the proposal has no file %q: its files are f1 to f%d", file, len(p.Files))
		}
		if err := f.approvable(); err != nil {
			return Approval{}, err
		}
		if one && !slices.ContainsFunc(f.Hunks, func(h Hunk) bool { return h.ID == hunk }) {
			return Approval{}, fmt.Errorf("%s (%s) has no hunk %q: its hunks are h1 to h%d", f.ID, f.Path, hunk, len(f.Hunks))
		}
		i := slices.IndexFunc(a.Files, func(g Grant) bool { return g.File == file })
		switch {
		case i < 0 && one:
			a.Files = append(a.Files, Grant{File: file, Hunks: []string{hunk}})
		case i < 0:
			a.Files = append(a.Files, Grant{File: file})
		case !one:
			a.Files[i].Hunks = nil
		case a.Files[i].Hunks != nil && !slices.Contains(a.Files[i].Hunks, hunk):
			a.Files[i].Hunks = append(a.Files[i].Hunks, hunk)
		}
	}
	return a, nil
}

// approvable returns why a file cannot be approved, nil if it can.
func (f *FileChange) approvable() error {
	verdict := f.Verdict()
	if verdict != Refuse && verdict != Conflict {
		return nil
	}
	var reasons []string
	for _, finding := range ofSeverity(f.Findings, verdict) {
		reasons = append(reasons, strings.TrimSuffix(finding.Message+" ("+finding.Rule+"); "+finding.Hint, "; "))
	}
	err := fmt.Errorf("%w: %s: %s", ErrNeedsDecision, f.Path, strings.Join(reasons, "; "))
	if verdict == Refuse {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// Decision is what a policy decides about a file.
type Decision string

// The decisions of a policy.
const (
	Hold  Decision = "hold"  // a person has to approve it
	Allow Decision = "allow" // it is approved
	Deny  Decision = "deny"  // it is left out
)

// PolicyRule decides about the files that it matches. Empty fields match
// everything.
type PolicyRule struct {
	// Glob matches paths: "*" within a name, "**" over directories, {a,b}. A
	// pattern without a slash matches in every directory.
	Glob string `json:"glob,omitempty"`
	Ops  []Op   `json:"ops,omitempty"`
	// SHA256 matches a file with exactly this new content.
	SHA256 Hash `json:"sha256,omitzero"`
	// MaxBytes matches files whose new content is no larger.
	MaxBytes int64    `json:"max_bytes,omitempty"`
	Decision Decision `json:"decision"`
	// Sensitive lets Allow cover files that need a person otherwise: workflow
	// files, programs, doubtful paths. It does not cover a file that may lose lines which
	// the change does not show ("write.elided").
	Sensitive bool `json:"sensitive,omitempty"`
}

// Policy approves files without a person. The first rule that matches a file
// decides; a file that none matches is held.
type Policy struct {
	Rules []PolicyRule `json:"rules"`
}

// ParsePolicy reads a policy from its JSON. It refuses malformed globs, unknown operations and
// rules that can match no file.
func ParsePolicy(text []byte) (Policy, error) {
	var policy Policy
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		return policy, fmt.Errorf(`%w; a policy is such as {"rules": [{"glob": "docs/**", "decision": "allow"}]}`, err)
	}
	last := 0 // the number of a rule that decides about every file
	for i := range policy.Rules {
		r := &policy.Rules[i]
		if last > 0 {
			return policy, fmt.Errorf("rule %d is never reached: rule %d decides about every file", i+1, last)
		}
		if err := r.check(); err != nil {
			return policy, fmt.Errorf("rule %d %w", i+1, err)
		}
		if r.Glob == "" && len(r.Ops) == 0 && r.SHA256.IsZero() && r.MaxBytes == 0 {
			last = i + 1
		}
	}
	return policy, nil
}

// check returns an error for a rule that says something unknown, or can match no file. Such a
// rule of a policy would leave files to the rules behind it, which may allow more.
func (r *PolicyRule) check() error {
	switch r.Decision {
	case Allow, Deny, Hold:
	default:
		return fmt.Errorf("has the decision %q; a decision is allow, deny or hold", r.Decision)
	}
	for _, op := range r.Ops {
		if !slices.Contains([]Op{OpCreate, OpUpdate, OpDelete, OpRename, OpUnchanged}, op) {
			return fmt.Errorf("has the operation %q; an operation is create, update, delete, rename or unchanged", op)
		}
	}
	if r.Glob != "" {
		if !doublestar.ValidatePattern(r.Glob) {
			return fmt.Errorf("has a glob that is malformed, %q: a bracket or a brace is not closed, or nothing follows \\",
				r.Glob)
		}
		for name := range strings.SplitSeq(r.Glob, "/") {
			if name == "" || name == "." || name == ".." {
				return fmt.Errorf("has the glob %q, which matches no file: paths are relative to the folder, such as docs/a.md",
					r.Glob)
			}
		}
	}
	if r.MaxBytes < 0 {
		return fmt.Errorf("has %d for max_bytes, which no file has", r.MaxBytes)
	}
	return nil
}

// Automatic returns the policy that approves all files that need no person.
func Automatic() Policy { return Policy{Rules: []PolicyRule{{Decision: Allow}}} }

// Held is a file that a policy did not approve, and why.
type Held struct {
	File   string   `json:"file"`
	Path   string   `json:"path"`
	Reason string   `json:"reason"`
	Rule   string   `json:"rule,omitempty"`
	Kind   Severity `json:"kind"` // Ask, Conflict, Refuse; Note for Deny
}

// ApproveBy returns the approval that a policy gives, and the files that it
// does not cover.
func (p *Proposal) ApproveBy(policy Policy) (Approval, []Held) {
	a := Approval{Proposal: p.ID, Token: p.Token, By: "policy"}
	var held []Held
	for i := range p.Files {
		f := &p.Files[i]
		if h := f.heldBy(policy); h != nil {
			held = append(held, *h)
			continue
		}
		a.Files = append(a.Files, Grant{File: f.ID})
	}
	return a, held
}

func (f *FileChange) heldBy(policy Policy) *Held {
	verdict := f.Verdict()
	held := &Held{File: f.ID, Path: f.Path, Kind: verdict}
	if deciding := ofSeverity(f.Findings, verdict); len(deciding) > 0 {
		i := max(0, slices.IndexFunc(deciding, func(f Finding) bool { return f.Rule == elidedRule }))
		held.Rule, held.Reason = deciding[i].Rule, deciding[i].Message
	}
	if verdict == Refuse || verdict == Conflict {
		return held
	}
	for _, r := range policy.Rules {
		if !r.matches(f) {
			continue
		}
		switch {
		case r.Decision == Allow && (verdict != Ask || r.Sensitive && !f.has(elidedRule)):
			return nil
		case r.Decision == Allow:
			return held
		case r.Decision == Deny:
			return &Held{File: f.ID, Path: f.Path, Kind: Note, Rule: "policy", Reason: "the policy leaves it out"}
		}
		break
	}
	return &Held{File: f.ID, Path: f.Path, Kind: Ask, Rule: "policy", Reason: "no policy approves it"}
}

// matches reports whether a rule decides about a file. A rule that check refuses allows
// nothing, and denies or holds everything: a policy that was not parsed fails closed.
func (r *PolicyRule) matches(f *FileChange) bool {
	if r.check() != nil {
		return r.Decision != Allow
	}
	return (r.Glob == "" || outputrules.MatchPath(r.Glob, f.Path) && (f.From == "" ||
		outputrules.MatchPath(r.Glob, f.From))) &&
		(len(r.Ops) == 0 || slices.Contains(r.Ops, f.Op)) &&
		(r.SHA256.IsZero() || r.SHA256 == f.Post.Hash) &&
		(r.MaxBytes == 0 || f.Post.Size <= r.MaxBytes)
}

func newKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}

// token binds an approval to the shown proposal: every path, its operation, and its
// contents and modes before and after.
func (p *Proposal) token() string {
	type bound struct {
		ID, Path, From, Op string
		Pre, Post          Hash
		Modes              [2]uint32
	}
	files := make([]bound, len(p.Files))
	for i := range p.Files {
		f := &p.Files[i]
		files[i] = bound{f.ID, f.Path, f.From, string(f.Op), f.Pre.Hash, f.Post.Hash,
			[2]uint32{uint32(f.Pre.Mode), uint32(f.Post.Mode)}}
	}
	slices.SortFunc(files, func(a, b bound) int { return cmp.Compare(a.ID, b.ID) })
	text, err := json.Marshal(struct {
		ID, Root string
		Files    []bound
	}{p.ID, p.Root, files})
	if err != nil {
		panic(err) // strings and numbers always have a JSON form
	}
	mac := hmac.New(sha256.New, p.key)
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}

// approved returns the files of an approval, cut down to the approved hunks.
func (p *Proposal) approved(ctx context.Context, a Approval, textLimit int64) ([]FileChange, error) {
	if a.Proposal != p.ID || !hmac.Equal([]byte(a.Token), []byte(p.token())) {
		return nil, fmt.Errorf("%w: it was changed since: look at it again", ErrStale)
	}
	if worst(p.Findings) == Refuse {
		var reasons []string
		for _, f := range ofSeverity(p.Findings, Refuse) {
			reasons = append(reasons, f.Message+" ("+f.Rule+")")
		}
		return nil, fmt.Errorf("%w: %s", ErrRefused, strings.Join(reasons, "; "))
	}
	if len(a.Files) == 0 {
		return nil, errors.New("the approval names no file, so there is nothing to do")
	}
	var files []FileChange
	for _, g := range a.Files {
		f := p.File(g.File)
		if f == nil {
			return nil, fmt.Errorf("%w: it has no file %q", ErrStale, g.File)
		}
		if slices.ContainsFunc(files, func(other FileChange) bool { return other.ID == f.ID }) {
			return nil, fmt.Errorf("the approval names %s twice", f.ID)
		}
		if err := f.approvable(); err != nil {
			return nil, err
		}
		part := *f
		part.Readings = nil // the user chose one of them
		if g.Hunks != nil {
			if err := part.only(ctx, g.Hunks, textLimit); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		files = append(files, part)
	}
	return files, nil
}

// only reduces the change to some of its hunks.
func (f *FileChange) only(ctx context.Context, hunks []string, textLimit int64) error {
	if f.Text == nil || f.post == nil || f.Text.Encoding == "unknown" {
		return errors.New("only the hunks of a text that stays can be approved one by one")
	}
	text, s, err := f.withHunks(ctx, hunks, textLimit)
	if err != nil {
		return err
	}
	facts := s.facts[0]
	if facts.Encoding == "unknown" {
		return errors.New("the present file is no UTF-8 text: it can be replaced as a whole only")
	}
	if f.pre == nil {
		facts = s.facts[1]
	}
	f.post = Bytes(facts.encode(text))
	f.Post.Hash, f.Post.Size = f.post.hash, f.post.size
	if f.Op == OpUpdate && f.post.hash == f.Pre.Hash {
		f.Op = OpUnchanged
	}
	f.Hunks, f.Added, f.Removed = diffText(s.before, text)
	return nil
}
