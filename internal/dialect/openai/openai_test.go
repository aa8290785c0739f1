package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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

// A response goes on with one before it, which is kept for its owner alone.
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

// Arguments are read as they are written, whatever they are cut into.
func TestCodeReader(t *testing.T) {
	code := "print(\"a\\b\", 'é😀\u2028')\n\t# \x00 end"
	for _, arguments := range []string{string(encode(map[string]string{"code": code})), ` { "code" : "print(\"a\\b\", '\u00e9\ud83d\ude00\u2028')\n\t# \u0000 end", "x": "y" }`} {
		for step := 1; step < 9; step++ {
			var r codeReader
			got := ""
			for at := 0; at < len(arguments); at += step {
				got += r.read(arguments[at:min(at+step, len(arguments))])
			}
			if got != code {
				t.Errorf("in pieces of %d: %q", step, got)
			}
		}
	}
	for _, odd := range []string{`{"other":"x","code":"y"}`, `[]`, `{"code":7}`, `{"code":"\q"}`, strings.Repeat(" ", 1000) + `{"code":"x"}`, `{"code":"\ud83d"}`} {
		var r codeReader
		for i := range odd {
			r.read(odd[i : i+1])
		}
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

// What a model or its server does wrong is an error of this request alone.
func TestBadModels(t *testing.T) {
	raw := func(status int, kind, body string) func(http.ResponseWriter, map[string]any) {
		return func(w http.ResponseWriter, _ map[string]any) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	endless := func(w http.ResponseWriter, _ map[string]any) {
		w.Header().Set("Content-Type", "text/event-stream")
		piece := strings.Repeat("x", 1<<20)
		for range 100 {
			_, err := fmt.Fprintf(w,
				"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","+
					"\"function\":{\"name\":\"python\",\"arguments\":\"%s\"}}]}}]}\n\n", piece)
			if err != nil {
				return
			}
		}
	}
	cut := func(w http.ResponseWriter, _ map[string]any) {
		chunks("", `{"content":"begun"}`)(w, nil)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		answer  func(http.ResponseWriter, map[string]any)
		status  int
		message string
	}{
		"garbage": {raw(200, "text/event-stream", "data: {{{\n\n"), 502, "no chat completion"},
		"a page":  {raw(200, "application/json", "<html>"), 502, "no chat completion"},
		"nothing": {raw(200, "text/event-stream", ""), 502, "broke off"},
		"an error": {raw(200, "text/event-stream", "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"), 502,
			"out of memory"},
		"too long":       {raw(400, "application/json", `{"error":{"message":"context is too long","code":"context_length_exceeded"}}`), 400, "context_length_exceeded"},
		"no model":       {raw(404, "application/json", `{"error":"model m not found"}`), 404, "model_not_found"},
		"a wrong key":    {raw(401, "application/json", `{"error":{"message":"bad key sk-secret"}}`), 502, "openai_upstream_key"},
		"busy":           {raw(429, "application/json", `{"error":{"message":"slow down"}}`), 429, "slow down"},
		"broken":         {raw(500, "text/plain", "boom"), 502, "500"},
		"100 MB of code": {endless, 200, "more than 4 MiB"},
		"cut":            {cut, 200, "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, c.answer)
			status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go",`+auto+`}`)
			if status != c.status || !strings.Contains(text, c.message) || strings.Contains(text, "sk-secret") || status == 200 && !strings.Contains(text, `"status":"failed"`) {
				t.Errorf("%d %.300s", status, text)
			}
			_, text = r.ask("ann", "POST", "/responses", `{"model":"m","input":"go","stream":true,`+auto+`}`)
			if !strings.Contains(text, c.message) {
				t.Errorf("streamed: %.300s", text)
			}
			_, text = r.ask("ann", "POST", "/chat/completions", `{"model":"m","messages":[],"stream":true,`+auto+`}`)
			if !strings.Contains(text, c.message) {
				t.Errorf("as a chat: %.300s", text)
			}
		})
	}
}

// A model that calls for ever is asked so often and no more, and so is one whose calls
// cannot be run.
func TestLoops(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, map[string]any){
		"code": runs("print 1"), "unknown": calls("rm", `{}`), "no code": calls("python", `{"cod":1}`), "nothing": calls("python", ""),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Rounds: 5}, answer)
			got := r.respond(auto)
			if got.Status != "incomplete" || got.Incomplete.Reason != tooManyMessages || len(r.model.asked) != 5 {
				t.Errorf("%d requests, %+v", len(r.model.asked), got)
			}
		})
	}
	r := newRig(t, Options{Rounds: 5}, runs("print 1"))
	if got := r.respond(auto + `,"max_tool_calls":2`); len(got.Output) != 2 || r.model.asked[2]["tools"] != nil {
		t.Errorf("%+v, %v", got, r.model.asked[2]["tools"])
	}
	r = newRig(t, Options{Turn: 200 * time.Millisecond}, runs("wait"))
	if got := r.respond(auto); got.Status != "failed" || !strings.Contains(got.Error.Message, "longer than") {
		t.Errorf("%+v", got)
	}
	await(t, r.canceled, "code went on after the time of its request")
}

