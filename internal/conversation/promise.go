package conversation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/provider"
)

// unkept compares the names of files that the answer says were made with the files
// that there are, says the difference, and returns what is missing. What a project's
// reply writes is a proposal, and no output.
func (t *turn) unkept(missing []string) []string {
	missing = slices.Clone(missing)
	if t.chat.record.Settings.Project == "" {
		for _, name := range provider.PromisedNames(t.record.Text) {
			same := func(other string) bool { return strings.EqualFold(provider.CleanName(other), name) }
			if !t.chat.knows(same) && !slices.ContainsFunc(missing, same) {
				missing = append(missing, name)
			}
		}
	}
	hint := "Ask the model to write it again."
	if t.framed() && len(t.record.Outputs) == 0 {
		hint = "From " + t.chat.backend.Destination +
			" a file comes back only where the code prints it as it was told to. Ask again, or ask another provider."
	}
	for _, name := range missing {
		t.emit(Notice{Text: "The answer promises " + name + ", and there is no such file.", Hint: hint})
	}
	if t.prompt.Expect && len(t.record.Outputs)+len(missing) == 0 {
		t.emit(Notice{Text: fmt.Sprintf("The turn made no file: there is nothing to save into %s.", t.prompt.Folder),
			Hint: strings.TrimPrefix(hint, "Ask the model to write it again.")})
	}
	return missing
}

// knows reports whether the conversation has a file of such a name: an input, or
// an output of this turn or an earlier one.
func (c *Chat) knows(same func(name string) bool) bool {
	for _, t := range c.record.Turns {
		if slices.ContainsFunc(t.Inputs, func(u Upload) bool { return same(u.Name) || same(u.Path) }) ||
			slices.ContainsFunc(t.Outputs, func(o Output) bool { return same(o.Name) }) {
			return true
		}
	}
	return false
}

// broken is the error of a promise that was not kept, where files were asked for.
func (t *turn) broken(missing []string) error {
	if !t.prompt.Expect || len(missing) == 0 {
		return nil
	}
	return &provider.Error{Kind: provider.OutputsMissing, Provider: t.chat.record.Settings.Provider, Op: "collect",
		Message: "the answer promises files that do not exist: " + strings.Join(missing, ", ")}
}
