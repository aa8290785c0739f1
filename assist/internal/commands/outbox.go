package commands

import (
	"context"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *Assistant) outbox() *cobra.Command {
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
		post("confirm ID", "Sends a report that was held for you to look at", cobra.ExactArgs(1),
			(*assignment.Outbox).Confirm),
		post("drop ID", "Decides that a report shall not be sent", cobra.ExactArgs(1), (*assignment.Outbox).Drop),
		a.answer(),
	}
	for _, c := range commands {
		cmd.AddCommand(a.WithFlags(c, config.Project))
	}
	return a.WithFlags(cmd)
}

func (a *Assistant) answer() *cobra.Command {
	answer := assignment.Answer{Verdict: assignment.Chosen}
	reject := false
	cmd := &cobra.Command{
		Use:   "answer ESCALATION [CHOICE]",
		Short: "Decides an escalation: the number of an option, its first words, or your own",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case reject && len(args) > 1, !reject && len(args) < 2:
				return command.Fail(command.ExitUsage, "to leave it open, do nothing", "give either a choice or --reject")
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
	cmd.Flags().BoolVar(&reject, "reject", false, "the question no longer applies")
	return cmd
}

// changeOutbox changes reports, sends what can be sent, and shows the rest.
func (a *Assistant) changeOutbox(ctx context.Context, change func(*assignment.Outbox) error) error {
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

func (a *Assistant) showOutbox(ctx context.Context, d *localState, all bool) error {
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
	return a.Print(r)
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

func (r outboxReport) WriteText(p *command.Page) {
	for _, post := range r.Posts {
		p.Line("%s %s", p.Paint(command.Faint, fmt.Sprintf("%.12s", post.ID)), command.Printable(post.Project))
		showPost(p, post.PostState)
		p.Line("%s %s", command.Pad("", 10), command.Printable(post.Summary))
	}
	for _, q := range r.Questions {
		result := changes.Result{State: changes.Applied, Questions: []changes.Question{q.Question}}
		if q.Answer == nil {
			showQuestions(p, &result)
		} else {
			p.Line("%s %s: %s", p.Paint(command.Green, command.Pad("answered", 10)), command.Printable(q.Question.Question),
				command.Printable(strings.TrimSpace(q.Answer.Choice+" "+q.Answer.Note)))
		}
	}
	for _, s := range r.Assignments {
		p.Line("%s %s: %d %%, %s", p.Paint(command.Bold, command.Pad(command.Printable(s.Assignment), 10)),
			command.Printable(s.Project), s.Percent, s.Work)
	}
	if len(r.Posts)+len(r.Questions) == 0 {
		p.Line("Nothing waits.")
	}
}
