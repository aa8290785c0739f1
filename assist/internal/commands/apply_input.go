package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/internal/command"
)

// readReply reads the reply that the command line names. It previews a reply that
// arrives on standard input.
func (a *Assistant) readReply(
	ctx context.Context, o applyOptions, args []string,
) (m changes.Message, r *reply.Reply, file *messageFile, err error) {
	switch {
	case o.message != "":
		if file, err = readMessage(o.message); err != nil {
			return m, nil, nil, err
		}
		m = file.message
		r = reply.Parse([]byte(m.Text))
	case args[0] == "-":
		if r, err = a.streamReply(ctx, a.Streams.In); err != nil {
			return m, nil, nil, err
		}
	default:
		text, err := a.Read(args[0])
		if err != nil {
			return m, nil, nil, err
		}
		r = reply.Parse(text)
	}
	if o.project != "" {
		m.Project = o.project
	}
	if o.phase != "" {
		m.Phase = o.phase
	}
	m.API = a.Config.API
	root := o.root
	if root == "" && m.Project == "" {
		root = "."
	}
	if root == "" {
		return m, r, file, nil
	}
	if m.Root, err = filepath.Abs(root); err == nil {
		info, statErr := os.Stat(m.Root)
		switch {
		case statErr != nil:
			err = command.Unreadable(root, statErr)
		case !info.IsDir():
			err = command.Fail(command.ExitUsage, "name a folder with --root", "%s is not a folder", root)
		}
	}
	return m, r, file, err
}

// streamReply reads a reply as it arrives, and previews it. Nothing is applied before
// its end.
func (a *Assistant) streamReply(ctx context.Context, from io.Reader) (*reply.Reply, error) {
	parser := reply.NewParser(reply.Options{Events: a.preview})
	chunk := make([]byte, 32<<10)
	size := 0
	for {
		n, err := from.Read(chunk)
		if size += n; size > command.MaxText {
			return nil, command.Fail(command.ExitRefused, "", "the reply is larger than 16 MiB")
		}
		if _, err := parser.Write(chunk[:n]); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, command.Interrupted(ctx, ctx.Err())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, command.Unreadable("-", err)
		}
	}
	if err := parser.Close(); err != nil {
		return nil, err
	}
	return parser.Reply(), nil
}

// preview shows an event of a reply that is still arriving.
func (a *Assistant) preview(e reply.Event) {
	if a.JSON {
		return
	}
	it := &e.Item
	what := it.Path
	if it.Kind == reply.KindBlock && it.Block != nil {
		what = strings.TrimSpace(it.Block.Type + " " + it.Block.ID())
	}
	if what == "" || it.Verdict == reply.VerdictExample || it.Verdict == reply.VerdictCitation {
		return
	}
	switch e.Type {
	case reply.EventOpened:
		a.Say("... %s", command.PrintableName(what))
	case reply.EventItem:
		verdict := ""
		if it.Verdict != reply.VerdictOK {
			verdict = ", " + string(it.Verdict)
		}
		a.Say("    %s: %s, %d bytes%s", command.PrintableName(what), it.Kind, it.Body.Len(), verdict)
	case reply.EventRevised:
		a.Say("    %s: %s after all", command.PrintableName(what), it.Verdict)
	}
}

// messageFile is a message of an application in a JSON file. Unknown members are preserved.
type messageFile struct {
	name    string
	text    []byte
	message changes.Message
}

func readMessage(name string) (*messageFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, command.Unreadable(name, err)
	}
	m := &messageFile{name: name, text: text}
	var known struct {
		ID           string   `json:"id"`
		Text         *string  `json:"text"`
		Content      *string  `json:"content"`
		Project      string   `json:"project"`
		Assignments  []string `json:"assignments"`
		Conversation struct {
			Objective string `json:"objective"`
			Project   string `json:"project"`
			Capsule   struct {
				Phase string `json:"phase"`
			} `json:"capsule"`
		} `json:"conversation"`
	}
	const hint = `a message is {"id": "m1", "content": "...", "project": "P1", "conversation": {"capsule": {"phase": "E"}}}`
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, command.Fail(command.ExitUsage, hint, "%s is not a message: %w", name, err)
	}
	known.Text = cmp.Or(known.Text, known.Content)
	if known.Text == nil {
		return nil, command.Fail(command.ExitUsage, hint, "%s has neither a text nor a content", name)
	}
	m.message = changes.Message{ID: known.ID, Text: *known.Text, Project: known.Project,
		Assignments: known.Assignments,
		Phase:       known.Conversation.Capsule.Phase, Objective: known.Conversation.Objective}
	m.message.Project = cmp.Or(m.message.Project, known.Conversation.Project)
	return m, nil
}

// store writes the receipt into the message.
func (m *messageFile) store(result *changes.Result) error {
	if m == nil {
		return nil
	}
	text, err := command.SetMember(m.text, []string{"metadata", "executionResult"}, result)
	if err != nil {
		return command.Fail(command.ExitUsage, "", "the receipt cannot be stored in %s: %w", m.name, err)
	}
	info, err := os.Stat(m.name)
	if err != nil {
		return err
	}
	if err := command.ReplaceFile(m.name, text, info.Mode().Perm()); err != nil {
		return command.Fail(command.ExitFailed, "", "the receipt cannot be stored in %s: %w", m.name, err)
	}
	return nil
}
