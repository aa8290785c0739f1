package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

// asker answers the questions of a conversation: from the command line, else by asking
// the user at the terminal.
type asker struct {
	*app
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
		return p.yesNo(ctx, "Go on without? [y/N] ")
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
	if !p.interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	yes, err := p.confirm(ctx, question)
	return conversation.Answer{OK: yes}, err
}

// send asks before files leave the machine. --yes agrees to the files that the command
// line names.
func (p *asker) send(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.options.yes {
		for _, f := range q.Files {
			if f.Sensitivity != "" && !p.json {
				p.say("%s  %s%s; --yes agrees to send it to %s", printableName(f.Path), sizeText(f.Size), careful(f.Sensitivity),
					q.Destination)
			}
		}
		return conversation.Answer{OK: true}, nil
	}
	if !p.interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	p.say("These files would leave this machine for %s:", q.Destination)
	p.listFiles(q)
	if len(q.Files) == 1 {
		return p.yesNo(ctx, fmt.Sprintf("Send 1 file (%s)? [y/N] ", sizeText(q.Bytes)))
	}
	return p.pickFiles(ctx, q, fmt.Sprintf("Send %s (%s)?", english.Plural(len(q.Files), "file", ""), sizeText(q.Bytes)),
		"Send")
}

// pickFiles asks about all files at once or, if the user selects that, one by one.
func (p *asker) pickFiles(ctx context.Context, q conversation.Ask, question, verb string) (conversation.Answer, error) {
	line, err := p.askLine(ctx, question+" [y]es, [N]o, or [s]elect: ")
	a := conversation.Answer{OK: strings.HasPrefix(line, "y") || strings.HasPrefix(line, "s"),
		Picks: []conversation.Pick{}}
	for _, f := range q.Files {
		if err != nil || !a.OK {
			break
		}
		yes := strings.HasPrefix(line, "y")
		if !yes {
			yes, err = p.confirm(ctx, fmt.Sprintf("%s %s (%s)? [y/N] ", verb, printableName(f.Path), sizeText(f.Size)))
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
	if p.options.yes {
		return conversation.Answer{OK: true}, nil
	}
	return p.yesNo(ctx, fmt.Sprintf("Send %s (%s) within the request? [y/N] ", english.Plural(len(q.Files), "file", ""),
		sizeText(q.Bytes)))
}

// more asks about each file that the model wants. --yes does not cover them, since the
// model chose them.
func (p *asker) more(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if !p.interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	where := cmp.Or(q.Destination, "its code, on this machine")
	p.say("The model asks for these files of the project, for %s. It says: %s", where, printable(q.Reason))
	p.listFiles(q)
	return p.pickFiles(ctx, q, "Give them?", "Give")
}

func (p *asker) listFiles(q conversation.Ask) {
	for _, f := range q.Files {
		line := fmt.Sprintf("  %s  %s", printableName(f.Path), sizeText(f.Size))
		if f.See {
			line += "  (shown to the model)"
		}
		if f.Again {
			line += "  (again, from an earlier turn)"
		}
		p.say("%s", line+careful(f.Sensitivity))
	}
}

// save chooses outputs. Naming a folder with -o agrees to new names there.
func (p *asker) save(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	a := conversation.Answer{OK: true, Picks: []conversation.Pick{}}
	ask := p.interactive() && !p.options.yes
	every := ""
	if ask && p.options.folder == "" {
		line, err := p.askLine(ctx, fmt.Sprintf("Save %s into %s? [y]es, [N]o, or [s]elect: ",
			english.Plural(len(q.Outputs), "file", ""), printable(p.shown.short(q.Folder))))
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
			p.say("%s cannot be saved: %s", printableName(o.Name), printable(o.Refused))
		case o.Warning != "" && p.options.allows(o.Path) && (!o.Exists || !ask):
			if o.Exists && p.options.yes {
				pick.Clash = conversation.ClashRename
			}
		case !ask && o.Warning != "":
			p.say("%s is not saved without a person: %s", printableName(o.Name), printable(o.Warning))
			p.shown.held = append(p.shown.held, o.Path)
			yes = false
		case !ask && o.Exists && p.options.yes:
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
			p.say("CAREFUL: %s", printable(o.Warning))
		}
		p.shown.overwrite(o.Change)
		line, err := p.askLine(ctx, fmt.Sprintf("%s exists in %s. Overwrite it? [y]es, [N]o, or [r]ename: ",
			printableName(o.Path), printable(p.shown.short(q.Folder))))
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
		question := "Save " + printableName(o.Path) + " (" + sizeText(o.Size) + ", " + printable(o.MIME) + ")"
		if o.Warning != "" {
			question += ": " + printable(o.Warning) + ". Save it"
		}
		return p.confirm(ctx, question+"? [y/N] ")
	}
	return true, nil
}

// apply lets the user review a reply for their project.
func (p *asker) apply(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	w := &work{app: p.app, state: p.state, handled: q.Handled, proposal: q.Proposal}
	if p.options.yes {
		consent, err := w.automatic(workspace.Automatic())
		if err == nil {
			return conversation.Answer{OK: true, Consent: &consent}, nil
		}
		p.say("%v", err)
	}
	if p.options.yes || !p.canAsk() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	k, err := p.openKeyboard()
	if err != nil {
		return conversation.Answer{}, err
	}
	defer k.close()
	r := &reviewer{keyboard: k, app: p.app, proposal: q.Proposal, resolve: w.resolve}
	consent, err := r.agree(ctx, reportsOf(q.Handled), false)
	if errors.Is(err, errQuit) {
		return conversation.Answer{}, nil
	}
	return conversation.Answer{OK: err == nil, Consent: &consent}, err
}
