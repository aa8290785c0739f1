package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/airlock-run/airlock/provider"
)

// block is a block of a reply, the fields of all kinds that matter here.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// input is that of the tool's three faces.
type input struct {
	Command string `json:"command"` // bash: the script; editor: "view", "create", "str_replace"
	Code    string `json:"code"`    // Python
	Path    string `json:"path"`
	Text    string `json:"file_text"`
	Old     string `json:"old_str"`
	New     string `json:"new_str"`
}

// The names of the tool's faces.
const (
	bashTool   = "bash_code_execution"
	editorTool = "text_editor_code_execution"
	pythonTool = "code_execution"
)

// codeField is the field of the input that has the code.
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

// use is the step that a server_tool_use block begins.
func use(b block) provider.Step {
	var in input
	_ = json.Unmarshal(b.Input, &in) // one that is none has no code to show
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

// outcome is the content of a result block, of all kinds.
type outcome struct {
	Type       string `json:"type"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ReturnCode *int   `json:"return_code"`
	Error      string `json:"error_code"`
	Message    string `json:"error_message"`
	// Of results of code these are blocks of files; of the editor's view a text.
	Content json.RawMessage `json:"content"`
}

// finish writes a result into its step and returns the ids of the files in it.
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
