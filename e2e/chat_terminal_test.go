package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// prompts are what a model was asked, oldest first.
type prompts struct {
	mu   sync.Mutex
	list []string
}

func (p *prompts) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// listenIn puts a proxy before OpenAI's test server that notes the prompts.
func listenIn(t *testing.T, access *modelAccess) *prompts {
	t.Helper()
	const variable = "OPENAI_BASE_URL="
	at := slices.IndexFunc(access.env, func(v string) bool { return strings.HasPrefix(v, variable) })
	there, err := url.Parse(strings.TrimSuffix(strings.TrimPrefix(access.env[at], variable), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	heard, proxy := &prompts{}, httputil.NewSingleHostReverseProxy(there)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the server finds out what is missing
		r.Body = io.NopCloser(bytes.NewReader(body))
		var asked struct {
			Input []struct{ Content json.RawMessage }
		}
		if strings.HasSuffix(r.URL.Path, "/responses") && json.Unmarshal(body, &asked) == nil && len(asked.Input) > 0 {
			var prompt string // it stays empty where there is no text
			_ = json.Unmarshal(asked.Input[len(asked.Input)-1].Content, &prompt)
			heard.mu.Lock()
			heard.list = append(heard.list, prompt)
			heard.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	access.env[at] = variable + server.URL + "/v1"
	return heard
}

// lineMode reports whether the terminal gives whole lines, shows what is typed
// and makes a signal of Ctrl-C.
func (term *terminal) lineMode() bool {
	term.t.Helper()
	mode, err := unix.IoctlGetTermios(int(term.keys.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	const all = unix.ICANON | unix.ECHO | unix.ISIG
	return mode.Lflag&all == all
}

// turns waits until a number of prompts has been answered and the next one can
// be typed.
func (term *terminal) turns(n int) {
	term.t.Helper()
	eventually(term.t, waitTime, "a prompt after the turn", func() bool {
		return strings.Count(term.screen.String(), "> \x1b[?2004h") > n &&
			strings.Count(term.screen.String(), "made.txt\r\n") >= n && !term.lineMode()
	})
}

// A prompt is edited with the keys of a shell, and the model gets what the person
// sees. Between prompts the terminal is as it was.
func TestChatLineEditing(t *testing.T) {
	t.Parallel()
	who, access := asks(), accesses()[provider.OpenAI](t)
	heard := listenIn(t, &access)
	lines := []struct{ keys, want string }{
		{"wrld\x1b[D\x1b[D\x1b[Do\x1b[Hhello \x1b[F!\r", "hello world!"},
		{"ab\x01x\x05y\r", "xaby"},
		{"one two\x17three\x15four\r", "four"},
		{"gr\u00fc\u00dfe \u65e5\u672c\x7f\r", "gr\u00fc\u00dfe \u65e5"},
		{"\x1b[A\x1b[A!\r", "four!"},
		{"not this\x03this\r", "this"},
		{"Explain:\x1b[200~\nif a:\n\tb()\n\x1b[201~\r", "Explain:\nif a:\n\tb()"},
	}
	term := onTerminal(t, who.command(t, askEnv(t, who, access), "chat", "--yes", "-o", folder(t, who.credential)))
	var want []string
	for i, line := range lines {
		term.turns(i)
		access.server.Rescript(makesOne())
		term.press(line.keys)
		want = append(want, line.want)
	}
	term.turns(len(lines))
	term.press("\x04")
	code, screen := term.end()
	if got := heard.all(); code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, the model was asked\n%q, want\n%q\n%s", code, got, want, screen)
	}
	if !term.lineMode() || strings.LastIndex(screen, "\x1b[?2004l") < strings.LastIndex(screen, "\x1b[?2004h") {
		t.Errorf("the terminal is left as it was for a prompt: %q", screen)
	}
}

// During a turn the terminal is as it was, so that Ctrl-C is a signal; however a
// prompt ends, the terminal is given back.
func TestChatRestoresTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*terminal) error
		code int
	}{
		{"ctrl-d", func(term *terminal) error { _, err := term.keys.WriteString("\x04"); return err }, 0},
		{"ctrl-c", func(term *terminal) error { _, err := term.keys.WriteString("\x03"); return err }, 1},
		{"terminated", func(term *terminal) error { return term.cmd.Process.Signal(unix.SIGTERM) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			who, access := asks(), accesses()[provider.OpenAI](t)
			access.server.Rescript(makesOne())
			access.server.Inject(providertest.Fault{On: providertest.OpRun, Kind: providertest.FaultStall})
			term := onTerminal(t, who.command(t, askEnv(t, who, access), "chat", "--yes"))
			term.turns(0)
			term.press("hello\r")
			eventually(t, waitTime, "the call that stalls", func() bool { return len(access.server.Pending()) == 0 })
			if !term.lineMode() {
				t.Error("during the turn the terminal is as it was for the prompt")
			}
			term.press("\x03")
			term.until("ends it\r\n> \x1b[?2004h")
			if term.lineMode() {
				t.Error("at the prompt the terminal gives whole lines")
			}
			if err := c.end(term); err != nil {
				t.Fatal(err)
			}
			code, screen := term.end()
			if code != c.code || !term.lineMode() || !strings.Contains(screen, "\x1b[?2004l") {
				t.Errorf("exit code %d, want %d; in line mode: %v\n%s", code, c.code, term.lineMode(), screen)
			}
		})
	}
}

// A terminal that obeys no escape sequences gets none with the prompt.
func TestChatOnDumbTerminal(t *testing.T) {
	t.Parallel()
	who, access := asks(), accesses()[provider.OpenAI](t)
	heard := listenIn(t, &access)
	access.server.Rescript(makesOne())
	term := onTerminal(t, who.command(t, append(askEnv(t, who, access), "TERM=dumb"), "chat", "--yes"))
	term.until("> ")
	term.press("hello\n")
	eventually(t, waitTime, "the prompt", func() bool { return len(heard.all()) > 0 })
	term.press("/exit\n")
	code, screen := term.end()
	if got := heard.all(); code != 0 || !slices.Equal(got, []string{"hello"}) || strings.Contains(screen, "\x1b[?2004") {
		t.Errorf("exit code %d, the model was asked %q: %q", code, got, screen)
	}
}
