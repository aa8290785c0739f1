package cli

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// modelKeys are keys of providers that were entered in the page. Each is known until the
// service ends or, if that was asked for, kept as AES-256-GCM in a file whose key is in
// another one: a copy of one of both says nothing. Who can read the whole data directory
// can read the keys too, as those in a configuration file.
type modelKeys struct {
	dir string // "": nothing is kept

	mu      sync.Mutex
	entered map[string]string // by provider
	kept    map[string][]byte // nonce and sealed key, as in the file
}

const (
	modelKeysFile   = "model-keys.json"
	modelKeysSecret = "model-keys.secret"
)

// openModelKeys reads the keys that were kept.
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
		n := min(seal.NonceSize(), len(sealed))
		plain, err := seal.Open(nil, sealed[:n], sealed[n:], []byte(name))
		if err != nil {
			return k, fmt.Errorf("the key for %s that was entered in the page cannot be decrypted: %w", name, err)
		}
		k.entered[name] = string(plain)
	}
	return k, nil
}

// seal returns what encrypts the keys, with a secret made for it if there is none.
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
	return cipher.NewGCM(block)
}

// key returns the key for a provider, "" if none was entered, and whether it is kept.
func (k *modelKeys) key(name string) (key string, kept bool) {
	if k == nil {
		return "", false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept = k.kept[name]
	return k.entered[name], kept
}

// set enters a key, and keeps it if that is asked for; "" forgets it.
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
			nonce := make([]byte, seal.NonceSize())
			_, _ = rand.Read(nonce)
			k.kept[name] = seal.Seal(nonce, nonce, []byte(key), []byte(name))
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

// write replaces the file of kept keys.
func (k *modelKeys) write() error {
	text, err := json.Marshal(k.kept)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(k.dir, modelKeysFile), text, 0o600)
}
