package cli

import (
	"context"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) outbox() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Lists reports to projects that wait, and questions that are open",
		Long: `Lists reports to projects that wait, and questions that are open.

Reports are sent when a reply is applied, by airlock serve while it runs, and by
"airlock outbox send". One that the API refuses is parked until somebody says
"retry" or "drop"; one that is not certain waits for "confirm". An id may be cut
off after its first characters.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withOutbox(cmd.Context(), func(d *localState) error { return a.showOutbox(cmd.Context(), d, all) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list what was sent or dropped too")
	post := func(use, short string, args cobra.PositionalArgs,
		do func(*assignment.Outbox, context.Context, string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: args,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.changeOutbox(cmd.Context(), func(o *assignment.Outbox) error {
					return do(o, cmd.Context(), strings.Join(args, "")) // one id, or "" for all
				})
			}}
	}
	commands := []*cobra.Command{
		post("send", "Sends what waits now, parked reports too", cobra.NoArgs, (*assignment.Outbox).Retry),
		post("retry ID", "Sends one report now", cobra.ExactArgs(1), (*assignment.Outbox).Retry),
		post("confirm ID", "Lets a report go that waited for somebody to look", cobra.ExactArgs(1),
			(*assignment.Outbox).Confirm),
		post("drop ID", "Decides that a report shall not be sent", cobra.ExactArgs(1), (*assignment.Outbox).Drop),
		a.answer(),
	}
	for _, c := range commands {
		cmd.AddCommand(a.withFlags(c, config.Project))
	}
	return a.withFlags(cmd)
}

func (a *app) answer() *cobra.Command {
	answer := assignment.Answer{Verdict: assignment.Chosen}
	reject := false
	cmd := &cobra.Command{
		Use:   "answer ESCALATION [CHOICE]",
		Short: "Decides an escalation: the number of an option, its first words, or your own",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case reject && len(args) > 1, !reject && len(args) < 2:
				return fail(exitUsage, "to leave it open, do nothing", "give either a choice or --reject")
			case reject:
				answer.Verdict = assignment.Rejected
			default:
				answer.Choice = args[1]
			}
			if who, err := user.Current(); err == nil {
				answer.By = who.Username
			}
			return a.changeOutbox(cmd.Context(), func(o *assignment.Outbox) error {
				_, err := o.Answer(cmd.Context(), args[0], answer)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&answer.Note, "note", "", "what else there is to say")
	cmd.Flags().BoolVar(&reject, "reject", false, "the question does not stand")
	return cmd
}

// changeOutbox changes reports, sends what can be sent, and shows the rest.
func (a *app) changeOutbox(ctx context.Context, change func(*assignment.Outbox) error) error {
	return workError(a.withOutbox(ctx, func(d *localState) error {
		if err := change(d.Outbox); err != nil {
			return err
		}
		if err := d.send(ctx, assignment.Query{}); err != nil {
			return err
		}
		return a.showOutbox(ctx, d, false)
	}))
}

func (a *app) showOutbox(ctx context.Context, d *localState, all bool) error {
	lanes, err := d.Outbox.Lanes(ctx, assignment.Query{})
	if err != nil {
		return err
	}
	r := outboxReport{Posts: []waitingPost{}, Questions: []askedQuestion{}, Assignments: []assignmentView{}}
	for i := range lanes {
		l := &lanes[i]
		if l.Assignment != "" {
			r.Assignments = append(r.Assignments, assignmentView{l.LaneID, l.Status})
		}
		for j := range l.Posts {
			if p := &l.Posts[j]; all || !p.State.Final() {
				r.Posts = append(r.Posts, waitingPost{changes.StateOf(p), p.API, p.Project, p.Summary(), p.Attempts,
					p.NotBefore})
			}
		}
		for j := range l.Escalations {
			if e := &l.Escalations[j]; all || e.Answer == nil {
				r.Questions = append(r.Questions, askedQuestion{changes.QuestionOf(e), e.Project, e.Answer})
			}
		}
	}
	return a.print(r)
}

// outboxReport is what outbox prints.
type outboxReport struct {
	Posts       []waitingPost    `json:"posts"`
	Questions   []askedQuestion  `json:"questions"`
	Assignments []assignmentView `json:"assignments"`
}

type waitingPost struct {
	changes.PostState
	API       string    `json:"api"`
	Project   string    `json:"project"`
	Summary   string    `json:"summary"`
	Attempts  int       `json:"attempts"`
	NotBefore time.Time `json:"not_before,omitzero"`
}

type askedQuestion struct {
	changes.Question
	Project string             `json:"project"`
	Answer  *assignment.Answer `json:"answer,omitempty"`
}

type assignmentView struct {
	assignment.LaneID
	assignment.Status
}

func (r outboxReport) text(p *page) {
	for _, post := range r.Posts {
		p.line("%s %s", p.paint(faint, fmt.Sprintf("%.12s", post.ID)), printable(post.Project))
		showPost(p, post.PostState)
		p.line("%s %s", pad("", 10), printable(post.Summary))
	}
	for _, q := range r.Questions {
		result := changes.Result{State: changes.Applied, Questions: []changes.Question{q.Question}}
		if q.Answer == nil {
			showQuestions(p, &result)
		} else {
			p.line("%s %s: %s", p.paint(green, pad("answered", 10)), printable(q.Question.Question),
				printable(strings.TrimSpace(q.Answer.Choice+" "+q.Answer.Note)))
		}
	}
	for _, s := range r.Assignments {
		p.line("%s %s: %d %%, %s", p.paint(bold, pad(printable(s.Assignment), 10)), printable(s.Project), s.Percent, s.Work)
	}
	if len(r.Posts)+len(r.Questions) == 0 {
		p.line("Nothing waits.")
	}
}
