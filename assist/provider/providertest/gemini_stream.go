package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// geminiRequest has the fields of a request that the server checks.
type geminiRequest struct {
	Contents []struct {
		Role  string `json:"role"`
		Parts []struct {
			FileData *struct {
				FileURI string `json:"fileUri"`
			} `json:"fileData"`
			ExecutableCode   *struct{ ID string } `json:"executableCode"`
			ThoughtSignature string               `json:"thoughtSignature"`
			FunctionCall     *struct{ Name string }
			FunctionResponse *struct{ Name string }
		} `json:"parts"`
	} `json:"contents"`
}

// check returns a status and a message for requests that the service refuses.
func (s *GeminiServer) check(q geminiRequest) (status int, message string) {
	calls := 0
	for _, c := range q.Contents {
		if len(c.Parts) == 0 {
			return 400, "contents.parts must not be empty."
		}
		for _, p := range c.Parts {
			if p.FileData != nil {
				id := strings.TrimPrefix(p.FileData.FileURI, s.URL+"/v1beta/")
				f := s.files.get(id)
				switch {
				case f == nil || f.over(s.Clock.Now()):
					return 403, "You do not have permission to access the File " + id + " or it may not exist."
				case s.waits[id] > 0:
					return 400, "The File " + id + " is not in an ACTIVE state and usage is not allowed."
				}
			}
			if p.ExecutableCode != nil && (p.ThoughtSignature == "" || p.ExecutableCode.ID == "") {
				return 400, "executable_code part is missing a thought_signature or an id"
			}
			if p.FunctionCall != nil {
				calls++
			}
			if p.FunctionResponse != nil {
				calls--
			}
		}
	}
	if calls != 0 {
		return 400, "the number of function response parts must equal the number of function call parts"
	}
	return 0, ""
}

func (s *GeminiServer) generate(w http.ResponseWriter, r *http.Request) {
	var q geminiRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		geminiError(w, 400, err.Error(), 0)
		return
	}
	if r.URL.Path != "/v1beta/models/"+GeminiModel+":streamGenerateContent" || r.URL.Query().Get("alt") != "sse" {
		geminiError(w, 404, "model is not found", 0)
		return
	}
	s.mu.Lock()
	status, message := s.check(q)
	s.mu.Unlock()
	if status != 0 {
		geminiError(w, status, message, 0)
		return
	}
	t := s.NextTurn()
	w.Header().Set("Content-Type", "text/event-stream")
	e := geminiEvents{w}
	for _, step := range t.Steps {
		e.step(step)
	}
	for _, word := range strings.SplitAfter(t.Text, " ") {
		if word != "" {
			e.send("", map[string]any{"text": word})
		}
	}
	for _, c := range t.Calls {
		e.send("", map[string]any{"functionCall": map[string]any{"name": c.Name, "args": c.Arguments},
			"thoughtSignature": "c2ln"})
	}
	if t.Refuse {
		e.send("SAFETY")
		return
	}
	e.send("STOP", map[string]any{"text": ""})
}

type geminiEvents struct{ w http.ResponseWriter }

func (e geminiEvents) send(finish string, parts ...map[string]any) {
	c := map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		c["finishReason"] = finish
	}
	data, _ := json.Marshal(map[string]any{"candidates": []any{c}, "modelVersion": GeminiModel, "responseId": "resp-1",
		"usageMetadata": map[string]any{"promptTokenCount": 30, "candidatesTokenCount": 9, "thoughtsTokenCount": 3,
			"totalTokenCount": 42}})
	fmt.Fprintf(e.w, "data: %s\r\n\r\n", data)
	_ = http.NewResponseController(e.w).Flush()
}

// step sends code, its result, and its pictures, those with Shown twice.
func (e geminiEvents) step(step Step) {
	id := NewID("code_")
	e.send("", map[string]any{"executableCode": map[string]any{"language": "PYTHON", "code": step.Code, "id": id},
		"thoughtSignature": "c2ln"})
	outcome, output := "OUTCOME_OK", step.Stdout
	switch {
	case step.TimedOut:
		outcome = "OUTCOME_DEADLINE_EXCEEDED"
	case step.Exit != 0:
		outcome, output = "OUTCOME_FAILED", step.Stderr
	}
	e.send("", map[string]any{"codeExecutionResult": map[string]any{"outcome": outcome, "output": output, "id": id}})
	for _, m := range step.Files {
		part := map[string]any{"inlineData": map[string]any{"mimeType": http.DetectContentType(m.Data), "data": m.Data}}
		e.send("", part)
		if m.Shown {
			e.send("", part)
		}
	}
}
