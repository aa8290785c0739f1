package reply

import _ "embed"

// PromptVersion is the version of the text that Prompt returns. A change that a
// model could notice is a new version, in a file of its own.
const PromptVersion = "v1"

//go:embed prompt/v1.md
var promptV1 string

// Prompt returns a system prompt that makes a model write replies in the forms that this
// package reads best. A test parses its examples.
func Prompt() string { return promptV1 }
