package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/anthropic"
	"github.com/airlock-run/airlock/provider/gemini"
	"github.com/airlock-run/airlock/provider/local"
	"github.com/airlock-run/airlock/provider/openai"
	"github.com/airlock-run/airlock/provider/xai"
)

// modelHost holds conversations of the command line, or of a service.
type modelHost struct {
	*conversation.Host
	state *localState
}

// openHost opens the store of conversations.
func (a *app) openHost(ctx context.Context) (*modelHost, error) {
	d, err := a.openState(ctx)
	if err != nil {
		return nil, err
	}
	h, err := a.newHost(d, a.connectModel)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return &modelHost{h, d}, nil
}

func (a *app) newHost(
	d *localState, connect func(context.Context, string, conversation.Settings) (*conversation.Backend, error),
) (*conversation.Host, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	h, err := conversation.NewHost(conversation.HostOptions{
		Archive: d.db.Conversations(), Ledger: d.db.Ledger(), Uploads: d.db.Uploads(), Counts: d.db.Uploads(),
		Replies:    d.Replies,
		Quarantine: filepath.Join(dir, "outputs"), Connect: connect, Log: a.log, Redact: a.redact,
	})
	if err != nil {
		return nil, dataError(dir, err)
	}
	return h, nil
}

func (h *modelHost) close() error { return errors.Join(h.Close(), h.state.close()) }

// withHost calls do with the host, and closes it.
func (a *app) withHost(ctx context.Context, do func(*modelHost) error) error {
	h, err := a.openHost(ctx)
	return using(h, err, do)
}

// providerNames are the names of all providers, in the order of the manual.
var providerNames = [...]string{provider.OpenAI, provider.Anthropic, provider.Gemini, provider.XAI, provider.Local}

// providerTitles are the providers' names for users.
var providerTitles = map[string]string{provider.OpenAI: "OpenAI", provider.Anthropic: "Anthropic",
	provider.Gemini: "Gemini", provider.XAI: "xAI", provider.Local: "this machine"}

// providerURLs are the default addresses of remote providers.
var providerURLs = map[string]string{provider.OpenAI: openai.DefaultURL, provider.Anthropic: anthropic.DefaultURL,
	provider.Gemini: gemini.DefaultURL, provider.XAI: xai.DefaultURL}

// chosenProvider returns the provider that the settings name.
func (a *app) chosenProvider() (string, error) {
	if a.cfg.Provider == "" {
		return "", fail(
			exitUsage, "name one with --provider or AIRLOCK_PROVIDER: openai, anthropic, gemini, xai, or local for this "+
				"machine's sandbox", "no provider is chosen")
	}
	return a.cfg.Provider, nil
}

// connectModel connects to the provider of a conversation of the command line.
func (a *app) connectModel(ctx context.Context, _ string, s conversation.Settings) (*conversation.Backend, error) {
	if s.Provider == provider.Local {
		return a.connectLocal(ctx, cmp.Or(a.cfg.ModelURL, s.ModelURL))
	}
	return a.connectRemote(ctx, s)
}

func (a *app) connectRemote(ctx context.Context, s conversation.Settings) (*conversation.Backend, error) {
	p, address, err := a.remoteProvider(ctx, s.Provider)
	if err != nil {
		return nil, err
	}
	destination := fmt.Sprintf("%s (%s)", providerTitles[s.Provider], address)
	return &conversation.Backend{Provider: p, Destination: destination}, nil
}

// remoteProvider returns a client of a remote provider, and its host.
func (a *app) remoteProvider(ctx context.Context, name string) (p provider.Provider, host string, err error) {
	c, account := a.cfg, a.account(name)
	key := account.Key.Reveal()
	switch name {
	case provider.OpenAI:
		p, err = asProvider(openai.New(openai.Options{Key: key, URL: account.URL,
			Organization: c.OpenAIOrganization, Project: c.OpenAIProject, HTTP: a.web}))
	case provider.Anthropic:
		p, err = asProvider(anthropic.New(anthropic.Options{Key: key, URL: account.URL, HTTP: a.web}))
	case provider.Gemini:
		p, err = asProvider(gemini.New(ctx, gemini.Options{Key: key, URL: account.URL, HTTP: a.web}))
	case provider.XAI:
		p, err = asProvider(xai.New(xai.Options{Key: key, URL: account.URL, HTTP: a.web}))
	default:
		return nil, "", fail(exitUsage, "there are openai, anthropic, gemini, xai and local", "there is no provider %q", name)
	}
	if u, parsed := url.Parse(cmp.Or(account.URL, providerURLs[name])); parsed == nil {
		host = u.Host
	}
	return p, host, err
}

