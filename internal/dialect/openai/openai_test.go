package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/dialect/dialecttest"
	"github.com/airlock-run/airlock/internal/engine"
)

// The model runs code twice and answers: what it is told, what the client gets.
func TestTurn(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello\nfile a.csv\nfile b.txt\nshow"), runs("fail no"),
		says("Sée [a.csv](sandbox:/mnt/data/a.csv)."))
	got := r.respond(auto)
	if got.Status != "completed" || got.Usage.Total != 21 || len(got.Output) != 3 {
		t.Fatalf("%+v", got)
	}
	first, second, last := got.Output[0], got.Output[1], got.Output[2]
	if first.Code != "print hello\nfile a.csv\nfile b.txt\nshow" || first.Outputs[0].Logs != "hello\n" ||
		first.Outputs[1].Type != "image" ||
		!strings.HasPrefix(first.Outputs[1].URL, "data:image/png;base64,") || first.Container != second.Container {
		t.Errorf("%+v", first)
	}
	if second.Status != "completed" || !strings.Contains(second.Outputs[0].Logs, "Traceback (most recent call last)") {
		t.Errorf("%+v", second)
	}
	var cited []string
	for _, a := range last.Content[0].Annotations {
		name := a.Name
		if strings.HasPrefix(name, insidePrefix) {
			name = insidePrefix
		}
		cited = append(cited, fmt.Sprint(name, " ", a.Start, " ", a.End))
		if status, text := r.ask("ann", "GET", "/containers/"+first.Container+"/files/"+a.File+"/content",
			""); status != 200 || text == "" {
			t.Errorf("%s: %d %q", a.Name, status, text)
		}
	}
	if diff := cmp.Diff([]string{"a.csv 4 36", "b.txt 0 0", "cfile_ 0 0"}, cited); diff != "" {
		t.Error(diff)
	}
	told := r.model.asked[1]["messages"].([]any)
	said := told[2].(map[string]any)["content"].(string)
	if !strings.Contains(said, "hello\n[new file: [a.csv](sandbox:/mnt/data/a.csv)]") || !strings.Contains(said,
		"[1 pictures are shown") {
		t.Errorf("the model was told %q", said)
	}
}