// The outputs of one response have a bound, however many calls there are.
func TestMuchOutput(t *testing.T) {
	r := newRig(t, Options{Rounds: 4}, runs("big 6000000"))
	got, total := r.respond(auto), 0
	for _, item := range got.Output {
		total += len(item.Outputs[0].Logs)
	}
	if last := got.Output[3].Outputs[0].Logs; total > mostOutputs || !strings.Contains(last, "left out") {
		t.Errorf("%d bytes, at last %.100q", total, last)
	}
	for _, m := range r.model.asked[3]["messages"].([]any) {
		if said, _ := m.(map[string]any)["content"].(string); len(said) > 2*modelOutput {
			t.Errorf("the model is told %d bytes", len(said))
		}
	}
}

// What is cut short is not run, and says so.
func TestCutShort(t *testing.T) {
	r := newRig(t, Options{}, chunks("length", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"python","arguments":"{\"code\":\"file x"}}]}`))
	got := r.respond(auto)
	if got.Status != "incomplete" || got.Incomplete.Reason != tooManyTokens || got.Output[0].Status != "incomplete" ||
		len(r.sessions) != 1 || len(r.files) != 1 {
		t.Errorf("%+v", got)
	}
}

// A client that leaves ends the code, and what is asked of the model.
func TestClientLeaves(t *testing.T) {
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	r := newRig(t, Options{}, runs("wait"), func(w http.ResponseWriter, _ map[string]any) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		<-silent
	})
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", r.URL+"/responses", strings.NewReader(`{"model":"m","input":"go","stream":true,`+auto+`}`))
	req.Header.Set("Authorization", "Bearer ann")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "event: response.created\n" {
		t.Fatalf("%q %v", line, err)
	}
	await(t, r.started, "the code did not begin")
	leave()
	await(t, r.canceled, "the code went on without its client")
	if n := len(r.model.asked); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// One owner has so many requests under way; another is not kept from theirs.
func TestPlaces(t *testing.T) {
	r := newRig(t, Options{}, runs("wait"))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range turnsPerOwner {
		req, _ := http.NewRequestWithContext(ctx, "POST", r.URL+"/responses", strings.NewReader(`{"model":"m","input":"go",`+auto+`}`))
		req.Header.Set("Authorization", "Bearer ann")
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	for range turnsPerOwner {
		await(t, r.started, "as many requests as there may be are not under way")
	}
	if status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go"}`); status != 429 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.ask("bob", "POST", "/responses", `{"model":"m","input":"go"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	leave()
	for range turnsPerOwner {
		await(t, r.canceled, "code went on without its client")
	}
}

// Another owner's containers and files are not there, on every verb.
func TestTenants(t *testing.T) {
	r := newRig(t, Options{}, runs("file a.csv"), says("ok"))
	got := r.respond(auto)
	container, file := got.Output[0].Container, got.Output[1].Content[0].Annotations[0].File
	form := "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--x\r\n" +
		"Content-Disposition: form-data; name=\"file\"; filename=\"../a/up.csv\"\r\n\r\n1,2\r\n--x--\r\n"
	status, text := r.ask("ann", "POST", "/files", form, "Content-Type", "multipart/form-data; boundary=x")
	var up struct{ ID, Filename string }
	if err := json.Unmarshal([]byte(text), &up); err != nil || status != 200 || up.Filename != "up.csv" {
		t.Fatalf("%d %s", status, text)
	}
	item := fmt.Sprintf(`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":%q}]}`, container)
	staged := fmt.Sprintf(`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":[%q]}}]}`, up.ID)
	shown := fmt.Sprintf(`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","file_id":%q}]}]}`, up.ID)
	for _, c := range [][3]string{
		{"GET", "/containers/" + container, ""}, {"GET", "/containers/" + container + "/files", ""}, {"GET",
			"/containers/" + container + "/files/" + file, ""},
		{"GET", "/containers/" + container + "/files/" + file + "/content", ""}, {"DELETE", "/containers/" + container +
			"/files/" + file, ""},
		{"POST", "/containers/" + container + "/files", `{"file_id":"` + up.ID + `"}`}, {"POST", "/responses", item}, {"POST", "/responses", staged},
		{"POST", "/responses", shown}, {"POST", "/containers", `{"name":"x","file_ids":["` + up.ID + `"]}`}, {"GET", "/files/" + up.ID, ""}, {"GET", "/files/" + up.ID + "/content", ""},
		{"DELETE", "/files/" + up.ID, ""}, {"DELETE", "/containers/" + container, ""},
	} {
		if status, text := r.ask("bob", c[0], c[1], c[2]); status != 404 || !strings.Contains(text,
			"invalid_request_error") {
			t.Errorf("%s %s of another owner: %d %s", c[0], c[1], status, text)
		}
		if status, text := r.ask("ann", c[0], c[1], c[2]); status >= 400 && c[2] != shown {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, text)
		}
	}
	for _, path := range []string{"/containers", "/files"} {
		if _, text := r.ask("bob", "GET", path, ""); !strings.Contains(text, `"data":[]`) {
			t.Errorf("%s of another owner: %s", path, text)
		}
	}
}

