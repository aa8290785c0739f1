package cli

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/state"
	"github.com/airlock-run/airlock/workspace"
)

// owner is whose links and replies those of the command line are: the same as
// of a caller on this machine without a key.
const owner = string(engine.Local)

// desk is what the commands about folders and projects stand on.
type desk struct {
	*conversation.Replies
	db     *state.DB
	sender *assignment.Sender
	// service is the user of the service, where this state is root's own and
	// the service has another; else nil.
	service *syscall.Credential
}

// openDesk opens the state in the data directory.
func (a *app) openDesk(ctx context.Context) (*desk, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dataError(dir, err)
	}
	db, err := state.Open(ctx, dir, a.log, state.WithReserve(a.reserveOf(dir)))
	if err != nil {
		return nil, stateError(dir, err)
	}
	return a.newDesk(db, dir), nil
}

func (a *app) newDesk(db *state.DB, dir string) *desk {
	return &desk{
		Replies: conversation.NewReplies(conversation.Options{Store: db.Projects(), Journal: db.Journal(),
			Outbox: assignment.NewOutbox(db.Outbox(), nil), Protected: []string{dir}, Log: a.log}),
		db:     db,
		sender: a.newSender(db, nil),
	}
}

// newSender delivers the posts of a state with the client; nil: the default one.
func (a *app) newSender(db *state.DB, web *http.Client) *assignment.Sender {
	return assignment.NewSender(db.Outbox(), assignment.SenderOptions{HTTP: web, Token: a.tokenFor(db), Log: a.log})
}

func stateError(dir string, err error) error {
	f := &failure{code: exitUnavailable, err: err}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		f.hint = "this user must be able to write to " + dir + "; --data DIR names another directory"
	}
	return f
}

func (d *desk) close() error { return d.db.Close() }

// withDesk does something with the desk.
func (a *app) withDesk(ctx context.Context, do func(*desk) error) error {
	d, err := a.openDesk(ctx)
	return using(d, err, do)
}

// using does something with what was opened, and closes it.
func using[T interface{ close() error }](opened T, err error, do func(T) error) error {
	if err != nil {
		return err
	}
	err = do(opened)
	if closed := opened.close(); err == nil {
		err = closed
	}
	return err
}

// tokenFor gives the token to the API that it belongs to and to no other: the
// one that the settings name, or, if they name none, one that a project of
// this user is linked with.
func (a *app) tokenFor(db *state.DB) func(string) string {
	return func(api string) string {
		token := string(a.cfg.APIToken)
		if token == "" {
			return ""
		}
		if a.cfg.API != "" {
			if assignment.Origin(a.cfg.API) == assignment.Origin(api) {
				return token
			}
			return ""
		}
		links, err := db.Projects().Links(context.Background(), owner)
		if err != nil {
			a.log.Error("the links of projects cannot be read", "err", err)
			return ""
		}
		for _, l := range links {
			if l.API != "" && assignment.Origin(l.API) == assignment.Origin(api) {
				return token
			}
		}
		return ""
	}
}

// sendTime is how long a command waits for the API of a project. What is not
// sent by then is sent later.
const sendTime = 5 * time.Second