// An item that is sent again without its outputs is told to the model with them.
func TestSentAgain(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello"), says("ok"), says("again"))
	got := r.respond(strings.Replace(auto, `,"include":["code_interpreter_call.outputs"]`, "", 1))
	if got.Output[0].Outputs != nil {
		t.Errorf("%+v", got.Output[0])
	}
	item := fmt.Sprintf(`{"type":"code_interpreter_call","id":%q,"code":"print hello","container_id":%q,"outputs":null,"status":"completed"}`, got.Output[0].ID, got.Output[0].Container)
	status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":[{"role":"user","content":"go"},`+item+`,{"role":"user","content":[{"type":"input_text","text":"more"}]}],`+auto+`}`)
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	messages, _ := json.Marshal(r.model.asked[2]["messages"])
	if !strings.Contains(string(messages), `"content":"hello\n","role":"tool"`) || !strings.Contains(string(messages), `"content":"more"`) {
		t.Errorf("%s", messages)
	}
	if status, text := r.ask("bob", "POST", "/responses", `{"model":"m","input":[`+item+`],`+auto+`}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if messages, _ := json.Marshal(r.model.asked[3]["messages"]); strings.Contains(string(messages), "hello\\n") {
		t.Errorf("another owner's output: %s", messages)
	}
}

// A response continues an earlier one, which is kept for its owner alone.
func TestPrevious(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello"), says("first"), says("second"), says("third"))
	status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go",`+auto+`}`)
	var one, two struct {
		ID       string
		Store    bool
		Previous string `json:"previous_response_id"`
	}
	if err := json.Unmarshal([]byte(text), &one); err != nil || status != 200 || !one.Store {
		t.Fatalf("%d %s", status, text)
	}
	if status, again := r.ask("ann", "GET", "/responses/"+one.ID, ""); status != 200 || again != text {
		t.Errorf("%d %s, want %s", status, again, text)
	}
	next := `{"model":"m","input":"more","previous_response_id":"` + one.ID + `"}`
	status, text = r.ask("ann", "POST", "/responses", next)
	if err := json.Unmarshal([]byte(text), &two); err != nil || status != 200 || two.Previous != one.ID {
		t.Fatalf("%d %s", status, text)
	}
	r.ask("ann", "POST", "/responses", `{"model":"m","store":false,"input":"end","previous_response_id":"`+two.ID+`"}`)
	told, _ := json.Marshal(r.model.asked[3]["messages"])
	at := 0
	for _, want := range []string{`"go"`, `print hello`, `"hello\n"`, `"first"`, `"more"`, `"second"`, `"end"`} {
		found := strings.Index(string(told)[at:], want)
		if found < 0 {
			t.Fatalf("%s is not told in its place: %s", want, told)
		}
		at += found
	}
	for _, c := range [][2]string{{"GET", "/responses/" + one.ID}, {"DELETE", "/responses/" + one.ID}, {"GET",
		"/responses/resp_none"}} {
		if status, text := r.ask("bob", c[0], c[1], ""); status != 404 {
			t.Errorf("%v of another owner: %d %s", c, status, text)
		}
	}
	if status, text := r.ask("bob", "POST", "/responses", next); status != 400 || !strings.Contains(text,
		"previous_response_not_found") {
		t.Errorf("another owner goes on with it: %d %s", status, text)
	}
	if _, text := r.ask("ann", "GET", "/files", ""); !strings.Contains(text, `"data":[]`) {
		t.Errorf("responses are listed as files: %s", text)
	}
	if status, text := r.ask("ann", "DELETE", "/responses/"+one.ID, ""); status != 200 || !strings.Contains(text, `"deleted":true`) {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := r.ask("ann", "POST", "/responses", next); status != 400 {
		t.Errorf("it goes on with one that was deleted: %d", status)
	}
	if len(r.files) != 1 {
		t.Errorf("%d files are left, want that of the second", len(r.files))
	}
}

// The client's functions come back, whatever code ran before.
func TestFunctions(t *testing.T) {
	both := `"tools":[{"type":"code_interpreter","container":{"type":"auto"}},{"type":"function","name":"add","parameters":{"type":"object"}},{"type":"function","name":"python","parameters":null}],"tool_choice":"required"`
	r := newRig(t, Options{}, calls("code_interpreter", `{"code":"print 1"}`), calls("nothing", `{}`), calls("add", `{"a":1}`))
	got := r.respond(both)
	if len(got.Output) != 2 || got.Output[1].Type != "function_call" || got.Output[1].Name != "add" || got.Output[1].Arguments != `{"a":1}` || got.Status != "completed" {
		t.Errorf("%+v", got)
	}
	if one, two := r.model.asked[0]["tool_choice"], r.model.asked[1]["tool_choice"]; one != "required" || two != "auto" {
		t.Errorf("%v, then %v", one, two)
	}
	if told, _ := json.Marshal(r.model.asked[2]["messages"]); !strings.Contains(string(told), "There is no tool") {
		t.Errorf("%s", told)
	}
}

// A stream has the events of a recorded one, in their order.
func TestStream(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello\nfile a.csv"), says("See sandbox:/mnt/data/a.csv"))
	_, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go","stream":true,`+auto+`}`)
	var kinds []string
	var code string
	events := 0
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type, Delta string
			Sequence    int `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Sequence != events {
			t.Errorf("%v %s", err, line)
		}
		events++
		if n := len(kinds); n == 0 || kinds[n-1] != e.Type {
			kinds = append(kinds, e.Type)
		}
		if strings.HasSuffix(e.Type, "code.delta") {
			code += e.Delta
		}
	}
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added",
		"response.code_interpreter_call.in_progress",
		"response.code_interpreter_call_code.delta", "response.code_interpreter_call_code.done",
		"response.code_interpreter_call.interpreting",
		"response.code_interpreter_call.completed", "response.output_item.done", "response.output_item.added",
		"response.content_part.added",
		"response.output_text.delta", "response.output_text.annotation.added", "response.output_text.done",
		"response.content_part.done",
		"response.output_item.done", "response.completed",
	}
	if diff := cmp.Diff(want, kinds); diff != "" || code != "print hello\nfile a.csv" {
		t.Errorf("%q %s", code, diff)
	}
}

// Chat completions run code too, and are passed on where none is asked for.
func TestChat(t *testing.T) {
	r := newRig(t, Options{}, runs("file a.csv"), says("[a.csv](sandbox:/mnt/data/a.csv)"))
	status, text := r.ask("ann", "POST", "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`)
	if status != 200 || !strings.Contains(text, `"filename":"a.csv"`) || !strings.Contains(text, `"finish_reason":"stop"`) || !strings.Contains(text, `"total_tokens":14`) {
		t.Errorf("%d %s", status, text)
	}
	_, text = r.ask("ann", "POST", "/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],"odd":1}`)
	if !strings.Contains(text, "data: [DONE]") || r.model.asked[2]["odd"] != 1.0 {
		t.Errorf("%s, %v", text, r.model.asked[2])
	}
	if status, text := r.ask("ann", "GET", "/models/org/tiny", ""); status != 200 || !strings.Contains(text,
		"org/tiny") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.ask("ann", "GET", "/models/none", ""); status != 404 || !strings.Contains(text,
		"model_not_found") {
		t.Errorf("%d %s", status, text)
	}
}

// Recorded exchanges are answered as they were.
func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler {
		f, m := newFake(), newModel(t, runs("print hello\nfile a.csv"), says("See [a.csv](sandbox:/mnt/data/a.csv)"))
		return New(Options{
			Engine: f, Live: interpreters{fake: f}, HTTP: http.DefaultClient, Key: "secret", Upstream: m.URL + "/v1",
			Caller: func(*http.Request) engine.Caller { return engine.Caller{Owner: "ann"} },
		})
	})
}

