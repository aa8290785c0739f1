package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/goccy/go-yaml"
	"github.com/tidwall/gjson"
)

// Open WebUI itself, set up as deploy/compose/openwebui.yaml sets it up: its users plot in the code interpreter, and
// have files in the terminal, each their own.
func TestOpenWebUI(t *testing.T) {
	if os.Getenv("AIRLOCK_TEST_OPENWEBUI") == "" {
		t.Skip("this takes 630 MB: AIRLOCK_TEST_OPENWEBUI=all; `make test-openwebui`")
	}
	o := startOpenWebUI(t)
	admin := o.signIn("/api/v1/auths/signup", "admin", "")
	ann := o.signIn("/api/v1/auths/add", "ann", admin.token)
	bob := o.signIn("/api/v1/auths/add", "bob", admin.token)
	t.Run("plot", func(t *testing.T) { testPlotInChat(t, ann, bob) })
	t.Run("run", func(t *testing.T) { testRunButton(t, ann) })
	t.Run("terminal", func(t *testing.T) { testTerminalInChat(t, ann, bob) })
	t.Run("chats", func(t *testing.T) { testTerminalForEachChat(t, admin, ann, bob) })
	t.Run("parallel", func(t *testing.T) { testChatsInParallel(t, ann, bob) })
}

const chatPlot = `import matplotlib.pyplot as plt
plt.plot([1, 4, 9])
plt.title('squares')
print('the sum is', 1 + 4 + 9)
plt.show()`

var chatPicture = regexp.MustCompile(`!\[Output Image\]\(([^)]+)\)`)

// testPlotInChat plots in the two ways in which models call the code interpreter: as a tool, and by a tag in a text.
func testPlotInChat(t *testing.T, ann, bob webUIUser) {
	for calling, prompt := range map[string]string{"native": callOf("execute_code", fields{"code": chatPlot}),
		"legacy": chatTag + chatPlot + "</code_interpreter>"} {
		t.Run(calling, func(t *testing.T) {
			chat := ann.chat(t, prompt, fields{"features": fields{"code_interpreter": true},
				"params": fields{"function_calling": calling}})
			if !strings.Contains(chat.answer, "the sum is 14") {
				t.Errorf("the model is not told what was printed: %+v", chat)
			}
			found := chatPicture.FindStringSubmatch(chat.steps)
			if found == nil {
				t.Fatalf("there is no picture: %+v", chat)
			}
			picture := ann.call(t, "GET", found[1], nil, http.StatusOK)
			shown, err := png.Decode(bytes.NewReader(picture))
			if err != nil || shown.Bounds().Dx() < 100 {
				t.Errorf("%s: %v, %.100q", found[1], err, picture)
			}
			bob.call(t, "GET", found[1], nil, http.StatusNotFound)
		})
	}
}

// testRunButton does what the button at a block of code does.
func testRunButton(t *testing.T, user webUIUser) {
	code := "import pandas as pd\nprint(pd.DataFrame({'a': [20, 22]}).a.sum())\n1 / 0"
	got := gjson.ParseBytes(user.call(t, "POST", "/api/v1/utils/code/execute", fields{"code": code}, http.StatusOK))
	if got.Get("stdout").String() != "42" || !strings.Contains(got.Get("stderr").String(), "ZeroDivisionError") {
		t.Errorf("%s", got)
	}
}

