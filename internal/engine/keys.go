package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// A token is "ak_", the public id of its key, "_", and 256 random bits.
const (
	tokenPrefix  = "ak_"
	keyIDLength  = 12
	secretBytes  = 32
	tokenLength  = len(tokenPrefix) + keyIDLength + 1 + 43
	maxOwnerName = 64
)

// protocols are what a key can be limited to.
var protocols = []string{"api", "dify", "e2b", "jupyter", "librechat", "mcp", "onyx", "openai", "terminal"}

// ErrOnly is the cause of an ErrForbidden about a valid key of other protocols.
var ErrOnly = errors.New("the key is for other protocols")

// Authenticate returns the caller whose token it is, else ErrUnauthorized, or ErrForbidden for
// a key that is limited to protocols.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	return s.authenticate(ctx, "", token)
}

// AuthenticateFor returns what does as Authenticate for a protocol, to which keys may be
// limited.
func (s *Service) AuthenticateFor(protocol string) func(ctx context.Context, token string) (Caller, error) {
	return func(ctx context.Context, token string) (Caller, error) { return s.authenticate(ctx, protocol, token) }
}

// authenticate compares hashes in constant time, also when there is no such key.
func (s *Service) authenticate(ctx context.Context, protocol, token string) (Caller, error) {
	const op = "authenticate"
	refused := &Error{Op: op, Kind: ErrUnauthorized, Hint: "Send a valid key."}
	id, ok := keyIDOf(token)
	if !ok {
		return Caller{}, refused
	}
	key, err := s.index.Key(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Caller{}, failure(op, "", err)
	}
	hash := sha256.Sum256([]byte(token))
	match := subtle.ConstantTimeCompare(hash[:], key.Hash[:]) == 1
	if err != nil || !match || !key.RevokedAt.IsZero() {
		return Caller{}, refused
	}
	if key.Only != "" && !slices.Contains(key.Protocols(), protocol) {
		return Caller{}, &Error{Op: op, Kind: ErrForbidden, Err: ErrOnly,
			Hint: "That key is for " + strings.Join(key.Protocols(), " and ") + " alone: use another one here."}
	}
	s.accounts.note(&key)
	return Caller{Owner: key.Owner, Key: key.ID, Admin: key.Admin, Packages: key.Packages, Images: key.Images,
		Network: key.Network, Mounts: key.Mounts, Wall: key.Wall, Month: key.Month}, nil
}

// keyIDOf returns the public part of a token that has the right form.
func keyIDOf(token string) (string, bool) {
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) {
		return "", false
	}
	id, rest := token[len(tokenPrefix):][:keyIDLength], token[len(tokenPrefix)+keyIDLength:]
	if rest[0] != '_' || strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(keyAlphabet, r) }) {
		return "", false
	}
	return id, true
}

const keyAlphabet = "abcdefghijkmnopqrstuvwxyz23456789" // without characters that are easily misread