// What is known of a container with an interpreter is not looked up for each request, but
// it is when its files have changed, whoever has changed them.
func TestSeen(t *testing.T) {
	r := newRig(t, Options{}, runs("print 1"), says("one"), says("two"), says("three"), says("four"))
	id := r.respond(auto).Output[0].Container
	named := `"tools":[{"type":"code_interpreter","container":"` + id + `"}]`
	r.respond(named)
	r.mu.Lock()
	before := r.looks
	r.mu.Unlock()
	r.respond(named)
	session, _ := parseID(containerPrefix, id)
	r.mu.Lock()
	if r.looks != before {
		t.Errorf("the container was looked up %d times more", r.looks-before)
	}
	r.write(r.sessions[session], "elsewhere.csv", []byte("a"))
	r.mu.Unlock()
	r.respond(named)
	if asked := string(encode(r.model.asked[len(r.model.asked)-1])); !strings.Contains(asked, "/mnt/data/elsewhere.csv") {
		t.Errorf("the model was not told of a new file: %s", asked)
	}
	if status, text := r.ask("bob", "POST", "/responses", `{"model":"m","input":"go",`+named+`}`); status != 404 {
		t.Errorf("of another owner: %d %s", status, text)
	}
}

// The input of a response is listed as OpenAI's client wants it; none can be cancelled.
func TestInputItems(t *testing.T) {
	r := newRig(t, Options{}, says("hello"), says("again"))
	var made struct{ ID string }
	_, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go"}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	_, text = r.ask("ann", "POST", "/responses", `{"model":"m","input":"on","previous_response_id":"`+made.ID+`"}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Data []struct {
			ID, Type, Role string
			Content        []struct{ Type, Text string }
		}
		More bool `json:"has_more"`
	}
	at := "/responses/" + made.ID
	status, text := r.ask("ann", "GET", at+"/input_items?limit=2", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 || len(list.Data) != 2 || !list.More {
		t.Fatalf("%d %s", status, text)
	}
	if one := list.Data[0]; one.ID == "" || one.Role != "user" || one.Content[0].Text != "on" ||
		list.Data[1].Content[0].Type != "output_text" {
		t.Errorf("%s", text)
	}
	if status, text := r.ask("bob", "GET", at+"/input_items", ""); status != 404 {
		t.Errorf("of another owner: %d %s", status, text)
	}
	if status, text := r.ask("ann", "POST", at+"/cancel", ""); status != 400 || !strings.Contains(text, "Cannot cancel") {
		t.Errorf("%d %s", status, text)
	}
}