func testTerminalInChat(t *testing.T, ann, bob webUIUser) {
	const terminal = "/api/v1/terminals/airlock"
	inTerminal := fields{"terminal_id": "airlock"}
	chat := ann.chat(t, callOf("write_file", fields{"path": "notes.txt", "content": "made by ann"}), inTerminal)
	if !strings.Contains(chat.answer, "notes.txt") {
		t.Errorf("%+v", chat)
	}
	read := callOf("run_command", fields{"command": "cat notes.txt", "wait": 20})
	if other := ann.chat(t, read, inTerminal); !strings.Contains(other.answer, "made by ann") {
		t.Errorf("another chat of the same user: %+v", other)
	}
	if other := bob.chat(t, read, inTerminal); !strings.Contains(other.answer, "No such file") {
		t.Errorf("another user: %+v", other)
	}
	// What the page's panel of files asks.
	got := gjson.ParseBytes(ann.call(t, "GET", terminal+"/files/list?directory=.", nil, http.StatusOK))
	if got.Get("entries.#.name").String() != `["notes.txt"]` {
		t.Errorf("the panel has %s", got)
	}
	if got := ann.call(t, "GET", terminal+"/files/view?path=notes.txt", nil, http.StatusOK); string(got) != "made by ann" {
		t.Errorf("the panel shows %q", got)
	}
	bob.call(t, "GET", terminal+"/files/view?path=notes.txt", nil, http.StatusNotFound)
	// The page's terminal, which belongs to a chat.
	shell := gjson.ParseBytes(ann.call(t, "POST", terminal+"/chats/"+chat.id+"/api/terminals", fields{},
		http.StatusOK)).Get("id").String()
	if said := bob.shell(t, shell, chat.id, "cat notes.txt\n", "made by ann"); strings.Contains(said, "made by ann") {
		t.Errorf("another user's terminal says %q", said)
	}
	if said := ann.shell(t, shell, chat.id, "cat notes.txt\n", "made by ann"); !strings.Contains(said, "made by ann") {
		t.Errorf("the terminal says %q", said)
	}
}

// testTerminalForEachChat has an administrator connect the terminal a second time, as one for each chat.
func testTerminalForEachChat(t *testing.T, admin, ann, bob webUIUser) {
	const settings = "/api/v1/configs/terminal_servers"
	var connections struct {
		All []map[string]any `json:"TERMINAL_SERVER_CONNECTIONS"`
	}
	if err := json.Unmarshal(admin.call(t, "GET", settings, nil, http.StatusOK), &connections); err != nil {
		t.Fatal(err)
	}
	second := maps.Clone(connections.All[0])
	second["id"], second["server_type"] = "chats", "orchestrator"
	second["config"] = maps.Clone(second["config"].(map[string]any))
	second["config"].(map[string]any)["contexts"] = fields{"chat": fields{"context_id": "chat_id"}}
	connections.All = append(connections.All, second)
	admin.call(t, "POST", settings, connections, http.StatusOK)

	inTerminal := fields{"terminal_id": "chats"}
	chat := ann.chat(t, callOf("write_file", fields{"path": "plan.txt", "content": "of one chat"}), inTerminal)
	read := callOf("run_command", fields{"command": "cat plan.txt", "wait": 20})
	if other := ann.chat(t, read, inTerminal); !strings.Contains(other.answer, "No such file") {
		t.Errorf("another chat of the user: %+v", other)
	}
	panel := "/api/v1/terminals/chats/chats/" + chat.id + "/files/view?path=plan.txt"
	if got := ann.call(t, "GET", panel, nil, http.StatusOK); string(got) != "of one chat" {
		t.Errorf("the panel shows %q", got)
	}
	bob.call(t, "GET", panel, nil, http.StatusNotFound)
}

// testChatsInParallel has each user run 10 programs at once: in kernels, each of which has its own files, and in the
// terminal, where all are the user's.
func testChatsInParallel(t *testing.T, ann, bob webUIUser) {
	for name, of := range map[string]func(i int) (prompt, want string, more fields){
		"kernels": func(i int) (string, string, fields) {
			code := fmt.Sprintf("import os, time\nopen('file-%d', 'w').close()\ntime.sleep(1)\n"+
				"print(os.listdir(), %d * 7919)", i, i)
			return callOf("execute_code", fields{"code": code}), fmt.Sprintf("['file-%d'] %d", i, i*7919),
				fields{"features": fields{"code_interpreter": true}}
		},
		"commands": func(i int) (string, string, fields) {
			return callOf("run_command", fields{"command": fmt.Sprintf("sleep 1; echo $((%d * 7919))", i), "wait": 60}),
				fmt.Sprint(i * 7919), fields{"terminal_id": "airlock"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var all sync.WaitGroup
			for i := range 20 {
				user := ann
				if i%2 == 1 {
					user = bob
				}
				all.Go(func() {
					prompt, want, more := of(i + 1)
					if chat, err := user.tryChat(t.Context(), prompt, more); err != nil || !strings.Contains(chat.answer, want) {
						t.Errorf("%s wants %q: %v, %+v", user.name, want, err, chat)
					}
				})
			}
			all.Wait()
			t.Logf("20 chats at once took %v", time.Since(began).Round(10*time.Millisecond))
		})
	}
}

