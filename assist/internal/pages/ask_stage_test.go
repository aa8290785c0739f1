package pages

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	localprovider "github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/web"
)

// scripted is a provider over its test server.
type scripted struct {
	provider.Provider
	model  string
	server interface {
		providertest.Server
		Rescript(turns ...providertest.Turn)
	}
	clock *providertest.Clock
}

func scriptedProviders() map[string]func(testing.TB) scripted {
	must := func(tb testing.TB, p provider.Provider, err error) provider.Provider {
		if err != nil {
			tb.Fatal(err)
		}
		return p
	}
	return map[string]func(testing.TB) scripted{
		provider.OpenAI: func(tb testing.TB) scripted {
			s := providertest.NewOpenAI(tb)
			c, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: s.URL + "/v1", Clock: s.Clock})
			return scripted{must(tb, c, err), "gpt-5", s, s.Clock}
		},
		provider.Anthropic: func(tb testing.TB) scripted {
			s := providertest.NewAnthropicServer(tb)
			c, err := anthropic.New(anthropic.Options{Key: "test", URL: s.URL, Clock: s.Clock})
			return scripted{must(tb, c, err), providertest.AnthropicModel, s, s.Clock}
		},
		provider.Gemini: func(tb testing.TB) scripted {
			s := providertest.NewGeminiServer(tb)
			c, err := gemini.New(gemini.Options{Key: "test", URL: s.URL, Clock: s.Clock})
			return scripted{must(tb, c, err), providertest.GeminiModel, s, s.Clock}
		},
		provider.XAI: func(tb testing.TB) scripted {
			s := providertest.NewXAIServer(tb)
			c, err := xai.New(xai.Options{Key: "test", URL: s.URL + "/v1", Clock: s.Clock})
			return scripted{must(tb, c, err), providertest.XAIModel, s, s.Clock}
		},
		provider.Local: func(tb testing.TB) scripted {
			s := providertest.NewLocalServer(tb)
			c, err := localprovider.New(localprovider.Options{URL: s.URL + "/v1", Runner: s.Runner, Clock: s.Clock})
			return scripted{must(tb, c, err), providertest.LocalModel, s, s.Clock}
		},
	}
}

// makes returns a turn whose code writes files. The provider returns them in its own way.
func (s scripted) makes(text string, step providertest.Step, files ...providertest.Made) providertest.Turn {
	for _, f := range files {
		if s.Caps().Outputs == provider.OutputStdout {
			step.Stdout += provider.Frame(f.Name, f.Data)
		} else {
			step.Files = append(step.Files, f)
		}
	}
	return providertest.Turn{Steps: []providertest.Step{step}, Text: text}
}

// asker is a visitor in a conversation with a scripted model.
type asker struct {
	*pagetest.Visitor
	model   scripted
	live    *conversation.Live
	host    *conversation.Host
	project string
}

