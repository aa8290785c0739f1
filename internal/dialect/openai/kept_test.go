package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const plainAuto = `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`

// eventsOf returns the data of a stream without the sequence numbers, and the first number.
func eventsOf(t *testing.T, text string) (all []map[string]any, first float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if n, _ := e["sequence_number"].(float64); len(all) == 0 {
			first = n
		} else if n != first+float64(len(all)) {
			t.Errorf("event %v after %d others from %v", n, len(all), first)
		}
		delete(e, "sequence_number")
		all = append(all, e)
	}
	return all, first
}

// Items of stored responses are sent by their ids alone, as clients do by default: the code and
// its output reach the model again, once.
func TestItemReferences(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello\nshow"), says("first"), says("second"), says("third"))
	status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go",`+plainAuto+`}`)
	var got reply
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	code, said := got.Output[0], got.Output[1]
	named := func(id string) string { return `{"type":"item_reference","id":"` + id + `"},` }
	more := func(references string) string {
		return `{"model":"m",` + plainAuto + `,"input":[{"role":"user","content":"go"},` + references +
			`{"role":"user","content":"more"}]}`
	}
	both := more(named(code.ID) + named(code.ID) + `{"id":"` + said.ID + `"},`)
	status, text = r.ask("ann", "POST", "/responses", both)
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	told := string(encode(r.model.asked[2]["messages"]))
	at := 0
	for _, want := range []string{`"go"`, `print hello`, `"hello\n"`, `"first"`, `"more"`} {
		found := strings.Index(told[at:], want)
		if found < 0 || strings.Count(told, want) != 1 {
			t.Fatalf("%s is not told once in its place: %s", want, told)
		}
		at += found
	}
	// The response that they led to is stored with the items, not with references.
	status, text = r.ask("ann", "POST", "/responses", more(named(got.Output[0].ID)))
	if told := string(encode(r.model.asked[3]["messages"])); status != 200 || !strings.Contains(told, "second") {
		t.Errorf("%d %s: %s", status, text, told)
	}
	none := code.ID[:strings.LastIndexByte(code.ID, '_')]
	for _, c := range []struct{ owner, body string }{
		{"bob", both}, {"ann", more(named(none + "_9"))}, {"ann", more(named("msg_x"))},
	} {
		status, text := r.ask(c.owner, "POST", "/responses", c.body)
		if status != 404 || !strings.Contains(text, "Item with id '") || !strings.Contains(text, "Send the item itself") {
			t.Errorf("%s: %d %s", c.owner, status, text)
		}
	}
	// What is not stored cannot be named.
	_, text = r.ask("ann", "POST", "/responses", `{"model":"m","input":"go","store":false}`)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if status, text := r.ask("ann", "POST", "/responses", more(named(got.Output[0].ID))); status != 404 {
		t.Errorf("not stored: %d %s", status, text)
	}
}

// Few bytes do not make a conversation of any size.
func TestManyReferences(t *testing.T) {
	r := newRig(t, Options{}, says(strings.Repeat("x", 1<<20)), says("ok"))
	_, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go"}`)
	var got reply
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	next := got.Output[0].ID
	one := strings.TrimSuffix(next, "_1")
	items := []string{}
	for i := range 70 { // an item's place may be asked for in many spellings
		items = append(items, fmt.Sprintf(`{"type":"item_reference","id":"%s_%0*d"}`, one, i+1, 1))
	}
	status, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":[`+strings.Join(items, ",")+`]}`)
	if status == 200 || len(r.model.asked) != 1 {
		t.Errorf("%d %.200s", status, text)
	}
}

// A response is retrieved with the outputs of its code.
func TestRetrieve(t *testing.T) {
	r := newRig(t, Options{}, runs("print hello\nfile a.csv\nshow"), says("done"))
	_, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go",`+plainAuto+`}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	at := "/responses/" + made.ID
	for query, shown := range map[string]bool{"": false, "?include[]=code_interpreter_call.outputs": true,
		"?include=code_interpreter_call.outputs": true} {
		var got reply
		status, text := r.ask("ann", "GET", at+query, "")
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
			t.Fatalf("%s: %d %s", query, status, text)
		}
		out := got.Output[0].Outputs
		if !shown && out != nil || shown && (len(out) != 2 || out[0].Logs != "hello\n" ||
			!strings.HasPrefix(out[1].URL, "data:image/png")) {
			t.Errorf("%s: %+v", query, out)
		}
	}
	for _, query := range []string{"?include=nothing", "?stream=true&starting_after=x"} {
		if status, text := r.ask("ann", "GET", at+query, ""); status != 400 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if status, _ := r.ask("bob", "GET", at+"?stream=true", ""); status != 404 {
		t.Errorf("another owner: %d", status)
	}
}

