package commands

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
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/assist/internal/pages"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
)

// pageKeys implements pages.ModelKeys.
type pageKeys struct{ *Assistant }

// openPageKeys reads the keys that users have entered in the page.
func (a *Assistant) openPageKeys() pages.ModelKeys {
	dir, err := a.stateDir()
	if err == nil {
		a.modelKeys, err = openModelKeys(dir)
	}
	if err != nil {
		a.Log.Warn("keys that were entered in the page are left out", "err", err)
	}
	if a.modelKeys == nil {
		return nil
	}
	for _, key := range a.modelKeys.entered {
		a.Redact.Learn(key)
	}
	return pageKeys{a}
}

// Enter implements pages.ModelKeys.
func (p pageKeys) Enter(ctx context.Context, name, key string, keep bool) error {
	if name == provider.Local {
		return p.enterServer(ctx, key, keep)
	}
	p.Redact.Learn(key)
	trial := *p.Assistant
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

// enterServer saves the address of a model server, and its key after a space if it needs one, once the server
// has listed its models.
func (p pageKeys) enterServer(ctx context.Context, server string, keep bool) error {
	address, key, _ := strings.Cut(server, " ")
	if key != "" {
		p.Redact.Learn(key)
	}
	trial := *p.Assistant
	trial.modelKeys = &modelKeys{entered: map[string]string{provider.Local: server}}
	names, err := trial.modelNames(ctx, provider.Local, "")
	if err == nil && len(names) == 0 {
		err = errors.New("it lists no models")
	}
	if err != nil {
		return &provider.Error{Kind: provider.Invalid, Provider: provider.Local, Op: "list models", Err: err,
			Message: "no model server with OpenAI's API answers at " + address,
			Hint: "Such an address mostly ends in /v1, as http://localhost:11434/v1 does. Does the server run? " +
				"Does it need a key?"}
	}
	return p.modelKeys.set(provider.Local, server, keep)
}

// modelAddress returns the address of the local provider's model and its key: the configured one, or else the one
// entered in the page; "" without one.
func (a *Assistant) modelAddress() (address, key string) {
	if a.Config.ModelURL != "" {
		return a.Config.ModelURL, a.Config.ModelKey.Reveal()
	}
	entered, _ := a.modelKeys.key(provider.Local)
	address, key, _ = strings.Cut(entered, " ")
	return address, key
}

// Forget implements pages.ModelKeys.
func (p pageKeys) Forget(name string) error { return p.modelKeys.set(name, "", false) }

// keyFrom returns the source of the key for a provider.
func (a *Assistant) keyFrom(name string) (words string, entered bool) {
	if a.configured(name).Key != "" {
		return "from " + cmp.Or(a.Config.Origin(name+"_api_key"), "the configuration"), false
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
	return command.ReplaceFile(filepath.Join(k.dir, modelKeysFile), text, 0o600)
}
