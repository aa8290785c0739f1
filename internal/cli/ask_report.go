package cli

import (
	"encoding/json"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/conversation"
)

// askReport is what ask and chat print with --json. Text, answer and outputs
// are those of the last turn.
type askReport struct {
	Conversation string                `json:"conversation"`
	Provider     string                `json:"provider"`
	Text         string                `json:"text"`
	Answer       json.RawMessage       `json:"answer,omitempty"` // with --schema
	Outputs      []conversation.Output `json:"outputs"`
	Turns        []*conversation.Turn  `json:"turns"`
	Cleaned      *conversation.Cleaned `json:"cleaned,omitempty"`
	ended
}

func (r askReport) text(*page) {} // all was shown as it happened

// dryRunReport is what a dry run has checked.
type dryRunReport struct {
	DryRun      bool         `json:"dry_run"`
	Provider    string       `json:"provider"`
	Model       string       `json:"model"`
	Destination string       `json:"destination,omitempty"`
	Files       []dryRunFile `json:"files"`
	Bytes       int64        `json:"bytes"`
	Folder      string       `json:"folder,omitempty"`
}

type dryRunFile struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Size int64  `json:"size"`
	MIME string `json:"mime"`
	// Doubt says why it may hold a secret.
	Doubt string `json:"doubt,omitempty"`
}

// careful returns a warning about a file that may hold a secret, or "".
func careful(doubt string) string {
	if doubt == "" {
		return ""
	}
	return "  CAREFUL: " + doubt
}

func (r dryRunReport) text(p *page) {
	p.line("%s", p.paint(bold, "Nothing was sent. All of this is well:"))
	p.line("  provider  %s, with the key that is set", r.Provider)
	p.line("  model     %s", printable(r.Model))
	where := "stay on this machine"
	if r.Destination != "" {
		where = "would go to " + r.Destination
	}
	p.line("  files     %s, %s, %s", english.Plural(len(r.Files), "file", ""), sizeText(r.Bytes), where)
	for _, f := range r.Files {
		p.line("            %s  %s  %s%s", printableName(f.Path), sizeText(f.Size), f.MIME, careful(f.Doubt))
	}
	if r.Folder != "" {
		p.line("  folder    %s", printable(r.Folder))
	}
}
