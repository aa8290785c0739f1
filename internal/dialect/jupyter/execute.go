package jupyter

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/live"
)

// keptInputs is how much code of cells is kept for history requests.
const keptInputs = 1 << 20

// execution is an execute_request.
type execution struct {
	Code        string                     `json:"code"`
	Silent      bool                       `json:"silent"`
	Stored      *bool                      `json:"store_history"`
	AllowStdin  bool                       `json:"allow_stdin"`
	StopOnError *bool                      `json:"stop_on_error"`
	Expressions map[string]json.RawMessage `json:"user_expressions"`
}

// execute runs a cell, publishes its output, and replies.
func (k *kernel) execute(ctx context.Context, r *clientRequest) {
	var what execution
	if err := json.Unmarshal(r.content, &what); err != nil {
		k.publish(iopub, "stream", r.header, map[string]string{"name": "stderr",
			"text": "The request cannot be read: " + err.Error() + "\n"})
		r.reply("execute_reply", failure("ValueError", "the request cannot be read"))
		return
	}
	cell, err := k.server.Live.Start(ctx, k.caller, k.id, live.CellRequest{Code: what.Code, Silent: what.Silent,
		Unrecorded: what.Stored != nil && !*what.Stored, AllowInput: what.AllowStdin, Parent: r.id})
	if err != nil {
		k.fail(r, "KernelError", reasonOf(err))
		return
	}
	events, err := k.server.Live.Watch(ctx, k.caller, k.id, cell.ID, 0)
	if err != nil {
		k.fail(r, "KernelError", reasonOf(err))
		return
	}
	out := output{kernel: k, request: r, what: &what}
	for e := range events {
		out.event(e)
	}
	out.close()
}

// fail answers a cell that could not be run.
func (k *kernel) fail(r *clientRequest, name, why string) {
	content := failure(name, why)
	k.publish(iopub, "error", r.header, content.raised)
	r.reply("execute_reply", content)
}

// remember keeps the code of a cell for history requests.
func (k *kernel) remember(code string, count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if count != k.count+1 {
		k.inputs, k.inputted = nil, 0
	}
	k.count = count
	k.inputs, k.inputted = append(k.inputs, code), k.inputted+len(code)
	for k.inputted > keptInputs {
		k.inputted -= len(k.inputs[0])
		k.inputs = k.inputs[1:]
	}
}

// raised has the fields of an error message and no others: notebooks store it, and their schema
// allows no other field.
type raised struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// errorContent is of a reply with an error.
type errorContent struct {
	Status string `json:"status"`
	raised
	Count int `json:"execution_count"`
}

func failure(name, why string) errorContent {
	return errorContent{"error", raised{name, why, []string{name + ": " + why}}, 0}
}

// reasonOf returns the text of an error.
func reasonOf(err error) string {
	_, why := describe(err)
	return why
}

// requestSuffix ends the types of messages that have a reply; those of comms have none.
const requestSuffix = "_request"

// replyKind is the type of the reply to a request.
func replyKind(kind string) string { return strings.TrimSuffix(kind, requestSuffix) + "_reply" }

// maxText is the limit of the text in a message, in bytes: escaped in JSON it fits into smallFrame.
const maxText = 128 << 10

// output publishes the output of a cell.
type output struct {
	kernel   *kernel
	request  *clientRequest
	what     *execution
	count    int
	note     string // the notice at the beginning of the cell
	displays int
	warned   string        // the last text on stderr
	problem  *errorContent // the error that the cell raised
	ended    bool
}

// publish sends a message about the cell to all clients.
func (o *output) publish(kind string, content any) {
	o.kernel.publish(iopub, kind, o.request.header, content)
}

// event publishes an event of the cell.
func (o *output) event(e live.Event) {
	switch e.Type {
	case live.StartedEvent:
		o.publishStart(e.Cell)
	case live.Stdout, live.Stderr:
		if e.Type == live.Stderr {
			o.warned = e.Text
		}
		o.stream(string(e.Type), e.Text)
	case live.Display:
		kind, transient := "display_data", map[string]string{}
		if e.DisplayID != "" {
			transient["display_id"] = e.DisplayID
		}
		if e.Update {
			kind = "update_display_data"
		}
		o.bundle(kind, displayContent{Data: e.Data, Metadata: orNone(e.Metadata), Transient: transient})
	case live.Result:
		o.bundle("execute_result", displayContent{Data: e.Data, Metadata: orNone(e.Metadata), Count: &o.count})
	case live.Error, live.ExitEvent:
		if e.Name == "EOFError" && strings.HasPrefix(e.Value, live.NoInput) {
			e.Name, e.Traceback = noStdin, slices.Clone(e.Traceback)
			for i, line := range e.Traceback {
				e.Traceback[i] = strings.Replace(line, "EOFError: "+live.NoInput, noStdin+": "+live.NoInput, 1)
			}
		}
		o.problem = &errorContent{"error", raised{e.Name, cut(e.Value, maxValue), trace(e.Traceback)}, o.count}
		o.publish("error", o.problem.raised)
	case live.CommEvent:
		o.comm(e.Comm)
	case live.ClearEvent:
		o.publish("clear_output", map[string]bool{"wait": e.Wait})
	case live.InputEvent:
		o.kernel.mu.Lock()
		o.kernel.asker = o.request.from
		o.kernel.mu.Unlock()
		o.request.from.send(o.kernel.message(stdin, "input_request", o.request.header,
			map[string]any{"prompt": e.Prompt, "password": e.Password}))
	case live.DoneEvent:
		o.done(e.Cell)
	}
}

