package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
)

// asker answers the questions of a conversation: from the command line, else by asking
// the user at the terminal.
type asker struct {
	*Assistant
	options askOptions
	state   *localState
	shown   *turnView
}

// Answer implements conversation.Prompter.
func (p *asker) Answer(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.shown != nil {
		p.shown.clear()
	}
	switch q.Kind {
	case conversation.AskSend:
		return p.send(ctx, q)
	case conversation.AskSkip:
		return p.yesNo(ctx, "Continue without? [y/N] ")
	case conversation.AskInline:
		return p.inline(ctx, q)
	case conversation.AskMore:
		return p.more(ctx, q)
	case conversation.AskSave:
		return p.save(ctx, q)
	case conversation.AskApply:
		return p.apply(ctx, q)
	}
	return conversation.Answer{}, conversation.ErrNonInteractive
}

// yesNo asks a yes-or-no question at the terminal, if there is one.
func (p *asker) yesNo(ctx context.Context, question string) (conversation.Answer, error) {
	if !p.Interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	yes, err := p.Confirm(ctx, question)
	return conversation.Answer{OK: yes}, err
}

// send asks before files leave the machine. --yes agrees to the files that the command
// line names.
func (p *asker) send(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.options.Yes {
		for _, f := range q.Files {
			if f.Sensitivity != "" && !p.JSON {
				p.Say("%s  %s%s; --yes agrees to send it to %s", command.PrintableName(f.Path), command.SizeText(f.Size),
					careful(f.Sensitivity),
					q.Destination)
			}
		}
		return conversation.Answer{OK: true}, nil
	}
	if !p.Interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	p.Say("These files would leave this machine for %s:", q.Destination)
	p.listFiles(q)
	if len(q.Files) == 1 {
		return p.yesNo(ctx, fmt.Sprintf("Send 1 file (%s)? [y/N] ", command.SizeText(q.Bytes)))
	}
	return p.pickFiles(ctx, q, fmt.Sprintf("Send %s (%s)?", english.Plural(len(q.Files), "file", ""),
		command.SizeText(q.Bytes)),
		"Send")
}

// pickFiles asks about all files at once or, if the user selects that, one by one.
func (p *asker) pickFiles(ctx context.Context, q conversation.Ask, question, verb string) (conversation.Answer, error) {
	line, err := p.AskLine(ctx, question+" [y]es, [N]o, or [s]elect: ")
	a := conversation.Answer{OK: strings.HasPrefix(line, "y") || strings.HasPrefix(line, "s"),
		Picks: []conversation.Pick{}}
	for _, f := range q.Files {
		if err != nil || !a.OK {
			break
		}
		yes := strings.HasPrefix(line, "y")
		if !yes {
			yes, err = p.Confirm(ctx, fmt.Sprintf("%s %s (%s)? [y/N] ", verb, command.PrintableName(f.Path),
				command.SizeText(f.Size)))
		}
		if yes {
			a.Picks = append(a.Picks, conversation.Pick{ID: f.ID})
		}
	}
	a.OK = a.OK && (q.Kind != conversation.AskSend || len(a.Picks) > 0) // no file: a no
	return a, err
}

// inline asks whether files may be sent within the request. --yes has agreed to send
// them, and a notice has told how.
func (p *asker) inline(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.options.Yes {
		return conversation.Answer{OK: true}, nil
	}
	return p.yesNo(ctx, fmt.Sprintf("Send %s (%s) within the request? [y/N] ", english.Plural(len(q.Files), "file", ""),
		command.SizeText(q.Bytes)))
}

// more asks about each file that the model wants. --yes does not cover them, since the
// model chose them.
func (p *asker) more(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if !p.Interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	where := cmp.Or(q.Destination, "its code, on this machine")
	p.Say("The model asks for these files of the project, for %s. It says: %s", where, command.Printable(q.Reason))
	p.listFiles(q)
	return p.pickFiles(ctx, q, "Give them?", "Give")
}

func (p *asker) listFiles(q conversation.Ask) {
	for _, f := range q.Files {
		line := fmt.Sprintf("  %s  %s", command.PrintableName(f.Path), command.SizeText(f.Size))
		if f.See {
			line += "  (shown to the model)"
		}
		if f.Again {
			line += "  (again, from an earlier turn)"
		}
		p.Say("%s", line+careful(f.Sensitivity))
	}
}