// configured returns the account at a remote provider that the settings describe.
func (a *app) configured(name string) config.Account {
	c := a.cfg
	return map[string]config.Account{provider.OpenAI: c.OpenAI, provider.Anthropic: c.Anthropic,
		provider.Gemini: c.Gemini, provider.XAI: c.XAI}[name]
}

// account returns the configured account, with the key entered in the page if the
// settings have none.
func (a *app) account(name string) config.Account {
	if name == provider.OpenAI && a.cfg.Origin("model_url") == "--model-url" {
		// A server that speaks this API, such as this one's /openai/v1.
		return config.Account{URL: a.cfg.ModelURL, Key: cmp.Or(a.cfg.ModelKey, "none")}
	}
	account := a.configured(name)
	key, _ := a.modelKeys.key(name)
	account.Key = cmp.Or(account.Key, config.Secret(key))
	return account
}

// asProvider returns a nil Provider for a nil client.
func asProvider[C provider.Provider](client C, err error) (provider.Provider, error) {
	if err != nil {
		return nil, err
	}
	return client, nil
}

// connectLocal puts a model at any endpoint together with the sandbox of the service at
// --server, of the one that holds the data directory, or of this process.
func (a *app) connectLocal(ctx context.Context, modelURL string) (*conversation.Backend, error) {
	if modelURL == "" {
		return nil, errNoModel()
	}
	conn, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	b, err := a.localBackend(serviceRunner{conn.client}, modelURL, conn.close)
	if err != nil {
		return nil, err
	}
	b.Ephemeral = conn.service != nil
	if u, parsed := url.Parse(a.cfg.Server); parsed == nil && u.Host != "" {
		b.Destination = "the service at " + u.Host
	}
	return b, nil
}

func errNoModel() error {
	return fail(exitUsage, "give the model's endpoint with --model-url, such as http://localhost:11434/v1 for Ollama",
		"the provider local needs a model")
}

// localBackend puts a model together with what runs its code. end ends the runner, also after an error.
func (a *app) localBackend(runner local.Runner, modelURL string, end func()) (*conversation.Backend, error) {
	web := a.webClient(modelURL)
	key := a.cfg.ModelKey.Reveal()
	if a.cfg.ModelURL != "" && modelURL != a.cfg.ModelURL {
		key = "" // it belongs to another endpoint
	}
	p, err := asProvider(local.New(local.Options{URL: modelURL, Key: key, Runner: runner, HTTP: web}))
	if err != nil {
		end()
		return nil, err
	}
	b := &conversation.Backend{Provider: p, Close: func() error { web.CloseIdleConnections(); end(); return nil }}
	if host := modelHostname(modelURL); !config.IsLoopback(host) {
		b.Shown = "the model at " + host
	}
	return b, nil
}

func modelHostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// accountsOf returns the accounts that have a key, at all remote providers or only at
// the one named.
func (a *app) accountsOf(ctx context.Context, only string) (list []provider.Provider, err error) {
	for _, name := range providerNames {
		if name == provider.Local || only != "" && name != only {
			continue
		}
		p, _, failed := a.remoteProvider(ctx, name)
		if failed != nil && only == "" {
			continue // there is no key
		}
		if failed != nil {
			return nil, failed
		}
		list = append(list, p)
	}
	return list, nil
}

// providerAddresses returns the addresses of all providers.
func (a *app) providerAddresses() []string {
	addresses := []string{a.cfg.ModelURL}
	for name, usual := range providerURLs {
		addresses = append(addresses, cmp.Or(a.configured(name).URL, usual))
	}
	return addresses
}

// webClient returns an HTTP client that connects to the given addresses and to public
// ones. With --verbose it logs each call without secrets: no header, query or body.
func (a *app) webClient(addresses ...string) *http.Client {
	c := provider.HTTPClient(provider.Timeouts{}, provider.WithTransport(operatorsPolicy(addresses...).Transport))
	if a.log.Enabled(context.Background(), slog.LevelDebug) {
		c.Transport = loggedCalls{c.Transport, a.log}
	}
	return c
}

