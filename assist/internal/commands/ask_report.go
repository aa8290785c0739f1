package commands

import (
	"encoding/json"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/command"
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
	command.Ended
}

func (r askReport) WriteText(*command.Page) {} // all was shown as it happened

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

func (r dryRunReport) WriteText(p *command.Page) {
	p.Line("%s", p.Paint(command.Bold, "Nothing was sent. All of this is well:"))
	p.Line("  provider  %s, with the key that is set", r.Provider)
	p.Line("  model     %s", command.Printable(r.Model))
	where := "stay on this machine"
	if r.Destination != "" {
		where = "would go to " + r.Destination
	}
	p.Line("  files     %s, %s, %s", english.Plural(len(r.Files), "file", ""), command.SizeText(r.Bytes), where)
	for _, f := range r.Files {
		p.Line("            %s  %s  %s%s", command.PrintableName(f.Path), command.SizeText(f.Size), f.MIME, careful(f.Doubt))
	}
	if r.Folder != "" {
		p.Line("  folder    %s", command.Printable(r.Folder))
	}
}