// A container that has expired is known to its owner as such.
func TestExpired(t *testing.T) {
	r := newRig(t, Options{}, runs("print 1"), says("ok"))
	id := r.respond(auto).Output[0].Container
	session, _ := parseID(containerPrefix, id)
	r.mu.Lock()
	delete(r.sessions, session)
	r.mu.Unlock()
	one := `{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":"` + id + `"}]}`
	if status, text := r.ask("ann", "POST", "/responses", one); status != 404 {
		t.Errorf("before its time: %d %s", status, text)
	}
	known, _ := r.api.seen.get(id)
	known.ExpiresAt = time.Now().Add(-time.Second)
	r.api.seen.put(id, known)
	if status, text := r.ask("ann", "POST", "/responses", one); status != 400 || !strings.Contains(text,
		"Container is expired.") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.ask("ann", "GET", "/containers/"+id, ""); status != 200 || !strings.Contains(text, `"status":"expired"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/containers/" + id, "/containers/" + id + "/files"} {
		if status, text := r.ask("bob", "GET", path, ""); status != 404 {
			t.Errorf("%s of another owner: %d %s", path, status, text)
		}
	}
}

// Nonsense is refused in OpenAI's words, with what is wrong.
func TestRefusals(t *testing.T) {
	r := newRig(t, Options{}, says("ok"))
	for body, want := range map[string]string{
		`[`: "parse the JSON", `[]`: "JSON object", `{}`: `"param":"model"`, `{"model":7}`: `"param":"model"`, `{"model":"m"}`: `"param":"input"`,
		`{"model":"m","input":"x","future":1}`: `"code":"unknown_parameter"`, `{"model":"m","input":"x","background":true}`: `"code":"unsupported_parameter"`,
		`{"model":"m","input":"x","conversation":"conv_1"}`:         `"param":"conversation"`,
		`{"model":"m","input":"x","previous_response_id":"resp_1"}`: `"param":"previous_response_id"`, `{"model":"m","input":[{"type":"computer_call"}]}`: `"param":"input[0].type"`,
		`{"model":"m","input":[7]}`: `"param":"input[0]"`, `{"model":"m","input":[{"role":"robot","content":"x"}]}`: `"param":"input[0].role"`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"file:///etc/passwd"}]}]}`: `image_url"`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"eA=="}]}]}`:                `"param":"input[0].content[0]"`,
		`{"model":"m","input":"x","tools":[{"type":"web_search"}]}`:                                                   `"param":"tools[0].type"`, `{"model":"m","input":"x","tools":[{}]}`: `"param":"tools[0].type"`,
		`{"model":"m","input":"x","tools":[{"type":"code_interpreter"}]}`:                                                                   `"param":"tools[0].container"`,
		`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto","network_policy":{"type":"allowlist"}}}]}`: `"param":"network_policy"`,
		`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto","memory_limit":"64g"}}]}`:                  `"param":"memory_limit"`,
		`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":"cntr_../x"}]}`:                                           `not found`,
		`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":""}]}`:                                                    `"param":"tools[0].container"`,
		`{"model":"m","input":"x","tool_choice":{"type":"function","name":"none"}}`:                                                         `"param":"tool_choice"`,
		`{"model":"m","input":"x","text":{"format":{"type":"grammar"}}}`:                                                                    `"param":"text.format.type"`,
		`{"model":"m","input":"x","include":["file_search_call.results"]}`:                                                                  `"param":"include[0]"`,
		`{"model":"m","input":"x","max_tool_calls":0,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`:                    `"param":"max_tool_calls"`,
	} {
		status, text := r.ask("ann", "POST", "/responses", body)
		if status != 400 && (status != 404 || want != "not found") || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for _, c := range [][3]string{
		{"POST", "/containers", `{}`}, {"POST", "/containers", `{"name":"x","expires_after":{"anchor":"created_at","minutes":1}}`}, {"POST", "/containers", `{"name":"x","skills":[{}]}`},
		{"GET", "/containers?limit=0", ""}, {"GET", "/files?order=up", ""}, {"GET", "/files?after=file-none", ""},
		{"POST", "/files", "{}"}, {"GET", "/vector_stores", ""}, {"PUT", "/files", ""},
	} {
		if status, text := r.ask("ann", c[0], c[1], c[2]); status < 400 || status >= 500 || !strings.Contains(text, `"error":{`) {
			t.Errorf("%v: %d %s", c, status, text)
		}
	}
	for _, form := range []string{"", "--x\r\n",
		"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ncut",
		"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nwhole\r\n--x--"} {
		if status, text := r.ask("ann", "POST", "/files", form, "Content-Type",
			"multipart/form-data; boundary=x"); status != 400 {
			t.Errorf("%q: %d %s", form, status, text)
		}
	}
	if len(r.files) != 0 {
		t.Errorf("%d files are left of forms that were refused", len(r.files))
	}
	if n := len(r.model.asked); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	none := newRig(t, Options{})
	if status, text := none.ask("ann", "POST", "/responses", `{"model":"m","input":"x"}`); status != 503 || !strings.Contains(text, "openai_upstream_url") {
		t.Errorf("without a model: %d %s", status, text)
	}
}

// Recorded exchanges are answered as they were.
func TestRecordings(t *testing.T) {
	dialecttest.Replay(t, "testdata/*.txtar", func(t *testing.T) http.Handler {
		f, m := newFake(), newModel(t, runs("print hello\nfile a.csv"), says("See [a.csv](sandbox:/mnt/data/a.csv)"))
		return New(Options{
			Engine: f, Live: f, HTTP: http.DefaultClient, Key: "secret", Upstream: m.URL + "/v1",
			Caller: func(*http.Request) engine.Caller { return engine.Caller{Owner: "ann"} },
		})
	})
}
