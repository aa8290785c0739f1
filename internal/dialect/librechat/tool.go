package librechat

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/toolcall"
)

const (
	maxTools    = 100
	maxToolName = 128
	maxToolText = 4 << 20 // bytes of all of them
)

// tool is a function of the model's host that a program may call.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	// Function is the name in the program.
	Function string `json:"function"`
}

// bashWords cannot be names of functions.
var bashWords = strings.Fields(`if then else elif fi for while until do done case esac select in function time coproc`)

// functionName returns the name of a tool in a program. The client computes the same name, and
// tells the model.
func functionName(name string, bash bool) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case c == '-' || c == ' ' || c == '.' && bash:
			b.WriteByte('_')
		case c == '_', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	function := b.String()
	if function == "" || function[0] >= '0' && function[0] <= '9' {
		function = "_" + function
	}
	reserved := slices.Contains(toolcall.PythonWords, function)
	if bash {
		reserved = slices.Contains(bashWords, function) || strings.HasPrefix(function, "_ptc_")
	}
	if reserved {
		function += "_tool"
	}
	return function
}

// nameTools names the function of each tool, and refuses two tools with one name: a program could
// call only one of them.
func nameTools(tools []tool, bash bool) error {
	if len(tools) > maxTools {
		return bad("tools exceeds maximum of %d", maxTools)
	}
	owner := map[string]string{}
	size := 0
	for i := range tools {
		t := &tools[i]
		if t.Name == "" || len(t.Name) > maxToolName {
			return bad("tools[%d].name is invalid", i)
		}
		t.Function = functionName(t.Name, bash)
		if other, taken := owner[t.Function]; taken {
			return bad("tools %q and %q have the same name %s in the program", other, t.Name, t.Function)
		}
		owner[t.Function] = t.Name
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if size > maxToolText {
		return bad("tools are too large")
	}
	return nil
}

// result is the result of a call.
type result struct {
	CallID  string          `json:"call_id"`
	Result  json.RawMessage `json:"result"`
	IsError bool            `json:"is_error"`
	Message string          `json:"error_message"`
}

const (
	maxResult  = 5 << 20
	maxResults = 40 << 20
)

// readResults parses the answers in a continuation.
func readResults(raw *json.RawMessage) (map[string]toolcall.Answer, error) {
	var list []result
	if raw == nil || json.Unmarshal(*raw, &list) != nil || len(list) == 0 {
		return nil, bad("tool_results must be a list of at least one result")
	}
	answers, size := map[string]toolcall.Answer{}, 0
	for i, r := range list {
		if !validCallID(r.CallID) {
			return nil, bad("tool_results[%d].call_id is invalid", i)
		}
		if _, twice := answers[r.CallID]; twice {
			return nil, bad("tool_results has %s twice", r.CallID)
		}
		size += len(r.Result)
		if len(r.Result) > maxResult || size > maxResults {
			return nil, refuse(http.StatusRequestEntityTooLarge, "tool_results are too large")
		}
		answers[r.CallID] = r.answer()
	}
	return answers, nil
}

func validCallID(id string) bool {
	digits, ok := strings.CutPrefix(id, "call_")
	return ok && len(digits) >= 3 && len(digits) <= 6 && strings.Trim(digits, "0123456789") == ""
}

// answer returns the result for the program.
func (r *result) answer() toolcall.Answer {
	switch {
	case r.IsError:
		return toolcall.Failed(cmp.Or(r.Message, "The tool failed"))
	case isNull(r.Result):
		return toolcall.Answer{Result: json.RawMessage("null")}
	}
	return toolcall.Answer{Result: r.Result}
}
