package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/xai"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// modelHost holds conversations of the command line, or of a service.
type modelHost struct {
	*conversation.Host
	state *localState
}

// openHost opens the store of conversations.
func (a *Assistant) openHost(ctx context.Context) (*modelHost, error) {
	d, err := a.openState(ctx)
	if err != nil {
		return nil, err
	}
	h, err := a.newHost(d, a.connectModel)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &modelHost{h, d}, nil
}

func (a *Assistant) newHost(
	d *localState, connect func(context.Context, string, conversation.Settings) (*conversation.Backend, error),
) (*conversation.Host, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	h, err := conversation.NewHost(conversation.HostOptions{
		Archive: d.db.Conversations(), Ledger: d.db.Ledger(), Uploads: d.db.Uploads(), Counts: d.db.Uploads(),
		Replies:    d.Replies,
		Quarantine: filepath.Join(dir, "outputs"), Connect: connect, Log: a.Log, Redact: a.Redact,
	})
	if err != nil {
		return nil, command.DataError(dir, err)
	}
	return h, nil
}

func (h *modelHost) Close() error { return errors.Join(h.Host.Close(), h.state.Close()) }

// withHost calls do with the host, and closes it.
func (a *Assistant) withHost(ctx context.Context, do func(*modelHost) error) error {
	h, err := a.openHost(ctx)
	return command.Using(h, err, do)
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
func (a *Assistant) chosenProvider() (string, error) {
	if a.Config.Provider == "" {
		return "", command.Fail(
			command.ExitUsage, "name one with --provider or AIRLOCK_PROVIDER: openai, anthropic, gemini, xai, or local "+
				"for this machine's sandbox", "no provider is chosen")
	}
	return a.Config.Provider, nil
}

// connectModel connects to the provider of a conversation of the command line.
func (a *Assistant) connectModel(
	ctx context.Context, _ string, s conversation.Settings,
) (*conversation.Backend, error) {
	if s.Provider == provider.Local {
		return a.connectLocal(ctx, cmp.Or(a.Config.ModelURL, s.ModelURL))
	}
	return a.connectRemote(ctx, s)
}

func (a *Assistant) connectRemote(ctx context.Context, s conversation.Settings) (*conversation.Backend, error) {
	p, address, err := a.remoteProvider(ctx, s.Provider)
	if err != nil {
		return nil, err
	}
	destination := fmt.Sprintf("%s (%s)", providerTitles[s.Provider], address)
	return &conversation.Backend{Provider: p, Destination: destination}, nil
}

// remoteProvider returns a client of a remote provider, and its host.
func (a *Assistant) remoteProvider(ctx context.Context, name string) (p provider.Provider, host string, err error) {
	c, account := a.Config, a.account(name)
	key := account.Key.Reveal()
	switch name {
	case provider.OpenAI:
		p, err = asProvider(openai.New(openai.Options{Key: key, URL: account.URL,
			Organization: c.OpenAIOrganization, Project: c.OpenAIProject, HTTP: a.web()}))
	case provider.Anthropic:
		p, err = asProvider(anthropic.New(anthropic.Options{Key: key, URL: account.URL, HTTP: a.web()}))
	case provider.Gemini:
		p, err = asProvider(gemini.New(gemini.Options{Key: key, URL: account.URL, HTTP: a.web()}))
	case provider.XAI:
		p, err = asProvider(xai.New(xai.Options{Key: key, URL: account.URL, HTTP: a.web()}))
	default:
		return nil, "", command.Fail(command.ExitUsage, "there are openai, anthropic, gemini, xai and local",
			"there is no provider %q", name)
	}
	if u, parsed := url.Parse(cmp.Or(account.URL, providerURLs[name])); parsed == nil {
		host = u.Host
	}
	return p, host, err
}

// configured returns the account at a remote provider that the settings describe.
func (a *Assistant) configured(name string) config.Account {
	c := a.Config
	return map[string]config.Account{provider.OpenAI: c.OpenAI, provider.Anthropic: c.Anthropic,
		provider.Gemini: c.Gemini, provider.XAI: c.XAI}[name]
}

// account returns the configured account, with the key entered in the page if the
// settings have none.
func (a *Assistant) account(name string) config.Account {
	if name == provider.OpenAI && a.Config.Origin("model_url") == "--model-url" {
		// A server that speaks this API, such as this one's /openai/v1.
		return config.Account{URL: a.Config.ModelURL, Key: cmp.Or(a.Config.ModelKey, "none")}
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
func (a *Assistant) connectLocal(ctx context.Context, modelURL string) (*conversation.Backend, error) {
	if modelURL == "" {
		return nil, errNoModel()
	}
	conn, err := a.service.Connect(ctx)
	if err != nil {
		return nil, err
	}
	b, err := a.localBackend(local.NewServiceRunner(conn.Client), modelURL, conn.Close)
	if err != nil {
		return nil, err
	}
	b.Ephemeral = conn.Temporary
	if u, parsed := url.Parse(a.Config.Server); parsed == nil && u.Host != "" {
		b.Destination = "the service at " + u.Host
	}
	return b, nil
}

func errNoModel() error {
	return command.Fail(command.ExitUsage,
		"give the model's endpoint with --model-url, such as http://localhost:11434/v1 for Ollama",
		"the provider local needs a model")
}

// localBackend puts a model together with what runs its code. end ends the runner, also after an error.
func (a *Assistant) localBackend(runner local.Runner, modelURL string, end func()) (*conversation.Backend, error) {
	web := a.WebClient(modelURL)
	address, key := a.modelAddress()
	if key == "" {
		key = a.Config.ModelKey.Reveal()
	}
	if address != "" && modelURL != address {
		key = "" // it belongs to another endpoint
	}
	p, err := asProvider(local.New(local.Options{URL: modelURL, Key: key, Runner: runner, HTTP: web}))
	if err != nil {
		end()
		return nil, err
	}
	b := &conversation.Backend{Provider: p, Close: func() error { web.CloseIdleConnections(); end(); return nil }}
	if host := command.ModelHostname(modelURL); !config.IsLoopback(host) {
		b.Shown = "the model at " + host
	}
	return b, nil
}

// accountsOf returns the accounts that have a key, at all remote providers or only at
// the one named.
func (a *Assistant) accountsOf(ctx context.Context, only string) (list []provider.Provider, err error) {
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
func (a *Assistant) providerAddresses() []string {
	addresses := []string{a.Config.ModelURL}
	for name, usual := range providerURLs {
		addresses = append(addresses, cmp.Or(a.configured(name).URL, usual))
	}
	return addresses
}

// projectRoot returns the folder that a project is linked with, or "" without a project.
func (a *Assistant) projectRoot(ctx context.Context, d *localState, project string) (string, error) {
	if project == "" {
		return "", nil
	}
	l, err := d.Store.Link(ctx, owner, project)
	if errors.Is(err, conversation.ErrNotFound) {
		return "", command.Fail(command.ExitApproval, "`airlock workspace link "+project+" DIR` gives it one",
			"the project %s has no folder",
			project)
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(l.Root); err != nil {
		return "", command.Unreadable(l.Root, err)
	}
	return l.Root, nil
}

// sweepAtStart does the work of airlock provider gc for the accounts that have a key.
func (a *Assistant) sweepAtStart(ctx context.Context, host *conversation.Host) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	accounts, err := a.accountsOf(bounded, "")
	if err != nil {
		a.Log.Warn("what earlier processes left at providers was not looked for", "err", err)
		return
	}
	swept, err := host.Sweep(bounded, accounts...)
	a.logSwept(swept, err)
}

// logSwept logs a clean-up.
func (a *Assistant) logSwept(swept provider.Swept, err error) {
	if err != nil || len(swept.Deleted)+len(swept.Left) > 0 {
		a.Log.Info("what earlier processes left at providers", "deleted", len(swept.Deleted), "left", len(swept.Left), "err",
			err)
	}
	for _, f := range swept.Others {
		a.Log.Warn("a file at a provider may be Airlock's: it was made while a turn ran whose reply was lost, and stays",
			"provider", f.Ref.Provider, "id", f.Ref.ID, "name", f.Name)
	}
}
