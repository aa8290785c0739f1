package provider

import "strings"

// HintsVersion is the version of the texts of [Instruct]. Records of runs have it, so that
// the effect of the texts can be measured.
const HintsVersion = "2026-11-2"

// hint is an instruction about files for models of a provider.
type hint struct {
	provider string
	prefix   string // of the model's name; empty: all others
	tool     Tool   // empty: any
	text     string
}

const (
	openAIText = "Use the python tool. Your input files are in /mnt/data under names that end in their own: list the " +
		"folder first. Save every result file in /mnt/data and link each one in your answer as " +
		"[name](sandbox:/mnt/data/name)."
	shellText = "Use the shell. Your input files are in /mnt/data under names that end in their own: list the folder " +
		"first. Save every result file in /mnt/data and name each one in your answer."
	framesText = "Only what your code prints comes back. To hand over a file, print it like this, once for each file:\n" +
		"import base64, hashlib, json, os\n" +
		"def hand_over(path):\n" +
		"    data = open(path, 'rb').read()\n" +
		"    print('===AIRLOCK FILE ' + json.dumps(os.path.basename(path)), len(data), hashlib.sha256(data).hexdigest() + " +
		"'===')\n" +
		"    print(base64.b64encode(data).decode())\n" +
		"    print('===AIRLOCK END===')\n" +
		"Keep such files small, and do not repeat them in your answer."
)

// hints returns the hints; the first that matches counts. gpt-4.1 does not name the files
// that it saves unless it is told more firmly (forum thread 1397663, and ostruct's live
// tests of R-02).
func hints() []hint {
	return []hint{
		{OpenAI, "", ToolShell, shellText},
		{OpenAI, "gpt-4.1", "", openAIText +
			" This is required: an answer without the link of a file that you saved is incomplete."},
		{OpenAI, "", "", openAIText},
		{Anthropic, "", "", "Your input files are in $INPUT_DIR. Copy every result file to the top level of $OUTPUT_DIR in " +
			"the same command that makes it, then list that folder: files anywhere else are lost."},
		{Gemini, "", "", "Figures that matplotlib shows come back as they are. " + framesText},
		{XAI, "", "", framesText},
		{Local, "", "", "Use run_python. Your input files are in the working directory. Save every result file there and " +
			"name each one in your answer."},
	}
}

// HintMode switches the instructions of [Instruct].
type HintMode string

// The modes.
const (
	HintsAuto HintMode = "auto"
	HintsOff  HintMode = "off"
)

// Instruct returns the instructions about files for a model. It returns "" if the tool or
// the hints are off: a model without code must not be told about folders.
func Instruct(provider, model string, tool Tool, mode HintMode) string {
	if tool == ToolNone || mode == HintsOff {
		return ""
	}
	for _, h := range hints() {
		if h.provider == provider && strings.HasPrefix(model, h.prefix) && (h.tool == "" || h.tool == tool) {
			return h.text
		}
	}
	return ""
}