// send sends what waits for a project, as far as that goes now.
func (d *desk) send(ctx context.Context, q assignment.Query) error {
	bounded, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := d.sender.Drain(bounded, q)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// sendReports sends those of a reply, as far as that goes now, and looks how far they are.
func (a *app) sendReports(ctx context.Context, d *desk, h *conversation.ReplyRecord) error {
	if err := d.send(ctx, assignment.Query{API: h.API, Project: h.Project}); err != nil {
		a.log.Warn("the reports wait", "err", err)
	}
	return d.Refresh(context.WithoutCancel(ctx), h)
}

func (a *app) workspace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workspace",
		Short: "Says which folder belongs to which project",
		Long: `Says which folder belongs to which project.

A link is consent: replies of the project's conversations may be applied to the
folder, with an approval each. Unlinking revokes that.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	link := &cobra.Command{
		Use:   "link PROJECT DIR",
		Short: "Gives a project a folder; --api says where the project is told",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			if info, err := os.Stat(root); err != nil || !info.IsDir() {
				return fail(exitUsage, "make the folder first", "%s is not a folder", args[1])
			}
			return a.withDeskFor(cmd.Context(), root, func(d *desk) error {
				l, err := d.Link(cmd.Context(), conversation.Link{Owner: owner, Project: args[0], Root: root, API: a.cfg.API})
				if err != nil {
					return workError(err)
				}
				a.out.result(linkReport{l})
				a.tell(d, l.Root, nil, "workspace", "link", l.Project, l.Root)
				return nil
			})
		},
	}
	unlink := &cobra.Command{
		Use:   "unlink PROJECT",
		Short: "Takes a project's folder back; the folder stays as it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.unlink(cmd.Context(), args[0]); err != nil {
				return workError(err)
			}
			a.out.result(unlinkReport{args[0]})
			return nil
		},
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "Lists the links",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			links, err := a.allLinks(cmd.Context())
			if err != nil {
				return err
			}
			a.out.result(linksReport{append([]conversation.Link{}, links...)})
			return nil
		},
	}
	addOptions(link.Flags(), config.Project)
	for _, c := range []*cobra.Command{link, unlink, list} {
		a.addJSON(c)
		cmd.AddCommand(c)
	}
	return cmd
}

type linkReport struct{ conversation.Link }

func (r linkReport) text(p *page) {
	p.line("Replies of project %s may be applied to %s.", r.Project, printable(r.Root))
	if r.API != "" {
		p.line("Progress is reported to %s.", printable(r.API))
	}
}

type unlinkReport struct {
	Project string `json:"unlinked"`
}

func (r unlinkReport) text(p *page) { p.line("Project %s has no folder any more.", r.Project) }

type linksReport struct {
	Links []conversation.Link `json:"links"`
}

func (r linksReport) text(p *page) {
	if len(r.Links) == 0 {
		p.line("No project has a folder. `airlock workspace link PROJECT DIR` gives it one.")
		return
	}
	for _, l := range r.Links {
		p.line("%s  %s", p.paint(bold, pad(l.Project, 16)), printable(l.Root))
		if l.API != "" {
			p.line("%s  reports to %s", pad("", 16), printable(l.API))
		}
	}
}

// readPolicy reads the file with rules that the settings name.
func (a *app) readPolicy() (*workspace.Policy, error) {
	if a.cfg.Policy == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.cfg.Policy)
	if err != nil {
		return nil, unreadable(a.cfg.Policy, err)
	}
	policy, err := workspace.ParsePolicy(text)
	if err != nil {
		return nil, fail(exitUsage, "docs/workspace.md explains the rules", "%s is not a policy: %w", a.cfg.Policy, err)
	}
	return &policy, nil
}

// workError gives an error of a folder or a project its exit code.
func workError(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*failure](err); known {
		return err
	}
	answered, late := errors.AsType[*assignment.AnsweredError](err)
	_, wrongState := errors.AsType[*assignment.StateError](err)
	switch {
	case late:
		return &failure{code: exitConflict, word: "answered", err: answered}
	case wrongState, errors.Is(err, conversation.ErrDone):
		return &failure{code: exitConflict, err: err}
	case errors.Is(err, workspace.ErrRefused):
		return &failure{code: exitRefused, err: err}
	case errors.Is(err, workspace.ErrConflict), errors.Is(err, workspace.ErrStale),
		errors.Is(err, workspace.ErrNeedsDecision):
		return &failure{code: exitConflict, err: err}
	case errors.Is(err, workspace.ErrBusy):
		return &failure{code: exitUnavailable, word: "busy", err: err, hint: "try again in a moment"}
	case errors.Is(err, conversation.ErrInvalid):
		return &failure{code: exitUsage, err: err}
	case errors.Is(err, conversation.ErrClosed):
		return &failure{code: exitApproval, err: err}
	case errors.Is(err, workspace.ErrNothing), errors.Is(err, workspace.ErrNotFound),
		errors.Is(err, conversation.ErrNotFound), errors.Is(err, assignment.ErrNotFound):
		return &failure{code: exitFailed, word: "not_found", err: err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &failure{code: exitFailed, word: "not_writable", err: err,
			hint: "this user must be able to write to the folder; `airlock apply --zip FILE` saves the files as an archive"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &failure{code: exitFailed, word: "disk_full", err: err, hint: "make room on the disk"}
	}
	return err
}
