package cli

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/local"
	"github.com/airlock-run/airlock/pytool"
)

// page mounts the page, which asks for a key with its own form.
func (a *app) page(s *service, api http.Handler) (httpd.Mount, error) {
	tool, err := a.pageTool(s.engine)
	if err != nil {
		return httpd.Mount{}, err
	}
	site, err := web.New(web.Options{
		Engine:       s.engine,
		Caller:       func(r *http.Request) (engine.Caller, bool) { return httpd.CallerFrom(r.Context()) },
		Authenticate: s.engine.Authenticate,
		Review:       s.review,
		OneMachine:   a.oneMachine(s),
		Self:         s.engine.Self,
		Nodes:        s.nodes,
		Drain:        s.drain,
		Languages:    languages(),
		Network:      a.cfg.NetworkAllow,
		Prefix:       "/ui",
		MaxUpload:    a.cfg.MaxUpload,
		Disk:         a.disk,
		Live:         s.interpreters.Counts,
		API:          api,
		Tool:         tool,
		Ask:          a.pageAsk(s),
		Log:          a.log,
	})
	if err != nil {
		return httpd.Mount{}, err
	}
	s.below = append(s.below, site.Close)
	return httpd.Mount{
		Prefix: "/ui", Handler: site, Public: true, SignedIn: site.SignedIn, Refuse: site.Refuse, Holder: web.Holder,
		AnyOrigin: web.AnyOrigin(),
	}, nil
}

// languages returns a function that lists the languages and whether they are installed.
func languages() func(context.Context) []web.Language {
	versions := &language.Versions{}
	return func(ctx context.Context) []web.Language {
		installed := versions.Get(ctx)
		var list []web.Language
		for _, l := range language.All() {
			_, ok := installed[l.Name]
			list = append(list, web.Language{Name: l.Name, Title: l.Title, Installed: ok})
		}
		return list
	}
}

// disk returns the free space on the disk of the data directory.
func (a *app) disk() engine.Room {
	room, err := disk.Look(a.cfg.Data, a.cfg.MinFree)
	if err != nil {
		return engine.Room{}
	}
	return room
}

// pageTool is the run_python tool as the page shows and switches it.
type pageTool struct {
	url     string          // of the service that runs the tool's code; empty: this one
	file    string          // that stores the switch
	service *pytool.Service // nil: this one
	tool    *pytool.Tool

	mu  sync.Mutex
	off bool
}

var _ web.Tool = (*pageTool)(nil)

const switchesFile = "switches.json"

// switches is the content of that file.
type switches struct {
	RunPython bool `json:"run_python"`
}

func (a *app) pageTool(own *engine.Service) (*pageTool, error) {
	p := &pageTool{url: a.cfg.CodeInterpreter, file: filepath.Join(a.cfg.Data, switchesFile)}
	text, err := os.ReadFile(p.file)
	if err == nil {
		var s switches
		if err = json.Unmarshal(text, &s); err == nil {
			p.off = !s.RunPython
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitUnavailable, "move it away: the tools are then on", "%s cannot be read: %w", p.file, err)
	}
	options := pytool.Options{Config: pytool.Config{BaseURL: p.url}, Store: noFiles{}, Enabled: p.on, Log: a.log}
	if p.url == "" {
		options.Runner = engineRunner{engine: own} // only Health is called
	} else {
		web := outbound.Guard(http.Client{
			Transport: operatorsPolicy(p.url).Transport(http.DefaultTransport.(*http.Transport))})
		if p.service, err = pytool.NewService(p.url, pytool.WithHTTPClient(web)); err != nil {
			return nil, fail(exitUsage, "as http://127.0.0.1:8000/onyx", "%w", err)
		}
		options.Runner = p.service
	}
	if p.tool, err = pytool.New(options); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pageTool) on(context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.off
}

