package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func pemOf(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func setOf(t *testing.T, keys ...jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// weakRSA is a public key of 1024 bits, which this version of Go does not generate.
func weakRSA() *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), 1023)
	return &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}
}

func TestLocalKeys(t *testing.T) {
	public, private := newEd(t)
	whole := newRSA(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	secretText := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	jwk := func(k jose.JSONWebKey) string {
		text, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ed := pemOf(t, public)
	folder := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	set := func(keys ...jose.JSONWebKey) Local { return Local{JWKS: setOf(t, keys...)} }
	named := func(key any) jose.JSONWebKey { return jose.JSONWebKey{Key: key, KeyID: "k"} }
	one := folder(map[string]string{"a.pem": ed})
	two := folder(map[string]string{"a.pem": ed, "b.pem": ed, ".c.pem": "x"})
	long := folder(map[string]string{"a.pem": ed + strings.Repeat("\n", maxKeyFile)})
	for name, c := range map[string]struct {
		local Local
		ids   string // that are found
		err   string // else
	}{
		"PEM":                         {Local{PublicKey: ed, KeyID: "k"}, "k", ""},
		"PEM with \\n":                {Local{PublicKey: strings.ReplaceAll(ed, "\n", `\n`), DefaultID: "d"}, "d", ""},
		"JWK":                         {Local{PublicKey: jwk(named(public)), DefaultID: "d"}, "k", ""},
		"secret and key":              {Local{PublicKey: ed, Secret: secret, KeyID: "k", SecretID: "s"}, "k s", ""},
		"directory":                   {Local{Directory: two}, "a b", ""},
		"set":                         {set(named(public)), "k", ""},
		"set, one without a kid":      {set(jose.JSONWebKey{Key: public}, named(public)), "k", ""},
		"no id":                       {Local{PublicKey: ed}, "", "without a kid"},
		"one id for two":              {Local{PublicKey: ed, Secret: secret, KeyID: "k"}, "", "two keys"},
		"one id in two sources":       {Local{PublicKey: ed, KeyID: "a", Directory: one}, "", "two keys"},
		"a short secret":              {Local{Secret: secret[1:], KeyID: "k"}, "", "at least 32"},
		"a short secret in a set":     {set(named([]byte(secret[1:]))), "", "at least 32"},
		"a private key":               {Local{PublicKey: secretText, KeyID: "k"}, "", "it is a private key"},
		"a private JWK":               {Local{PublicKey: jwk(named(private))}, "", "private"},
		"a secret as the public key":  {Local{PublicKey: jwk(named([]byte(secret)))}, "", "secret"},
		"a private key in a set":      {set(named(whole)), "", "only"},
		"a short RSA key":             {Local{PublicKey: pemOf(t, weakRSA()), KeyID: "k"}, "", "too short"},
		"a short RSA key in a set":    {set(named(weakRSA())), "", "too short"},
		"a curve":                     {Local{PublicKey: pemOf(t, &curve.PublicKey), KeyID: "k"}, "", "only Ed25519 and RSA"},
		"a key for encryption":        {set(jose.JSONWebKey{Key: public, KeyID: "k", Use: "enc"}), "", "not for signatures"},
		"an empty set":                {Local{JWKS: `{"keys":[]}`}, "", "no key"},
		"an empty directory":          {Local{Directory: t.TempDir()}, "", "0 files"},
		"nonsense":                    {Local{PublicKey: "key", KeyID: "k"}, "", "neither PEM"},
		"a file that is too large":    {Local{Directory: long}, "", "at most"},
		"a folder instead of the set": {Local{JWKS: t.TempDir()}, "", "is not a file"},
	} {
		keys, err := c.local.Keys(t.Context())
		var ids []string
		for _, k := range keys {
			ids = append(ids, k.KeyID)
		}
		slices.Sort(ids)
		switch {
		case c.err == "" && (err != nil || strings.Join(ids, " ") != c.ids):
			t.Errorf("%s: %q, %v", name, ids, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %q, error %v, want %q", name, ids, err, c.err)
		}
	}
	if l := new(Local); !l.Empty() || (&Local{Secret: secret}).Empty() {
		t.Error("Empty is wrong")
	}
}

// The sources are read anew each time: an operator adds a file, and removes the old one later.
func TestLocalRotation(t *testing.T) {
	public, _ := newEd(t)
	dir := t.TempDir()
	l := &Local{Directory: dir}
	has := func(want int) {
		t.Helper()
		if keys, err := l.Keys(t.Context()); err != nil || len(keys) != want {
			t.Errorf("%d keys, %v, want %d", len(keys), err, want)
		}
	}
	for _, name := range []string{"old.pem", "new.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(pemOf(t, public)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has(2)
	if err := os.Remove(filepath.Join(dir, "old.pem")); err != nil {
		t.Fatal(err)
	}
	has(1)
}