func askSite(t *testing.T, open bool, model scripted) *asker {
	t.Helper()
	data := t.TempDir()
	db, err := state.Open(t.Context(), data, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	desk := changes.NewReplies(changes.Options{Store: db.Projects(), Journal: db.Journal(),
		Outbox: assignment.NewOutbox(db.Outbox()), Protected: []string{data}})
	host, err := conversation.NewHost(conversation.HostOptions{
		Archive: db.Conversations(), Ledger: db.Ledger(), Uploads: db.Uploads(), Counts: db.Uploads(), Replies: desk,
		Quarantine: filepath.Join(data, "outputs"), Clock: model.clock,
		Connect: func(context.Context, string, conversation.Settings) (*conversation.Backend, error) {
			return &conversation.Backend{Provider: model, Destination: "the test server"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	live := conversation.NewLive(host, time.Hour)
	t.Cleanup(func() {
		if err := live.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if left := model.server.Objects(); len(left) > 0 {
			t.Errorf("left at the provider: %v", left)
		}
		_ = host.Close()
	})
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{nil, model, live, host, root}
	links := []changes.Link{{Owner: "local", Project: "atlas", Root: root}}
	stored := func(ctx context.Context, owner, id string) (conversation.File, error) {
		return openStored(ctx, a.Engine, owner, id)
	}
	host.Stored = stored
	v := pagetest.Visit(t, open, pagetest.Prints("x"), func(o page.Options, e *engine.Service) (*page.Site, error) {
		ask := &Ask{Live: live, Stored: stored,
			Client: func(owner string) *client.Client {
				api := native.New(e, native.Options{Caller: func(*http.Request) engine.Caller {
					return engine.Caller{Owner: engine.Owner(owner)}
				}})
				return client.WithHandler(http.StripPrefix("/api/v1", api), client.Options{})
			},
			Providers: func(context.Context) []Model {
				return []Model{{Provider: model.Name(), Title: "Scripted", Destination: "the test server", Caps: model.Caps()},
					{Provider: "none", Title: "Keyless", Missing: "no key", Cure: "Set KEYLESS_API_KEY."}}
			},
			Projects: func(context.Context, string) ([]changes.Link, error) { return links, nil },
		}
		return web.New(web.Options{Site: o, Engine: e, Languages: noLanguages, Parts: []page.Part{Part(ask, nil)}})
	})
	a.Visitor = v
	return a
}

// openStored opens an uploaded file, as the service does for a conversation.
func openStored(ctx context.Context, e *engine.Service, owner, id string) (conversation.File, error) {
	file, err := engine.ParseID(id)
	if err != nil {
		return conversation.File{}, engine.ErrNotFound
	}
	caller := engine.Caller{Owner: engine.Owner(owner)}
	f, err := e.GetFile(ctx, caller, file)
	return conversation.File{Stored: id, SHA256: f.SHA256.String(), Source: provider.Source{
		Path: f.Name, Name: f.Name, MIME: f.MIME, Size: f.Size,
		Open: func() (io.ReadSeekCloser, error) {
			_, content, err := e.OpenFile(context.WithoutCancel(ctx), caller, file)
			return content, err
		}}}, err
}

// asks sends the form of a turn, with the token first.
func (a *asker) asks(path string, fields ...[2]string) pagetest.Answer {
	a.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, f := range append([][2]string{{"token", a.Token()}}, fields...) {
		var err error
		if name, ok := strings.CutPrefix(f[0], "upload:"); ok {
			w, failed := form.CreateFormFile("upload", name)
			if err = failed; err == nil {
				_, err = w.Write([]byte(f[1]))
			}
		} else {
			err = form.WriteField(f[0], f[1])
		}
		if err != nil {
			a.T.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		a.T.Fatal(err)
	}
	r := a.Request("POST", path, &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	return a.Send(r)
}

// begins starts a conversation and returns its path.
func (a *asker) begins(fields ...[2]string) string {
	a.T.Helper()
	got := a.asks("/ask", append([][2]string{{"provider", a.model.Name()}, {"model", a.model.model}}, fields...)...)
	if got.Status != http.StatusSeeOther {
		a.T.Fatalf("asking is answered %d: %s", got.Status, got.Body)
	}
	return strings.TrimPrefix(got.Header.Get("Location"), "/ui")
}

// sse is one event as a browser gets it.
type sse struct{ id, event, data string }

// follow reads events until one of a kind, and returns all of them.
func (a *asker) follow(path, last, until string) (list []sse) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(a.T.Context(), 30*time.Second)
	defer cancel()
	r := a.Request("GET", path+"/events", nil).WithContext(ctx)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	got, err := a.Browser.Do(r)
	if err != nil {
		a.T.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		a.T.Fatalf("events are answered %d", got.StatusCode)
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 8<<20)
	var e sse
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event == "" {
				continue
			}
			list = append(list, e)
			if e.event == until {
				return list
			}
			e = sse{}
		}
	}
	a.T.Fatalf("the events end without %q: %v", until, kinds(list))
	return nil
}

func kinds(list []sse) string {
	var all []string
	for _, e := range list {
		all = append(all, e.event)
	}
	return strings.Join(all, " ")
}

// does posts a plain form of a conversation.
func (a *asker) does(path string, fields url.Values) pagetest.Answer {
	a.T.Helper()
	fields.Set("token", a.Token())
	return a.Post(path, fields)
}

func noLanguages(context.Context) []web.Language { return nil }