// operatorsPolicy allows the addresses that the operator set, and public ones.
func operatorsPolicy(addresses ...string) *outbound.Policy {
	var hosts []string
	for _, address := range addresses {
		// The user of a wrong address reports it.
		if u, err := url.Parse(address); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
			hosts = append(hosts, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
		}
	}
	policy, err := outbound.New(hosts, nil)
	if err != nil { // an invalid host
		policy, _ = outbound.New(nil, nil)
	}
	return policy
}

type loggedCalls struct {
	next http.RoundTripper
	log  *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (l loggedCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := l.next.RoundTrip(r)
	said := []any{"method", r.Method, "host", r.URL.Host, "path", r.URL.Path, "sent", r.ContentLength, "took",
		time.Since(began).Round(time.Millisecond)}
	if err != nil {
		// The whole error would contain the query.
		cause := err
		if e, ok := errors.AsType[*url.Error](err); ok {
			cause = e.Err
		}
		l.log.DebugContext(r.Context(), "call failed", append(said, "err", cause)...)
		return resp, err
	}
	l.log.DebugContext(r.Context(), "call", append(said, "status", resp.StatusCode, "received", resp.ContentLength)...)
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (l loggedCalls) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// projectRoot returns the folder that a project is linked with, or "" without a project.
func (a *app) projectRoot(ctx context.Context, d *localState, project string) (string, error) {
	if project == "" {
		return "", nil
	}
	l, err := d.Store.Link(ctx, owner, project)
	if errors.Is(err, conversation.ErrNotFound) {
		return "", fail(exitApproval, "`airlock workspace link "+project+" DIR` gives it one", "the project %s has no folder",
			project)
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(l.Root); err != nil {
		return "", unreadable(l.Root, err)
	}
	return l.Root, nil
}

// startConversations gives a service its conversations with models, and deletes what
// crashed processes have left at providers.
func (a *app) startConversations(ctx context.Context, s *service, d *localState) error {
	host, err := a.newHost(d, func(ctx context.Context, owner string, settings conversation.Settings) (
		*conversation.Backend, error) {
		if settings.Provider != provider.Local {
			return a.connectRemote(ctx, settings)
		}
		address := a.cfg.ModelURL
		if usualServer(settings.ModelURL) {
			address = settings.ModelURL
		}
		if address == "" {
			return nil, errNoModel()
		}
		c, end, err := a.inProcess(s.engine, engine.Caller{Owner: engine.Owner(owner)})
		if err != nil {
			return nil, err
		}
		b, err := a.localBackend(engineRunner{serviceRunner{c}, s.engine}, address, end)
		if err == nil {
			b.Shares = true // host.Stored opens files of the same engine
		}
		return b, err
	})
	if err != nil {
		return err
	}
	host.Stored = web.Stored(s.engine)
	s.live = conversation.NewLive(host, 0)
	stop := inBackground(context.WithoutCancel(ctx), s.live.Run,
		func(ctx context.Context) { a.sweepAtStart(ctx, host) })
	s.below = append(s.below, func() error {
		stop()
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return errors.Join(s.live.Shutdown(closing), host.Close())
	})
	return nil
}

// sweepAtStart does the work of airlock files gc for the accounts that have a key.
func (a *app) sweepAtStart(ctx context.Context, host *conversation.Host) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	accounts, err := a.accountsOf(bounded, "")
	if err != nil {
		a.log.Warn("what earlier processes left at providers was not looked for", "err", err)
		return
	}
	swept, err := host.Sweep(bounded, accounts...)
	a.logSwept(swept, err)
}

// logSwept logs a clean-up.
func (a *app) logSwept(swept provider.Swept, err error) {
	if err != nil || len(swept.Deleted)+len(swept.Left) > 0 {
		a.log.Info("what earlier processes left at providers", "deleted", len(swept.Deleted), "left", len(swept.Left), "err",
			err)
	}
	for _, f := range swept.Others {
		a.log.Warn("a file at a provider may be ours: it was made while a turn of ours ran whose reply got lost, and stays",
			"provider", f.Ref.Provider, "id", f.Ref.ID, "name", f.Name)
	}
}
