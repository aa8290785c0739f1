package cli

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/state"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/workspace"
)

// owner owns the links and replies of the command line: the same owner as that of a
// local caller without a key.
const owner = string(engine.Local)

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
func (a *app) openState(ctx context.Context) (*localState, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dataError(dir, err)
	}
	db, err := state.Open(ctx, dir, a.log, state.WithReserve(a.reserveOf(dir)))
	if err != nil {
		return nil, dataError(dir, err)
	}
	return &localState{
		Replies: changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(),
			Outbox: assignment.NewOutbox(db.Outbox(), nil), Protected: []string{dir}, Log: a.log}),
		db:     db,
		sender: a.newSender(db, nil),
	}, nil
}

// newSender returns a sender of the posts of a state. If web is nil, it uses the default client.
func (a *app) newSender(db *state.DB, web *http.Client) *assignment.Sender {
	return assignment.NewSender(db.Outbox(), assignment.SenderOptions{HTTP: web, Token: a.tokenFor(db), Log: a.log})
}

func (d *localState) close() error { return d.db.Close() }

// inBackground runs functions until stop is called, which cancels their context and waits for them.
func inBackground(ctx context.Context, run ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, f := range run {
		group.Go(func() { f(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// using calls do with what was opened, and closes it.
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

// tokenFor returns a function that gives the token to the API that the settings name
// or, if they name none, to the APIs with which projects of this user are linked, and
// to no other.
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
func (a *app) sendReports(ctx context.Context, d *localState, h *changes.ReplyRecord) error {
	if err := d.send(ctx, assignment.Query{API: h.API, Project: h.Project}); err != nil {
		a.log.Warn("the reports wait", "err", err)
	}
	return d.Refresh(context.WithoutCancel(ctx), h)
}

func (a *app) workspace() *cobra.Command {
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
			return a.withStateFor(cmd.Context(), root, func(d *localState) error {
				l, err := d.Link(cmd.Context(), changes.Link{Owner: owner, Project: args[0], Root: root, API: a.cfg.API})
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
			return a.printLine(map[string]string{"unlinked": args[0]}, "Project %s has no folder any more.", args[0])
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
			return a.print(linksReport{append([]changes.Link{}, links...)})
		},
	}
	return groupOf("workspace", "Says which folder belongs to which project",
		`Says which folder belongs to which project.

A link is consent: replies of the project's conversations may be applied to the
folder, with an approval each. Unlinking revokes that.`,
		a.withFlags(link, config.Project), a.withFlags(unlink), a.withFlags(list))
}

type linkReport struct{ changes.Link }

func (r linkReport) text(p *page) {
	p.line("Replies of project %s may be applied to %s.", r.Project, printable(r.Root))
	if r.API != "" {
		p.line("Progress is reported to %s.", printable(r.API))
	}
}

type linksReport struct {
	Links []changes.Link `json:"links"`
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

// readPolicy reads the policy file that the settings name.
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

// workError gives an error of a folder or a project an exit code and a hint.
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
	case wrongState, errors.Is(err, changes.ErrDone):
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
	case errors.Is(err, changes.ErrClosed):
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

// startProjects gives a service its folders and projects, and a sender that delivers
// reports while the service runs.
func (a *app) startProjects(ctx context.Context, s *service) error {
	d, err := a.openState(ctx)
	if err != nil {
		return err
	}
	policy, err := a.outbound(s, a.cfg.ProjectAPIs)
	if err != nil {
		return errors.Join(err, d.close())
	}
	d.sender = a.newSender(d.db, outbound.Guard(http.Client{
		Transport: policy.Transport(http.DefaultTransport.(*http.Transport))}))
	s.providers = d.db.Uploads().Counts
	stop := inBackground(context.WithoutCancel(ctx), d.sender.Run)
	s.below = append(s.below, func() error { stop(); return d.close() })
	if err := a.startConversations(ctx, s, d); err != nil {
		return err
	}
	reach := &changes.Scoped{Replies: d.Replies, Folders: a.cfg.Workspaces, Wake: d.sender.Wake,
		CheckAPI: policy.Check}
	s.work = &native.Work{Scoped: reach, Outbox: d.Outbox}
	inBrowser := *reach // only the page has folders on the users' own computers
	if dir, err := a.stateDir(); err == nil {
		inBrowser.Mirrors = filepath.Join(dir, "mirrors")
	}
	s.review = &web.Review{Scoped: &inBrowser, Replies: d.db.Projects()}
	return nil
}

// outbound returns the policy for connections that a service makes for its callers. It
// allows loopback while only this machine can reach the service and there are no keys.
func (a *app) outbound(s *service, allowed []string) (*outbound.Policy, error) {
	policy, err := outbound.New(allowed, func() bool { return a.cfg.Loopback() && !s.engine.Stats().HasKeys })
	if err != nil {
		return nil, fail(exitUsage, "", "--project-api: %w", err)
	}
	return policy, nil
}
