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

	"github.com/airlock-run/airlock/internal/engine"
)

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
func TestLargeOutput(t *testing.T) {
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

// Disconnecting a client ends the code and the request to the model.
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
	user := string(engine.Caller{Owner: "ann"}.User("z").Owner)
	for _, owner := range []string{"ann", user} {
		if status, text := r.ask(owner, "POST", "/responses", `{"model":"m","input":"go"}`); status != 429 {
			t.Errorf("%s: %d %s", owner, status, text)
		}
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
	known, _ := r.api.seen.Get(id)
	known.ExpiresAt = time.Now().Add(-time.Second)
	r.api.seen.Put("ann", id, known)
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

// Invalid requests are refused in OpenAI's format, with the fault.
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