// State implements web.Tool.
func (p *pageTool) State(ctx context.Context) web.ToolState {
	at := p.tool.Available(ctx)
	s := web.ToolState{
		Connection: web.Connected, On: p.on(ctx), Place: p.url, Version: at.Version, Reason: at.Reason, Cure: at.Cure,
	}
	if p.service == nil {
		s.Place, s.Version = "this one", ""
	}
	switch {
	case at.Available:
	case !s.On:
		s.Connection, s.Cure = web.NotEnabled, "Switch it on here."
	case at.Connected:
		s.Connection = web.Unhealthy
	default:
		s.Connection = web.ConnectionLost
	}
	return s
}

// Switch implements web.Tool.
func (p *pageTool) Switch(_ context.Context, on bool) error {
	text, err := json.Marshal(switches{RunPython: on})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := replaceFile(p.file, text, 0o600); err != nil {
		return err
	}
	p.off = !on
	return nil
}

// noFiles is the store of a tool that runs nothing.
type noFiles struct{ pytool.FileStore }

// pageAsk returns what the page needs to ask models, or nil if this service holds no
// conversations.
func (a *app) pageAsk(s *service) *web.Ask {
	if s.live == nil {
		return nil
	}
	keys := a.openPageKeys()
	return &web.Ask{
		Models: a.modelNames, Keys: keys,
		Live: s.live, Providers: a.askedModels,
		Projects: func(ctx context.Context, owner string) ([]changes.Link, error) {
			return a.pageProjects(ctx, s.work.Replies, owner)
		},
		Settings: conversation.Settings{
			Provider: a.cfg.Provider, Model: a.cfg.Model,
			Hints: provider.HintMode(a.cfg.Hints), MaxDownload: a.cfg.MaxDownload,
		},
	}
}

// pageProjects returns the projects whose folders the settings allow.
func (a *app) pageProjects(ctx context.Context, d *changes.Replies, owner string) ([]changes.Link, error) {
	links, err := d.Store.Links(ctx, owner)
	return slices.DeleteFunc(links, func(l changes.Link) bool {
		return !changes.Within(a.cfg.Workspaces, l.Root)
	}), err
}

// askedModels describes all providers for the page.
func (a *app) askedModels(ctx context.Context) []web.Model {
	var list []web.Model
	for _, name := range providerNames {
		m := web.Model{Provider: name, Title: providerTitles[name]}
		if name == provider.Local {
			m.Title = "This machine"
			m.Caps = (&local.Client{}).Caps()
			if host := modelHostname(a.cfg.ModelURL); host == "" {
				m.Missing, m.Cure = "no model", "Set AIRLOCK_MODEL_URL (or model_url in airlock.yaml) to an endpoint that speaks "+
					"OpenAI's API, such as http://localhost:11434/v1 for Ollama, and start the service again."
			}
			list = append(list, m)
			for _, s := range a.detectServers(ctx) {
				list = append(list, web.Model{Provider: name, Title: s.Title + " on this machine", Caps: m.Caps, URL: s.URL,
					Models: s.Models})
			}
			continue
		}
		m.KeyFrom, m.Entered = a.keyFrom(name)
		p, host, err := a.remoteProvider(ctx, name)
		if err != nil {
			variable := strings.ToUpper(name) + "_API_KEY"
			m.Missing = "no key"
			m.Cure = "Enter one above, or set " + variable + " or " + variable + "_FILE and start the service again."
			if !errors.Is(err, provider.Auth) {
				m.Missing, m.Cure = "not set up", err.Error()
			}
			list = append(list, m)
			continue
		}
		m.Caps, m.Destination = p.Caps(), m.Title+" ("+host+")"
		list = append(list, m)
	}
	return list
}

// pageKeys implements web.ModelKeys.
type pageKeys struct{ *app }

// openPageKeys reads the keys that users have entered in the page.
func (a *app) openPageKeys() web.ModelKeys {
	dir, err := a.stateDir()
	if err == nil {
		a.modelKeys, err = openModelKeys(dir)
	}
	if err != nil {
		a.log.Warn("keys that were entered in the page are left out", "err", err)
	}
	if a.modelKeys == nil {
		return nil
	}
	for _, key := range a.modelKeys.entered {
		a.redact.Learn(key)
	}
	return pageKeys{a}
}