// save chooses outputs. Naming a folder with -o agrees to new names there.
func (p *asker) save(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	a := conversation.Answer{OK: true, Picks: []conversation.Pick{}}
	ask := p.Interactive() && !p.options.Yes
	every := ""
	if ask && p.options.Folder == "" {
		line, err := p.AskLine(ctx, fmt.Sprintf("Save %s into %s? [y]es, [N]o, or [s]elect: ",
			english.Plural(len(q.Outputs), "file", ""), command.Printable(p.shown.short(q.Folder))))
		if err != nil {
			return a, err
		}
		if every = line; !strings.HasPrefix(line, "y") && !strings.HasPrefix(line, "s") {
			return conversation.Answer{}, nil
		}
	}
	for _, o := range q.Outputs {
		pick := conversation.Pick{ID: o.ID, SHA256: o.SHA256}
		yes, err := true, error(nil)
		switch {
		case o.Refused != "":
			p.Say("%s cannot be saved: %s", command.PrintableName(o.Name), command.Printable(o.Refused))
		case o.Warning != "" && p.options.Allows(o.Path) && (!o.Exists || !ask):
			if o.Exists && p.options.Yes {
				pick.Clash = conversation.ClashRename
			}
		case !ask && o.Warning != "":
			p.Say("%s is not saved without a person: %s", command.PrintableName(o.Name), command.Printable(o.Warning))
			p.shown.held = append(p.shown.held, o.Path)
			yes = false
		case !ask && o.Exists && p.options.Yes:
			pick.Clash = conversation.ClashRename
		case ask:
			yes, err = p.saveOne(ctx, q, o, &pick, strings.HasPrefix(every, "s"))
		}
		if err != nil {
			return a, err
		}
		if yes {
			a.Picks = append(a.Picks, pick)
		}
	}
	return a, nil
}

// saveOne asks about one output, if need be.
func (p *asker) saveOne(
	ctx context.Context, q conversation.Ask, o conversation.OutputAsked, pick *conversation.Pick, selecting bool,
) (bool, error) {
	switch {
	case o.Exists:
		if o.Warning != "" {
			p.Say("CAREFUL: %s", command.Printable(o.Warning))
		}
		p.shown.overwrite(o.Change)
		line, err := p.AskLine(ctx, fmt.Sprintf("%s exists in %s. Overwrite it? [y]es, [N]o, or [r]ename: ",
			command.PrintableName(o.Path), command.Printable(p.shown.short(q.Folder))))
		switch {
		case strings.HasPrefix(line, "y"):
			pick.Clash = conversation.ClashReplace
		case strings.HasPrefix(line, "r"):
			pick.Clash = conversation.ClashRename
		default:
			return false, err
		}
		return true, err
	case selecting, o.Warning != "":
		question := "Save " + command.PrintableName(o.Path) + " (" + command.SizeText(o.Size) + ", " +
			command.Printable(o.MIME) + ")"
		if o.Warning != "" {
			question += ": " + command.Printable(o.Warning) + ". Save it"
		}
		return p.Confirm(ctx, question+"? [y/N] ")
	}
	return true, nil
}

// apply lets the user review a reply for their project.
func (p *asker) apply(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	w := &work{Assistant: p.Assistant, state: p.state, handled: q.Handled, proposal: q.Proposal}
	if p.options.Yes {
		consent, err := w.automatic(workspace.Automatic())
		if err == nil {
			return conversation.Answer{OK: true, Consent: &consent}, nil
		}
		p.Say("%v", err)
	}
	if p.options.Yes || !p.canAsk() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	k, err := p.openKeyboard()
	if err != nil {
		return conversation.Answer{}, err
	}
	defer k.close()
	r := &reviewer{keyboard: k, assistant: p.Assistant, proposal: q.Proposal, resolve: w.resolve}
	consent, err := r.agree(ctx, reportsOf(q.Handled), false)
	if errors.Is(err, errQuit) {
		return conversation.Answer{}, nil
	}
	return conversation.Answer{OK: err == nil, Consent: &consent}, err
}