// noStdin is ipykernel's name of the error of input() without a client that answers.
const noStdin = "StdinNotImplementedError"

// publishStart publishes the start of a cell, and that its interpreter is a new one unless a client asked
// for that.
func (o *output) publishStart(cell *live.Cell) {
	o.count, o.note = cell.ExecutionCount, cell.Message
	if !o.what.Silent {
		if o.what.Stored == nil || *o.what.Stored {
			o.kernel.remember(o.what.Code, o.count)
		}
		o.publish("execute_input", map[string]any{"code": o.what.Code, "execution_count": o.count})
	}
	o.kernel.mu.Lock()
	wanted := o.kernel.wanted
	o.kernel.wanted = false
	o.kernel.mu.Unlock()
	if cell.Restarted && !wanted {
		o.stream("stderr", line(cell.Message))
	}
}

// line ends a sentence with a newline. It returns "" for "".
func line(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}

// stream publishes text in pieces that every client accepts.
func (o *output) stream(name, text string) {
	for text != "" {
		piece := text
		if len(piece) > maxText {
			end := maxText
			for !utf8.RuneStart(text[end]) {
				end--
			}
			piece = text[:end]
		}
		text = text[len(piece):]
		o.publish("stream", map[string]string{"name": name, "text": piece})
	}
}

// displayContent is of display_data, update_display_data and execute_result.
type displayContent struct {
	Data      map[string]json.RawMessage `json:"data"`
	Metadata  json.RawMessage            `json:"metadata"`
	Transient map[string]string          `json:"transient,omitempty"`
	Count     *int                       `json:"execution_count,omitempty"`
}

// bundle publishes a value in its MIME types.
func (o *output) bundle(kind string, content displayContent) {
	if content.Data[live.TableForm] != nil { // clients would store it in notebooks, and show none of it
		content.Data = maps.Clone(content.Data)
		delete(content.Data, live.TableForm)
	}
	m := o.kernel.message(iopub, kind, o.request.header, content)
	o.displays++
	if number := o.displays; len(m.content) > maxContent || len(content.Data["image/png"]) > maxPicture {
		m.small = sync.OnceValue(func() []*message { return o.smaller(kind, content, number) })
	}
	o.kernel.tell(m)
}

// done answers the request.
func (o *output) done(cell *live.Cell) {
	o.ended = true
	o.kernel.mu.Lock()
	o.kernel.asker = nil
	o.kernel.mu.Unlock()
	if cell.ExecutionCount != 0 {
		o.count = cell.ExecutionCount
	}
	why := strings.TrimSpace(strings.TrimPrefix(cell.Message, o.note))
	if cell.Status == live.StatusOK || cell.Status != live.StatusLost && o.problem != nil {
		o.stream("stderr", line(why))
	}
	switch {
	case cell.Status == live.StatusOK && o.problem == nil:
		o.request.reply("execute_reply", map[string]any{
			"status": "ok", "execution_count": o.count, "payload": []any{}, "user_expressions": o.expressions(),
		})
		return
	case cell.Status == live.StatusLost:
		o.lost(why)
	case o.problem == nil && cell.Status == live.StatusInterrupted:
		o.error("KeyboardInterrupt", why)
	case o.problem == nil && cell.Status == live.StatusError: // IPython has written it to stderr, as of an unknown magic
		name, value, _ := strings.Cut(strings.TrimSpace(o.warned), ": ")
		content := failure(name, cut(value, maxValue))
		o.problem = &content
	case o.problem == nil:
		o.error("KernelError", why)
	}
	o.problem.Count = o.count
	o.request.reply("execute_reply", o.problem)
	if o.what.StopOnError == nil || *o.what.StopOnError {
		o.kernel.abortQueued()
	}
}

// lost publishes that the interpreter has ended. The original leaves the request without a reply,
// and its clients wait for their timeout.
func (o *output) lost(why string) {
	o.error("DeadKernelError", why)
	o.kernel.mu.Lock()
	wanted := o.kernel.wanted
	o.kernel.mu.Unlock()
	if wanted {
		return
	}
	o.kernel.setState(stateRestarting, none)
	o.kernel.setState(stateStarting, none)
}

func (o *output) error(name, why string) {
	content := failure(name, why)
	content.Count = o.count
	o.problem = &content
	o.publish("error", o.problem.raised)
}

// close answers a request whose cell did not end: the service does.
func (o *output) close() {
	if !o.ended {
		o.kernel.fail(o.request, "KernelError", errClosing.Error())
	}
}

// expressions replies to user_expressions, which are not evaluated.
func (o *output) expressions() map[string]any {
	all := map[string]any{}
	for name := range o.what.Expressions {
		all[name] = failure("NotSupported", "user_expressions are not evaluated: print the value in the cell")
	}
	return all
}

func orNone(metadata json.RawMessage) json.RawMessage {
	if len(metadata) == 0 {
		return none
	}
	return metadata
}

// encode returns JSON without escapes for HTML, which sockets do not need.
func encode(content any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return none // JSON of a program that is nested too deeply with what is around it
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// An error is repeated in the answer to its request, so that it is short.
const (
	maxValue = 64 << 10
	maxTrace = 256 << 10
)

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// trace returns the end of a traceback, which has the line that raised the error.
func trace(lines []string) []string {
	size := 0
	for i := len(lines) - 1; i >= 0; i-- {
		if size += len(lines[i]); size > maxTrace {
			return append([]string{"[...]", cut(lines[i], maxValue)}, lines[i+1:]...)
		}
	}
	return append([]string{}, lines...)
}
