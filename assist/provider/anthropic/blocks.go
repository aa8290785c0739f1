package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
)

// block is a block of a reply with the needed fields of all types.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// input is the input of one of the three variants of the tool.
type input struct {
	Command string `json:"command"` // bash: the script; editor: "view", "create", "str_replace"
	Code    string `json:"code"`    // Python
	Path    string `json:"path"`
	Text    string `json:"file_text"`
	Old     string `json:"old_str"`
	New     string `json:"new_str"`
}

// The names of the tool's variants.
const (
	bashTool   = "bash_code_execution"
	editorTool = "text_editor_code_execution"
	pythonTool = "code_execution"
)

// codeField returns the field of the input with the code.
func codeField(tool string) string {
	if tool == pythonTool {
		return "code"
	}
	return "command"
}

func languageOf(tool string) string {
	switch tool {
	case pythonTool:
		return "python"
	case bashTool:
		return "bash"
	}
	return ""
}

// use returns the step of a server_tool_use block.
func use(b block) provider.Step {
	var in input
	_ = json.Unmarshal(b.Input, &in) // invalid input has no code
	s := provider.Step{ID: b.ID, Tool: b.Name, Language: languageOf(b.Name), Outcome: provider.OutcomeUnknown}
	switch b.Name {
	case pythonTool:
		s.Code = in.Code
	case editorTool:
		s.Code = strings.TrimSpace(in.Command + " " + in.Path)
		for _, text := range []string{in.Text, in.Old, in.New} {
			if text != "" {
				s.Code += "\n" + text
			}
		}
	default:
		s.Code = in.Command
	}
	return s
}

// outcome is the content of a result block of any type.
type outcome struct {
	Type       string `json:"type"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ReturnCode *int   `json:"return_code"`
	Error      string `json:"error_code"`
	Message    string `json:"error_message"`
	// Blocks of files, or the text of the editor's view.
	Content json.RawMessage `json:"content"`
}

// finish adds a result to its step and returns the ids of its files.
func finish(s *provider.Step, content json.RawMessage) (files []string) {
	var o outcome
	if json.Unmarshal(content, &o) != nil {
		s.Outcome, s.Detail = provider.OutcomeUnknown, "a result that cannot be read"
		return nil
	}
	s.Stdout, s.Stderr, s.ExitCode = o.Stdout, o.Stderr, o.ReturnCode
	switch {
	case o.Error != "":
		s.Outcome, s.Detail = outcomeOf(o.Error), o.Error
		s.Stderr = cmp.Or(s.Stderr, o.Message)
	case strings.HasPrefix(o.Type, "encrypted_"):
		s.Outcome, s.Detail = provider.OutcomeUnknown, o.Type
	case o.ReturnCode != nil && *o.ReturnCode != 0:
		s.Outcome = provider.OutcomeFailed
	default:
		s.Outcome = provider.OutcomeOK
	}
	var text string
	if json.Unmarshal(o.Content, &text) == nil && s.Stdout == "" {
		s.Stdout = text
	}
	var made []struct {
		FileID string `json:"file_id"`
	}
	if json.Unmarshal(o.Content, &made) == nil {
		for _, m := range made {
			if m.FileID != "" {
				files = append(files, m.FileID)
			}
		}
	}
	return files
}

func outcomeOf(code string) provider.Outcome {
	switch code {
	case "execution_time_exceeded":
		return provider.OutcomeTimeout
	case "unavailable", "too_many_requests":
		return provider.OutcomeUnavailable
	case "output_file_too_large":
		return provider.OutcomeOutputTooLarge
	}
	return provider.OutcomeFailed // invalid_tool_input, file_not_found, string_not_found
}