// composeFile is what the test reads of deploy/compose/openwebui.yaml.
type composeFile struct {
	Services map[string]struct {
		Entrypoint  []string
		Environment map[string]string
	}
}

// openWebUIServer is a running Open WebUI.
type openWebUIServer struct {
	t   *testing.T
	url string
}

// startOpenWebUI starts a service and Open WebUI. Commands and settings of the containers are those of the compose
// file, with this machine's folders and addresses.
func startOpenWebUI(t *testing.T) *openWebUIServer {
	t.Helper()
	installed, err := filepath.Abs("../.cache/openwebui")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "openwebui/install", installed).CombinedOutput(); err != nil {
		skip(t, "Open WebUI cannot be installed: %v: %s", err, out)
	}
	text, err := os.ReadFile("../deploy/compose/openwebui.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	s := serveWith(t, who, data, environment(file.Services["airlock"].Environment, nil))
	work := t.TempDir()
	here := strings.NewReplacer("$$", "$", "/var/lib/airlock-key", work, "http://airlock:8000", s.url)
	command := func(name string, env ...string) *exec.Cmd {
		line := file.Services[name].Entrypoint
		if len(line) != 3 {
			t.Fatalf("the compose file starts %s with %q", name, line)
		}
		cmd := exec.Command(line[0], line[1], here.Replace(line[2]))
		cmd.Dir = work
		cmd.Env = append(environment(file.Services[name].Environment, here), env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	path := "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")
	if out, err := command("airlock-key", path, "AIRLOCK_DATA="+data).CombinedOutput(); err != nil {
		t.Fatalf("the keys: %v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	free.Close()
	start := fmt.Sprintf("exec %s/python/bin/open-webui serve --host 127.0.0.1 --port %d\n", installed, address.Port)
	if err := os.WriteFile(filepath.Join(work, "start.sh"), []byte(start), 0o600); err != nil {
		t.Fatal(err)
	}
	// Its image starts the slim one so; the model, and that all users may use it, are what an admin sets.
	cmd := command("open-webui", path, "HOME="+work, "DATA_DIR="+work, "USE_SLIM_DOCKER=true", "OFFLINE_MODE=true",
		"ENABLE_OLLAMA_API=false", "OPENAI_API_BASE_URL="+obedientModel(t)+"/v1", "OPENAI_API_KEY=x",
		"BYPASS_MODEL_ACCESS_CONTROL=true")
	log := &lines{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("Open WebUI said:\n%s", log)
		}
	})
	o := &openWebUIServer{t: t, url: "http://" + address.String()}
	eventually(t, waitTime, "Open WebUI answers", func() bool {
		select {
		case <-ended:
			t.Fatal("Open WebUI has ended")
		default:
		}
		resp, err := http.Get(o.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return o
}

// environment returns settings as a process takes them.
func environment(settings map[string]string, replace *strings.Replacer) []string {
	var env []string
	for name, value := range settings {
		if replace != nil {
			value = replace.Replace(value)
		}
		env = append(env, name+"="+value)
	}
	return env
}

// webUIUser is one of its users, signed in.
type webUIUser struct {
	server      *openWebUIServer
	name, token string
}

func (o *openWebUIServer) signIn(path, name, admin string) webUIUser {
	o.t.Helper()
	user := webUIUser{server: o, name: name, token: admin}
	made := user.call(o.t, "POST", path, fields{"name": name, "email": name + "@example.com", "password": "secret-" + name,
		"role": "user"}, http.StatusOK)
	user.token = gjson.GetBytes(made, "token").String()
	return user
}

// call expects a status, and returns the answer.
func (u webUIUser) call(t *testing.T, method, path string, body any, status int) []byte {
	t.Helper()
	got, text, err := u.tryAsk(t.Context(), method, path, body)
	if err != nil || got != status {
		t.Fatalf("%s: %s %s: %v, %d, want %d: %.1000s", u.name, method, path, err, got, status, text)
	}
	return text
}

func (u webUIUser) tryAsk(ctx context.Context, method, path string, body any) (status int, text []byte, err error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.server.url+path, sent)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if u.token != "" {
		r.Header.Set("Authorization", "Bearer "+u.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// webUIChat is a chat that has ended.
type webUIChat struct {
	id     string
	answer string // the model's
	steps  string // what the page shows: the answer, calls of tools and their output, as JSON
}

// chat begins a chat as the page does, and waits for its end.
func (u webUIUser) chat(t *testing.T, prompt string, more fields) webUIChat {
	t.Helper()
	chat, err := u.tryChat(t.Context(), prompt, more)
	if err != nil {
		t.Fatal(u.name, err)
	}
	return chat
}

func (u webUIUser) tryChat(ctx context.Context, prompt string, more fields) (chat webUIChat, err error) {
	const question, answer = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	asked := fields{"model": "scripted", "stream": true, "parent_id": nil, "id": answer, "session_id": "page",
		"messages": []any{fields{"role": "user", "content": prompt}},
		"user_message": fields{"id": question, "parentId": nil, "role": "user", "content": prompt,
			"models": []string{"scripted"}}}
	maps.Copy(asked, more)
	_, text, err := u.tryAsk(ctx, "POST", "/api/chat/completions", asked)
	if chat.id = gjson.GetBytes(text, "chat_id").String(); chat.id == "" {
		return chat, fmt.Errorf("no chat: %w %.1000s", err, text)
	}
	next := time.NewTicker(200 * time.Millisecond)
	defer next.Stop()
	for {
		_, text, err = u.tryAsk(ctx, "GET", "/api/v1/chats/"+chat.id, nil)
		said := gjson.GetBytes(text, "chat.history.messages."+answer)
		if !said.Exists() {
			return chat, fmt.Errorf("the chat is lost: %w %.1000s", err, text)
		}
		if said.Get("done").Bool() {
			chat.answer, chat.steps = said.Get("content").String(), said.Get("output").Raw
			return chat, nil
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return chat, ctx.Err()
		}
	}
}

// shell types at a terminal of a chat through Open WebUI, and returns what it shows until it shows a text, or ends.
func (u webUIUser) shell(t *testing.T, id, chat, typed, until string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	address := strings.Replace(u.server.url, "http", "ws", 1) + "/api/v1/terminals/airlock/api/terminals/" + id
	conn, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	first, _ := json.Marshal(fields{"type": "auth", "token": u.token, "chat_id": chat})
	if err := conn.Write(ctx, websocket.MessageText, first); err != nil {
		t.Fatal(err)
	}
	_ = conn.Write(ctx, websocket.MessageBinary, []byte(typed)) // it may have ended
	var shown bytes.Buffer
	for !strings.Contains(shown.String(), until) {
		_, part, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				t.Errorf("%s: the terminal neither ends nor shows %q", u.name, until)
			}
			break
		}
		shown.Write(part)
	}
	return shown.String()
}

// callOf asks the scripted model to call a tool.
func callOf(tool string, arguments fields) string {
	text, _ := json.Marshal(fields{"tool": tool, "arguments": arguments})
	return string(text)
}

// chatTag begins a text that the scripted model repeats.
const chatTag = `<code_interpreter type="code" lang="python">`

// obedientModel is a model that does what its user says, and then quotes what it is told of it. It returns its address.
func obedientModel(t *testing.T) string {
	t.Helper()
	var speech frameworkModel
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(fields{"object": "list", "data": []any{fields{"id": "scripted", "object": "model"}}})
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // Open WebUI was stopped
		}
		var asked, told string
		gjson.GetBytes(body, "messages").ForEach(func(_, message gjson.Result) bool {
			if text := message.Get("content").String(); message.Get("role").String() == "user" {
				asked, told = text, ""
			} else {
				told += text
			}
			return true
		})
		var next reply
		var call struct {
			Tool      string
			Arguments map[string]any
		}
		switch {
		case told != "":
			next.text = "Told: " + strings.ReplaceAll(told, "<", "") // a tag would be a call
		case strings.HasPrefix(asked, chatTag):
			code, _, _ := strings.Cut(asked, "</code_interpreter>")
			next.text = code + "</code_interpreter>"
		case json.Unmarshal([]byte(asked), &call) != nil:
			next.text = "What is that? " + asked
		case !gjson.GetBytes(body, `tools.#(function.name=="`+call.Tool+`")`).Exists():
			next.text = "There is no tool " + call.Tool + "."
		default:
			next = reply{tool: call.Tool, arguments: call.Arguments}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		speech.completionEvents(next, func(event any) {
			text, _ := json.Marshal(event)
			fmt.Fprintf(w, "data: %s\n\n", text)
		})
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
