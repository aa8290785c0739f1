package browser

import (
	"bytes"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// usualPlace has a server answer where servers of models listen on this machine.
func usualPlace(t *testing.T, address string) (title, at string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range [][2]string{{"LM Studio", "127.0.0.1:1234"}, {"llama.cpp", "127.0.0.1:8080"}, {"Ollama", "127.0.0.1:11434"}} {
		listener, err := net.Listen("tcp", place[1])
		if err != nil {
			continue
		}
		server := httptest.NewUnstartedServer(answersEarly(httputil.NewSingleHostReverseProxy(target)))
		server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		return place[0], "http://" + place[1] + "/v1"
	}
	skip(t, "all usual ports of local models are taken")
	return "", ""
}

// TestAskFresh is Ask on a machine where nothing is set up: a key is entered, tried,
// kept and forgotten; a server on this machine is found, and asked.
func TestAskFresh(t *testing.T) {
	remote, model := providertest.NewOpenAI(t), providertest.NewLocalServer(t)
	s := &service{t: t, data: ownFolder(t), env: []string{"OPENAI_BASE_URL=" + remote.URL + "/v1"}}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	b := open(t, light)
	b.goTo(s.url + "/ask")
	// There is one step before a prompt can be written.
	if !eval[bool](b, `document.querySelectorAll('section.connect .way').length === 3 && !document.querySelector('#composer')`) {
		t.Errorf("the page says %q", b.text("main"))
	}
	b.examine("ask-fresh")
	b.axeInEachLook("ask on a fresh machine")

	enter := func(key string, keep bool) {
		t.Helper()
		b.goTo(s.url + "/ask")
		b.run(`document.querySelector('.connect').open = true; document.querySelector('#key').value = ` + quote(key))
		if keep {
			b.click(".key-form [name=keep]")
		}
		b.click(".key-form button")
	}
	enter("sk-wrong-key-of-nobody", true)
	b.wait(`document.querySelector('main')?.innerText.includes('The key was not taken')`)
	if got := b.text("main"); strings.Contains(got, "sk-wrong") {
		t.Errorf("the refusal shows the key: %q", got)
	}
	b.shoot("ask-key-refused")
	enter(providertest.OpenAIKey, false)
	b.wait(`document.querySelector('.key-list')?.textContent.includes('until the service ends')`)
	b.wait(`[...document.querySelectorAll('#models option')].map((o) => o.value).join() === 'gpt-test'`)
	s.stop()
	s.restart()
	b.goTo(s.url + "/ask")
	b.wait(`document.querySelector('section.connect')`) // it was forgotten
	enter(providertest.OpenAIKey, true)
	b.wait(`document.querySelector('.key-list')?.textContent.includes('kept encrypted')`)
	if _, _, page := s.fetch("/ask"); strings.Contains(page, providertest.OpenAIKey) {
		t.Error("the page has the key")
	}
	s.stop()
	holds := ""
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(providertest.OpenAIKey)) {
			holds = path
		}
		return err
	})
	if err != nil || holds != "" {
		t.Errorf("on the disk the key is in %q, %v", holds, err)
	}
	s.restart()
	b.goTo(s.url + "/ask")
	b.wait(`document.querySelector('.key-list')?.textContent.includes('kept encrypted')`)
	b.run(`document.querySelector('.connect').open = true`)
	b.click(".key-list button")
	b.wait(`document.querySelector('section.connect') && !document.querySelector('.key-list li')`)

	// A server is connected by its address alone.
	connect := func(address string) {
		t.Helper()
		b.run(`document.querySelector('#server-url').value = ` + quote(address))
		b.click(".url-form button")
	}
	connect("http://127.0.0.1:1/v1")
	b.wait(`document.querySelector('main')?.innerText.includes('The server is not connected')`)
	b.goTo(s.url + "/ask")
	connect(model.URL + "/v1")
	b.wait(`document.querySelector('#model')?.value === ` + quote(providertest.LocalModel))
	model.Rescript(providertest.Turn{Text: "So $x^2$ holds."})
	b.prompt("What holds?")
	b.over(1)
	b.wait(`document.querySelector('.said-text .math math')`)
	b.goTo(s.url + "/ask")
	b.run(`document.querySelector('.connect').open = true`)
	b.click(".key-list button")
	b.wait(`document.querySelector('section.connect')`)

	title, at := usualPlace(t, model.URL)
	b.goTo(s.url + "/ask")
	b.wait(`document.querySelector('#provider').selectedOptions[0]?.text === ` + quote(title+" on this machine"))
	b.wait(`document.querySelector('#model').value === ` + quote(providertest.LocalModel))
	model.Rescript(providertest.Turn{Steps: []providertest.Step{{Code: "print(6 * 7)"}}, Text: "It is 42, or $42^1$."})
	b.prompt("What is six times seven?")
	b.over(1)
	if got := b.text("#turn-1"); !strings.Contains(got, "It is 42") {
		t.Errorf("at %s the answer is %q", at, got)
	}
	b.wait(`document.querySelector('.said-text .math math')`)
	b.run(`navigator.clipboard.writeText = async (text) => { window.copied = text }; document.querySelector('.step .copy').click()`)
	b.wait(`window.copied?.trim() === 'print(6 * 7)'`)
	b.click("[data-again=edit]")
	b.wait(`document.querySelector('#prompt').value === 'What is six times seven?' && document.activeElement.id === 'prompt'`)
	b.click("[data-again=retry]")
	b.over(2)
	if got := b.text(".past-asks [aria-current]"); !strings.HasPrefix(got, "What is six") {
		t.Errorf("beside the conversation stands %q", got)
	}
	b.examine("ask-local")
	b.axeInEachLook("a conversation with its list")
	b.seen(wide)
	b.shoot("ask-local")
}

// TestAskLooksOnlyWhenAsked: nothing on this machine is connected to before Ask is opened.
func TestAskLooksOnlyWhenAsked(t *testing.T) {
	asked := make(chan string, 10)
	watcher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(watcher.Close)
	usualPlace(t, watcher.URL)
	s := serve(t)
	for _, path := range []string{"/", "/runs", "/notebooks", "/status", "/tools"} {
		s.fetch(path)
	}
	if len(asked) > 0 {
		t.Errorf("before Ask was opened %s was asked for", <-asked)
	}
	s.fetch("/ask")
	if got := <-asked; got != "/v1/models" {
		t.Errorf("Ask looks at %s", got)
	}
}