// Enter implements web.ModelKeys.
func (p pageKeys) Enter(ctx context.Context, name, key string, keep bool) error {
	p.redact.Learn(key)
	trial := *p.app
	trial.modelKeys = &modelKeys{entered: map[string]string{name: key}}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	asked, _, err := trial.remoteProvider(ctx, name)
	if err == nil {
		err = asked.Check(ctx, "")
	}
	if err != nil {
		return err
	}
	return p.modelKeys.set(name, key, keep)
}

// Forget implements web.ModelKeys.
func (p pageKeys) Forget(name string) error { return p.modelKeys.set(name, "", false) }

// keyFrom returns the source of the key for a provider.
func (a *app) keyFrom(name string) (words string, entered bool) {
	if a.configured(name).Key != "" {
		return "from " + cmp.Or(a.cfg.Origin(name+"_api_key"), "the configuration"), false
	}
	switch key, kept := a.modelKeys.key(name); {
	case key == "":
		return "", false
	case kept:
		return "entered here, kept encrypted", true
	}
	return "entered here, until the service ends", true
}

// modelKeys holds keys of providers that users entered in the page. The service keeps a
// key until it ends or, if the user asks for it, in a file encrypted by AES-256-GCM. The
// secret is in another file, so that a copy of one of the two reveals nothing. A user
// who can read the whole data directory can read the keys, as those in a settings file.
type modelKeys struct {
	dir string // "": no key is stored

	mu      sync.Mutex
	entered map[string]string // by provider
	kept    map[string][]byte // nonce and encrypted key, as in the file
}

const (
	modelKeysFile   = "model-keys.json"
	modelKeysSecret = "model-keys.secret"
)

// openModelKeys reads the stored keys.
func openModelKeys(dir string) (*modelKeys, error) {
	k := &modelKeys{dir: dir, entered: map[string]string{}, kept: map[string][]byte{}}
	text, err := os.ReadFile(filepath.Join(dir, modelKeysFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &k.kept)
	}
	if err != nil {
		return k, fmt.Errorf("keys that were entered in the page cannot be read: %w", err)
	}
	seal, err := k.seal(false)
	if err != nil {
		return k, err
	}
	for name, sealed := range k.kept {
		plain, err := seal.Open(nil, nil, sealed, []byte(name))
		if err != nil {
			return k, fmt.Errorf("the key for %s that was entered in the page cannot be decrypted: %w", name, err)
		}
		k.entered[name] = string(plain)
	}
	return k, nil
}

// seal returns the cipher of the keys. With create it makes a missing secret.
func (k *modelKeys) seal(create bool) (cipher.AEAD, error) {
	at := filepath.Join(k.dir, modelKeysSecret)
	secret, err := os.ReadFile(at)
	if create && errors.Is(err, fs.ErrNotExist) {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
		err = os.WriteFile(at, secret, 0o600)
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// key returns the entered key for a provider, or "", and whether it is stored.
func (k *modelKeys) key(name string) (key string, kept bool) {
	if k == nil {
		return "", false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept = k.kept[name]
	return k.entered[name], kept
}

// set sets a key, and stores it if keep is set. The empty key removes it.
func (k *modelKeys) set(name, key string, keep bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, was := k.kept[name]; was || keep && key != "" {
		delete(k.kept, name)
		if keep && key != "" {
			seal, err := k.seal(true)
			if err != nil {
				return err
			}
			k.kept[name] = seal.Seal(nil, nil, []byte(key), []byte(name))
		}
		if err := k.write(); err != nil {
			return err
		}
	}
	if delete(k.entered, name); key != "" {
		k.entered[name] = key
	}
	return nil
}

// write replaces the file of stored keys.
func (k *modelKeys) write() error {
	text, err := json.Marshal(k.kept)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(k.dir, modelKeysFile), text, 0o600)
}
