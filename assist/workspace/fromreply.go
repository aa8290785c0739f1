package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/assist/reply"
)

// FromReply returns the changes that a reply proposes. It leaves out items that are no
// writes, such as citations and examples. Unsure items have a doubt. Items that must not be
// written, such as parts of files and malformed edits, have a refusal, so that they are
// shown.
func FromReply(r *reply.Reply) []Change {
	var changes []Change
	for _, item := range r.Items {
		if c, ok := FromItem(item); ok {
			changes = append(changes, c)
		}
	}
	return changes
}

// FromItem returns the change of one item. ok is false if it changes no file.
func FromItem(item *reply.Item) (c Change, ok bool) {
	c = Change{ID: item.ID, Path: item.Path, To: item.To, Executable: true}
	c.Path = cmp.Or(c.Path, item.RawPath)
	switch item.Verdict {
	case reply.VerdictOK:
	case reply.VerdictAmbiguous:
		c.Doubt = reason(item, "it can be read in more than one way")
		c.Guess = item.Guessed && item.Substantial()
	case reply.VerdictPartial:
		c.Refusal = reason(item, "it is a part of a file and not the whole")
	case reply.VerdictTruncated:
		c.Refusal = reason(item, "the reply ended in the middle of it")
	case reply.VerdictInvalid:
		c.Refusal = reason(item, "it is malformed")
	case reply.VerdictRefused:
		c.Refusal = reason(item, "the path leads out of the folder or cannot be a name")
	default: // citations, examples, what was said twice
		return Change{}, false
	}
	for _, w := range item.Warnings {
		c.Notes = append(c.Notes, w.Message)
	}
	switch item.Kind {
	case reply.KindFile:
		c.Verb, c.Content, c.Exact = Write, Bytes(item.Content), item.Binary
		for _, r := range item.Readings {
			c.Readings = append(c.Readings, Reading{What: r.Description, Content: Bytes(r.Content)})
		}
		if item.Create {
			c.Clash = ClashRefuse
		}
	case reply.KindEdit:
		c.Verb, c.Edit = Modify, apply(item)
		if item.Create {
			c.Verb, c.Clash = Write, ClashRefuse
			return createdBy(item, c)
		}
	case reply.KindDelete:
		c.Verb = Delete
	case reply.KindRename:
		c.Verb = Rename
		if len(item.Hunks) > 0 {
			c.Edit = apply(item)
		}
	default:
		return Change{}, false
	}
	return c, c.Path != ""
}

// createdBy makes the content of a file from an edit of nothing.
func createdBy(item *reply.Item, c Change) (Change, bool) {
	result, err := reply.Apply(item, nil)
	if err != nil {
		c.Refusal = err.Error()
		c.Content = Bytes(nil)
		return c, c.Path != ""
	}
	c.Content = Bytes(result.Content)
	return c, c.Path != ""
}

func reason(item *reply.Item, otherwise string) string {
	return cmp.Or(item.Reason, otherwise)
}

// apply returns the edit of an item. An edit that fits only with fuzz returns its result
// and an *Inexact. An edit that fits in several places does the same, with each place as a
// reading.
func apply(item *reply.Item) func([]byte) ([]byte, error) {
	return func(current []byte) ([]byte, error) {
		result, err := reply.Apply(item, current)
		if errors.Is(err, reply.ErrManyMatches) || errors.Is(err, reply.ErrRepeated) {
			each, second := reply.ApplyEach(item, current)
			if second == nil {
				return each[0].Content, inexactly(each)
			}
			if errors.Is(second, reply.ErrTooComplex) {
				err = second
			}
		}
		if err != nil {
			return nil, explainApply(err)
		}
		if result.Fuzz > reply.FuzzTrailing {
			sure := result.Fuzz <= reply.FuzzBlank && item.Substantial()
			return result.Content, &Inexact{Reason: "it fits only if " + result.Fuzz.String() + " is not looked at", Sure: sure}
		}
		if result.Applied > 0 {
			return result.Content, &Inexact{Reason: appliedAlready(result.Applied, len(item.Hunks)), Sure: true}
		}
		return result.Content, nil
	}
}

// appliedAlready says how many of an edit's hunks the file had before.
func appliedAlready(n, of int) string {
	if n == of {
		return "the file has this change already"
	}
	return fmt.Sprintf("the file has %d of its %d changes already", n, of)
}

// inexactly returns how an edit was made to fit, with its other results.
func inexactly(each []*reply.Result) *Inexact {
	if len(each) == 1 {
		return &Inexact{Reason: strings.Join(each[0].Guesses, "; ")}
	}
	e := &Inexact{Reason: fmt.Sprintf("it fits in several places; there are %d ways to choose from", len(each))}
	for _, r := range each {
		e.Readings = append(e.Readings, Reading{What: strings.Join(r.Guesses, "; "), Content: Bytes(r.Content)})
	}
	return e
}

// Inexact is the error that a Change's Edit returns with a result if the edit does
// not fit exactly. A person has to look at it, unless it is sure.
type Inexact struct {
	Reason string
	// Sure reports that the edit fits in only one way, so that a note is enough.
	Sure bool
	// Readings are the results to choose from, if there are several. The first is the
	// returned one.
	Readings []Reading
}

func (e *Inexact) Error() string { return e.Reason }

func explainApply(err error) error {
	var failed *reply.ApplyError
	if !errors.As(err, &failed) {
		return err
	}
	text := fmt.Sprintf("hunk %d: %s", failed.Hunk, failed.Err)
	if failed.Nearest != "" {
		text += "; did you mean:\n" + strings.TrimRight(failed.Nearest, "\n")
	} else if len(failed.Lines) > 0 {
		text += fmt.Sprintf(" (lines %s)", strings.Trim(fmt.Sprint(failed.Lines), "[]"))
	}
	return errors.New(text)
}