// CreateKey makes a key for an owner and returns it with its token, which is
// kept nowhere. The caller must be an admin.
func (s *Service) CreateKey(ctx context.Context, caller Caller, wanted NewKey) (Key, string, error) {
	const op = "create key"
	owner, packages := wanted.Owner, wanted.Packages
	if err := adminOnly(op, caller); err != nil {
		s.RecordAct(ctx, caller, ActKeyMade, "", "", err)
		return Key{}, "", err
	}
	if owner == "" || len(owner) > maxOwnerName || strings.ContainsFunc(string(owner), func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\"'<>&`, r)
	}) {
		return Key{}, "", Invalid("owner", "must have 1 to %d printable ASCII characters, without spaces, slashes and quotes",
			maxOwnerName)
	}
	if packages != "" && !slices.Contains(language.PackageSets(), packages) {
		return Key{}, "", missingSet(packages, nil)
	}
	if err := s.checkImages(wanted.Images); err != nil {
		return Key{}, "", err
	}
	if packages != "" && len(wanted.Images) > 0 && !slices.Contains(wanted.Images, HostImage) {
		return Key{}, "", Invalid("python_packages", "are for programs without an image: add %s to the images of the key, "+
			"or leave one of both out", HostImage)
	}
	if _, err := ParseNetworkRules(wanted.Network); err != nil {
		return Key{}, "", Invalid("network", "%v", err)
	}
	if err := s.CheckMounts(Caller{Admin: true}, wanted.Mounts); err != nil {
		return Key{}, "", err
	}
	if err := checkWall(wanted.Wall); err != nil {
		return Key{}, "", err
	}
	for _, protocol := range wanted.Only {
		if !slices.Contains(protocols, protocol) {
			return Key{}, "", Invalid("only", "must be of %s", strings.Join(protocols, ", "))
		}
	}
	if wanted.Admin && len(wanted.Only) > 0 {
		return Key{}, "", Invalid("only", "is not for a key with admin rights, which opens everything")
	}
	if _, err := ParseMonthQuota(wanted.Month); err != nil {
		return Key{}, "", Invalid("month", "%w", err)
	}
	allowance := wanted.Allowance
	if err := checkAllowance(allowance); err != nil {
		return Key{}, "", err
	}
	if allowance.Shares == 0 {
		allowance.Shares = allowance.Users
	}
	var secret [secretBytes]byte
	rand.Read(secret[:])
	key := Key{ID: RandomText(keyAlphabet, keyIDLength), Owner: owner, Admin: wanted.Admin, CreatedAt: s.now(),
		Packages: packages, Images: strings.Join(wanted.Images, ","), Network: strings.Join(wanted.Network, ","),
		Mounts: strings.Join(wanted.Mounts, ","), Allowance: allowance, Only: strings.Join(wanted.Only, ","),
		Wall: wanted.Wall, Month: wanted.Month}
	token := tokenPrefix + key.ID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	key.Hash = sha256.Sum256([]byte(token))
	if err := s.index.AddKey(ctx, key, s.act(ctx, caller, ActKeyMade, key.ID, key.rights(), nil)); err != nil {
		return Key{}, "", failure(op, "", err)
	}
	s.meter.keys.Add(1)
	s.accounts.note(&key)
	return key, token, nil
}

// rights says what a key opens, for the audit log.
func (k *Key) rights() string {
	rights := []string{"for " + string(k.Owner)}
	if k.Admin {
		rights = append(rights, "admin")
	}
	for _, one := range []struct{ name, value string }{{"only", k.Only}, {"network", k.Network}, {"mounts", k.Mounts},
		{"images", k.Images}, {"packages", k.Packages}, {"wall", string(k.Wall)}, {"month", k.Month}} {
		if one.value != "" {
			rights = append(rights, one.name+" "+one.value)
		}
	}
	return strings.Join(rights, "; ")
}

// ListKeys returns every key, revoked ones too. The caller must be an admin.
func (s *Service) ListKeys(ctx context.Context, caller Caller) ([]Key, error) {
	const op = "list keys"
	if err := adminOnly(op, caller); err != nil {
		return nil, err
	}
	keys, err := s.index.Keys(ctx)
	return keys, failure(op, "", err)
}

// RevokeKey ends a key. The caller must be an admin. Revoking twice is fine.
func (s *Service) RevokeKey(ctx context.Context, caller Caller, id string) error {
	const op = "revoke key"
	if err := adminOnly(op, caller); err != nil {
		s.RecordAct(ctx, caller, ActKeyRevoked, id, "", err)
		return err
	}
	if err := s.index.RevokeKey(ctx, id, s.now(), s.act(ctx, caller, ActKeyRevoked, id, "", nil)); err != nil {
		return missing(op, id, err)
	}
	return failure(op, id, s.loadAccounts(ctx))
}

func adminOnly(op string, caller Caller) error {
	if caller.Admin {
		return nil
	}
	return &Error{Op: op, Kind: ErrForbidden, Hint: "Only a key with admin rights may do this."}
}
