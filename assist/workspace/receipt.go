package workspace

// Receipt is what a commit did. Its first fields have the names that applications
// already show.
type Receipt struct {
	TxnID          string    `json:"txnId"`
	State          State     `json:"state"`
	FilesCreated   []string  `json:"filesCreated"`
	FilesUpdated   []string  `json:"filesUpdated"`
	FilesDeleted   []string  `json:"filesDeleted"`
	FilesRenamed   []Renamed `json:"filesRenamed"`
	FilesUnchanged []string  `json:"filesUnchanged"`
	FilesSkipped   []Skipped `json:"filesSkipped"`
	Conflicts      []Skipped `json:"conflicts"`
	Errors         []Skipped `json:"errors"`
	// Undo is what Workspace.Undo takes to revert all of it; "" if nothing
	// was changed.
	Undo string `json:"undo,omitempty"`
	// Kept names bytes of another process that were met while files changed
	// places, and are kept in the store.
	Kept []KeptBytes `json:"kept,omitempty"`
}

// Renamed is one file that has another path now.
type Renamed struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Skipped is a file that was not changed, and why.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
}

// KeptBytes is a content that another process wrote to a file while it was published,
// and that is not in the folder any more.
type KeptBytes struct {
	Path string `json:"path"`
	Hash Hash   `json:"sha256"`
}

// Changed reports whether any file is different now.
func (r *Receipt) Changed() bool {
	return len(r.FilesCreated)+len(r.FilesUpdated)+len(r.FilesDeleted)+len(r.FilesRenamed) > 0
}

func newReceipt(id string) *Receipt {
	return &Receipt{TxnID: id, State: Aborted, FilesCreated: []string{}, FilesUpdated: []string{},
		FilesDeleted: []string{},
		FilesRenamed: []Renamed{}, FilesUnchanged: []string{}, FilesSkipped: []Skipped{}, Conflicts: []Skipped{},
		Errors: []Skipped{}}
}

// expected returns the receipt of a transaction that will succeed.
func (x *transaction) expected() *Receipt {
	r := newReceipt(x.record.ID)
	for i := range x.files {
		switch f := &x.files[i]; f.Op {
		case OpCreate:
			r.FilesCreated = append(r.FilesCreated, f.Path)
		case OpUpdate:
			r.FilesUpdated = append(r.FilesUpdated, f.Path)
		case OpDelete:
			r.FilesDeleted = append(r.FilesDeleted, f.Path)
		case OpRename:
			r.FilesRenamed = append(r.FilesRenamed, Renamed{From: f.From, To: f.Path})
		case OpUnchanged:
			r.FilesUnchanged = append(r.FilesUnchanged, f.Path)
		}
	}
	if r.Changed() {
		r.Undo = r.TxnID
	}
	if x.proposal != nil && x.record.Group == "" {
		r.skip(x.proposal, x.files)
	}
	return r
}

// skip lists the files of a proposal that were not approved.
func (r *Receipt) skip(p *Proposal, approved []FileChange) {
	taken := map[string]bool{}
	for i := range approved {
		taken[approved[i].ID] = true
	}
	for i := range p.Files {
		f := &p.Files[i]
		if taken[f.ID] {
			continue
		}
		s := Skipped{Path: f.Path, Reason: "it was not approved"}
		verdict := f.Verdict()
		if verdict == Refuse || verdict == Conflict {
			finding := ofSeverity(f.Findings, verdict)[0]
			s.Reason, s.Rule = finding.Message, finding.Rule
		}
		if verdict == Conflict {
			r.Conflicts = append(r.Conflicts, s)
		} else {
			r.FilesSkipped = append(r.FilesSkipped, s)
		}
	}
}

// add adds the receipt of one file.
func (r *Receipt) add(one *Receipt) {
	r.FilesCreated = append(r.FilesCreated, one.FilesCreated...)
	r.FilesUpdated = append(r.FilesUpdated, one.FilesUpdated...)
	r.FilesDeleted = append(r.FilesDeleted, one.FilesDeleted...)
	r.FilesRenamed = append(r.FilesRenamed, one.FilesRenamed...)
	r.FilesUnchanged = append(r.FilesUnchanged, one.FilesUnchanged...)
	r.Kept = append(r.Kept, one.Kept...)
}