// joined is a stream with the pieces of its deltas put together.
func joined(all []map[string]any) (list []any) {
	for _, e := range all {
		last := len(list) - 1
		if e["delta"] != nil && last >= 0 && list[last].(map[string]any)["type"] == e["type"] {
			list[last].(map[string]any)["delta"] = fmt.Sprint(list[last].(map[string]any)["delta"], e["delta"])
			continue
		}
		if before, ok := e["response"].(map[string]any); ok && e["type"] != "response.completed" {
			delete(before, "store") // is not known before the end
		}
		list = append(list, e)
	}
	return list
}

// A stored response is retrieved as the events of its stream, from any of them on.
func TestRetrieveStream(t *testing.T) {
	function := `"tools":[{"type":"function","name":"add","parameters":{}}]`
	for _, tools := range []string{plainAuto, auto, function} {
		r := newRig(t, Options{}, runs("print hello\nfile a.csv\nshow"), says("See sandbox:/mnt/data/a.csv"))
		if tools == function {
			r = newRig(t, Options{}, calls("add", `{"a":1}`))
		}
		_, text := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go","stream":true,`+tools+`}`)
		live, _ := eventsOf(t, text)
		at := "/responses/" + live[len(live)-1]["response"].(map[string]any)["id"].(string)
		status, text := r.ask("ann", "GET", at+"?stream=true", "")
		again, first := eventsOf(t, text)
		_, text = r.ask("ann", "GET", at+"?stream=true&starting_after=3", "")
		if rest, from := eventsOf(t, text); from != 4 || len(rest) != len(again)-4 {
			t.Errorf("after 3: %d events from %v, of %d", len(rest), from, len(again))
		}
		if diff := cmp.Diff(joined(live), joined(again)); diff != "" || status != 200 || first != 0 {
			t.Errorf("%s: %d %s", tools, status, diff)
		}
	}
}

// A refusal of the model is a refusal for the client, streamed or not, and when it is retrieved.
func TestRefusal(t *testing.T) {
	no := chunks("stop", `{"role":"assistant","content":"Well. "}`, `{"refusal":"I can"}`, `{"refusal":"not."}`)
	r := newRig(t, Options{}, no)
	_, stream := r.ask("ann", "POST", "/responses", `{"model":"m","input":"go","stream":true}`)
	if !strings.Contains(stream, `"type":"response.refusal.done"`) || strings.Count(stream, "event: response.refusal.delta\n") != 2 ||
		!strings.Contains(stream, `"part":{"refusal":"I cannot.","type":"refusal"}`) ||
		strings.Contains(stream, `"text":"I can`) || !strings.Contains(stream, `"text":"Well. "`) {
		t.Errorf("%s", stream)
	}
	live, _ := eventsOf(t, stream)
	at := "/responses/" + live[len(live)-1]["response"].(map[string]any)["id"].(string)
	if _, text := r.ask("ann", "GET", at+"?stream=true", ""); !strings.Contains(text, `"refusal":"I cannot."`) {
		t.Errorf("retrieved: %s", text)
	}
	chat := `{"model":"m","messages":[{"role":"user","content":"go"}],` + plainAuto
	if _, text := r.ask("ann", "POST", "/chat/completions", chat+`}`); !strings.Contains(text, `"refusal":"I cannot."`) ||
		!strings.Contains(text, `"content":"Well. "`) {
		t.Errorf("chat: %s", text)
	}
	if _, text := r.ask("ann", "POST", "/chat/completions", chat+`,"stream":true}`); !strings.Contains(text, `"delta":{"refusal":"I can"}`) {
		t.Errorf("chat streamed: %s", text)
	}
}
