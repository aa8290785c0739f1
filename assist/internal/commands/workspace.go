package commands

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

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// owner owns the links and replies of the command line: the same owner as that of a
// local caller without a key.
const owner = command.Owner

// localState is the open state of the commands about folders and projects.
type localState struct {
	*changes.Replies
	db     *state.DB
	sender *assignment.Sender
	// service is the user of the service if this state is root's own and the service
	// has another one; else nil.
	service *syscall.Credential
}

// openState opens the state in the data directory.
func (a *Assistant) openState(ctx context.Context) (*localState, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, command.DataError(dir, err)
	}
	db, err := state.Open(ctx, dir, state.Options{Reserve: a.service.Reserve(dir)})
	if err != nil {
		return nil, command.DataError(dir, err)
	}
	return &localState{
		Replies: changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(),
			Outbox: assignment.NewOutbox(db.Outbox()), Protected: []string{dir}, Log: a.Log}),
		db:     db,
		sender: a.newSender(db, nil),
	}, nil
}

// newSender returns a sender of the posts of a state. If web is nil, it uses the default client.
func (a *Assistant) newSender(db *state.DB, web *http.Client) *assignment.Sender {
	return assignment.NewSender(db.Outbox(), assignment.SenderOptions{HTTP: web, Token: a.tokenFor(db), Log: a.Log})
}

func (d *localState) Close() error { return d.db.Close() }

// tokenFor returns a function that gives the token to the API that the settings name
// or, if they name none, to the APIs with which projects of this user are linked, and
// to no other.
func (a *Assistant) tokenFor(db *state.DB) func(string) string {
	return func(api string) string {
		token := string(a.Config.APIToken)
		if token == "" {
			return ""
		}
		if a.Config.API != "" {
			if assignment.Origin(a.Config.API) == assignment.Origin(api) {
				return token
			}
			return ""
		}
		links, err := db.Projects().Links(context.Background(), owner)
		if err != nil {
			a.Log.Error("the links of projects cannot be read", "err", err)
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

// sendTimeout bounds how long a command waits for the API of a project. The rest is sent
// later.
const sendTimeout = 5 * time.Second

// send sends the posts that wait, as far as possible now.
func (d *localState) send(ctx context.Context, q assignment.Query) error {
	bounded, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := d.sender.Drain(bounded, q)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// sendReports sends the reports of a reply, as far as possible now, and refreshes their states.
func (a *Assistant) sendReports(ctx context.Context, d *localState, h *changes.ReplyRecord) error {
	if err := d.send(ctx, assignment.Query{API: h.API, Project: h.Project}); err != nil {
		a.Log.Warn("the reports wait", "err", err)
	}
	return d.Refresh(context.WithoutCancel(ctx), h)
}

func (a *Assistant) workspace() *cobra.Command {
	link := &cobra.Command{
		Use:   "link PROJECT DIR",
		Short: "Links a project with a folder; --api says where its reports go",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			if info, err := os.Stat(root); err != nil || !info.IsDir() {
				return command.Fail(command.ExitUsage, "make the folder first", "%s is not a folder", args[1])
			}
			return a.withStateFor(cmd.Context(), root, func(d *localState) error {
				l, err := d.Link(cmd.Context(), changes.Link{Owner: owner, Project: args[0], Root: root, API: a.Config.API})
				if err != nil {
					return workError(err)
				}
				a.Out.Result(linkReport{l})
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
			return a.PrintLine(map[string]string{"unlinked": args[0]}, "Project %s has no folder any more.", args[0])
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
			return a.Print(linksReport{append([]changes.Link{}, links...)})
		},
	}
	return command.GroupOf("workspace", "Says which folder belongs to which project",
		`Says which folder belongs to which project.

A link is consent: replies of the project's conversations may be applied to the
folder, with an approval each. Unlinking revokes that.`,
		a.WithFlags(link, config.Project), a.WithFlags(unlink), a.WithFlags(list))
}

type linkReport struct{ changes.Link }

func (r linkReport) WriteText(p *command.Page) {
	p.Line("Replies of project %s may be applied to %s.", r.Project, command.Printable(r.Root))
	if r.API != "" {
		p.Line("Progress is reported to %s.", command.Printable(r.API))
	}
}

type linksReport struct {
	Links []changes.Link `json:"links"`
}

func (r linksReport) WriteText(p *command.Page) {
	if len(r.Links) == 0 {
		p.Line("No project has a folder. `airlock workspace link PROJECT DIR` gives it one.")
		return
	}
	for _, l := range r.Links {
		p.Line("%s  %s", p.Paint(command.Bold, command.Pad(l.Project, 16)), command.Printable(l.Root))
		if l.API != "" {
			p.Line("%s  reports to %s", command.Pad("", 16), command.Printable(l.API))
		}
	}
}

// readPolicy reads the policy file that the settings name.
func (a *Assistant) readPolicy() (*workspace.Policy, error) {
	if a.Config.Policy == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.Config.Policy)
	if err != nil {
		return nil, command.Unreadable(a.Config.Policy, err)
	}
	policy, err := workspace.ParsePolicy(text)
	if err != nil {
		return nil, command.Fail(command.ExitUsage, "docs/workspace.md explains the rules", "%s is not a policy: %w",
			a.Config.Policy, err)
	}
	return &policy, nil
}

// logHint says where the id of a proposal or a transaction is to be had.
const logHint = "`airlock log --root DIR` lists the proposals and transactions of a folder, with their ids"

// workError gives an error of a folder or a project an exit code and a hint.
func workError(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*command.Failure](err); known {
		return err
	}
	answered, late := errors.AsType[*assignment.AnsweredError](err)
	_, wrongState := errors.AsType[*assignment.StateError](err)
	switch {
	case late:
		return &command.Failure{Code: command.ExitConflict, Word: "answered", Err: answered}
	case wrongState, errors.Is(err, changes.ErrDone):
		return &command.Failure{Code: command.ExitConflict, Err: err}
	case errors.Is(err, workspace.ErrRefused):
		return &command.Failure{Code: command.ExitRefused, Err: err}
	case errors.Is(err, workspace.ErrConflict), errors.Is(err, workspace.ErrStale),
		errors.Is(err, workspace.ErrNeedsDecision):
		return &command.Failure{Code: command.ExitConflict, Err: err}
	case errors.Is(err, workspace.ErrBusy):
		return &command.Failure{Code: command.ExitUnavailable, Word: "busy", Err: err, Hint: "try again in a moment"}
	case errors.Is(err, conversation.ErrInvalid):
		return &command.Failure{Code: command.ExitUsage, Err: err}
	case errors.Is(err, changes.ErrClosed):
		return &command.Failure{Code: command.ExitApproval, Err: err}
	case errors.Is(err, workspace.ErrNotFound):
		return &command.Failure{Code: command.ExitFailed, Word: "not_found", Err: err, Hint: logHint}
	case errors.Is(err, workspace.ErrNothing),
		errors.Is(err, conversation.ErrNotFound), errors.Is(err, assignment.ErrNotFound):
		return &command.Failure{Code: command.ExitFailed, Word: "not_found", Err: err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &command.Failure{Code: command.ExitFailed, Word: "not_writable", Err: err,
			Hint: "this user must be able to write to the folder; `airlock apply --zip FILE` saves the files as an archive"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &command.Failure{Code: command.ExitFailed, Word: "disk_full", Err: err, Hint: "make room on the disk"}
	}
	return err
}
