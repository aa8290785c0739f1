package commands

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file has the nonce and what AES-256-GCM made of the key, whoever wrote it.
func TestModelKeys(t *testing.T) {
	dir := t.TempDir()
	first, err := openModelKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.set("openai", "one", true); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, modelKeysFile)
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "one") {
		t.Fatalf("the file is %s, %v", text, err)
	}
	secret, err := os.ReadFile(filepath.Join(dir, modelKeysSecret))
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	kept := map[string][]byte{}
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	kept["xai"] = gcm.Seal(nonce, nonce, []byte("two"), []byte("xai"))
	write := func() {
		text, err := json.Marshal(kept)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	again, err := openModelKeys(dir)
	if err != nil || again.entered["openai"] != "one" || again.entered["xai"] != "two" {
		t.Errorf("got %v, %v", again.entered, err)
	}
	for name, broken := range map[string][]byte{"short": kept["xai"][:5], "of another": kept["openai"]} {
		kept["xai"] = broken
		write()
		if _, err := openModelKeys(dir); err == nil {
			t.Errorf("a key that is %s was decrypted", name)
		}
	}
}
