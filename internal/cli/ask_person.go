package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

// asker answers the questions of a conversation: the person at the terminal,
// or what the command line says in their place.
type asker struct {
	*app
	options askOptions
	desk    *desk
	shown   *turnShown
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

// yesNo asks at the terminal, if there is one.
func (p *asker) yesNo(ctx context.Context, question string) (conversation.Answer, error) {
	if !p.interactive() {
		return conversation.Answer{}, conversation.ErrNonInteractive
	}
	yes, err := p.confirm(ctx, question)
	return conversation.Answer{OK: yes}, err
}

// send asks before files leave the machine. --yes is consent to the files that
// the command line names.
func (p *asker) send(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.options.yes {
		for _, f := range q.Files {
			if f.Doubt != "" && !p.json {
				p.say("%s  %s%s; --yes agrees to send it to %s", printableName(f.Path), sizeText(f.Size), careful(f.Doubt),
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

// pickFiles asks about files together or, if the person wants that, one by one.
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
	a.OK = a.OK && (q.Kind != conversation.AskSend || len(a.Picks) > 0) // none of them is no
	return a, err
}

// inline asks whether files may travel in the request. A script has agreed to
// send them; that they go in another way was said in a notice before.
func (p *asker) inline(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	if p.options.yes {
		return conversation.Answer{OK: true}, nil
	}
	return p.yesNo(ctx, fmt.Sprintf("Send %s (%s) within the request? [y/N] ", english.Plural(len(q.Files), "file", ""),
		sizeText(q.Bytes)))
}

// more asks about each file that the model wants. --yes does not cover them:
// the model chose them.
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
		p.say("%s", line+careful(f.Doubt))
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
		case o.Warning != "" && p.allowed(o.Path) && (!o.Exists || !ask):
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
			yes, err = p.one(ctx, q, o, &pick, strings.HasPrefix(every, "s"))
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

// allowed reports whether the command line agrees to a file of this name that
// wants a person's approval.
func (p *asker) allowed(name string) bool {
	return slices.ContainsFunc(p.options.allow, func(pattern string) bool { return workspace.MatchPath(pattern, name) })
}

// one asks about one output, where there is something to ask.
func (p *asker) one(
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

// apply lets the person review a reply for their project.
func (p *asker) apply(ctx context.Context, q conversation.Ask) (conversation.Answer, error) {
	w := &work{app: p.app, desk: p.desk, handled: q.Handled, proposal: q.Proposal}
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

// confirm asks for a yes, which may be cut off.
func (a *app) confirm(ctx context.Context, question string) (bool, error) {
	line, err := a.askLine(ctx, question)
	return strings.HasPrefix(line, "y"), err
}

// askLine puts a question to the person and waits for a line, or for the end
// of the context. The end of input is an empty line, and io.EOF comes with it
// only from readLine.
func (a *app) askLine(ctx context.Context, question string) (string, error) {
	line, err := a.readLine(ctx, question)
	if errors.Is(err, io.EOF) {
		a.say("")
		err = nil
	}
	return strings.ToLower(strings.TrimSpace(line)), err
}

// readLine reads a line byte by byte: what follows it is not ours.
func (a *app) readLine(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.streams.Err, prompt)
	var line bytes.Buffer
	var one [1]byte
	for {
		if err := readable(ctx, a.streams.In); err != nil {
			fmt.Fprintln(a.streams.Err)
			return "", err
		}
		n, err := a.streams.In.Read(one[:])
		switch {
		case n == 1 && one[0] == '\n':
			return line.String(), nil
		case n == 1:
			line.WriteByte(one[0])
		case err != nil:
			return line.String(), err
		}
	}
}

// readable waits until there is something to read, or the context ends.
func readable(ctx context.Context, in io.Reader) error {
	f, ok := in.(*os.File)
	if !ok {
		return ctx.Err()
	}
	ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n, err := unix.Poll(ready, 100); n != 0 && !errors.Is(err, unix.EINTR) {
			return nil // or an error, which the read will have too
		}
	}
}

func sizeText(n int64) string {
	if n < 0 {
		return "size unknown"
	}
	return humanize.IBytes(uint64(n))
}
