package librechat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/airlock-run/airlock/internal/token"
)

// trust lists the accepted properties of an issuer's tokens. The names are those of the
// official server's CODEAPI_JWT_TRUST_ENTRIES_JSON.
type trust struct {
	Issuer     string   `json:"issuer"`
	Audiences  []string `json:"audiences"`
	KeyIDs     []string `json:"keyIds"`
	Algorithms []string `json:"allowedAlgorithms"`
	Sources    []string `json:"principalSources"`

	anyKey bool // accept any configured key
}

// sources are the sources of LibreChat's own tokens.
var sources = []string{"librechat_jwt", "openid_reuse"}

// external is a source of another application's tokens.
var external = regexp.MustCompile(`^external:[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// trusts returns the entries of a configuration: its table, or one for all of its keys.
func trusts(c TokenConfig) ([]trust, error) {
	algorithms, err := splitAlgorithms(c.Algorithms)
	if err != nil {
		return nil, err
	}
	if c.Trust == "" {
		return []trust{{
			Issuer: c.Issuer, Audiences: []string{c.Audience}, Algorithms: algorithms, Sources: sources, anyKey: true,
		}}, nil
	}
	if c.Issuer != defaultIssuer || c.Audience != defaultAudience || c.Algorithms != "" {
		return nil, errors.New("the trust entries name issuers, audiences and algorithms: these cannot be set beside them")
	}
	entries, err := parseTrust(c.Trust)
	if err != nil {
		return nil, fmt.Errorf("trust entries: %w", err)
	}
	return entries, nil
}

func splitAlgorithms(list string) ([]string, error) {
	if list == "" {
		return []string{string(jose.EdDSA), string(jose.RS256), string(jose.HS256)}, nil // each key has its own
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, checkList("the algorithms", names, isAlgorithm)
}

func isAlgorithm(name string) bool {
	return slices.Contains([]jose.SignatureAlgorithm{jose.EdDSA, jose.RS256, jose.HS256}, jose.SignatureAlgorithm(name))
}

func isSource(name string) bool {
	return slices.Contains(sources, name) ||
		external.MatchString(name) && !slices.Contains([]string{
			"external:synthetic_test", "external:none", "external:api_key"}, name)
}

// parseTrust parses the table. Any mistake in it is an error, because a partly parsed table
// would trust too much.
func parseTrust(text string) ([]trust, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var entries []trust
	if err := decoder.Decode(&entries); err != nil {
		return nil, err
	}
	if len(entries) == 0 || decoder.More() {
		return nil, errors.New("they must be one list with at least one entry")
	}
	issuers, kids := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if e.Issuer == "" || e.Issuer != strings.TrimSpace(e.Issuer) || issuers[e.Issuer] {
			return nil, fmt.Errorf("the issuer %q is empty, has space around it, or is there twice", e.Issuer)
		}
		issuers[e.Issuer] = true
		named := func(string) bool { return true }
		if err := cmp.Or(
			checkList("audiences", e.Audiences, named), checkList("keyIds", e.KeyIDs, named),
			checkList("allowedAlgorithms", e.Algorithms, isAlgorithm), checkList("principalSources", e.Sources, isSource),
		); err != nil {
			return nil, fmt.Errorf("issuer %q: %w", e.Issuer, err)
		}
		for _, kid := range e.KeyIDs {
			if kids[kid] {
				return nil, fmt.Errorf("the key %q is in two entries", kid)
			}
			kids[kid] = true
		}
	}
	return entries, nil
}

// checkList refuses a list that is empty, or has an element twice or an invalid one.
func checkList(what string, list []string, good func(string) bool) error {
	if len(list) == 0 {
		return fmt.Errorf("%s must not be empty", what)
	}
	for i, item := range list {
		if item == "" || item != strings.TrimSpace(item) || !good(item) || slices.Contains(list[:i], item) {
			return fmt.Errorf("%s: %q is not known, or is there twice", what, item)
		}
	}
	return nil
}

// checkKeys rejects entries without keys and keys without entries. An unused key is a
// configuration mistake.
func checkKeys(entries []trust, keys []jose.JSONWebKey) error {
	named := map[string]bool{}
	for _, e := range entries {
		if e.anyKey {
			return nil
		}
		for _, kid := range e.KeyIDs {
			at := slices.IndexFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid })
			if at < 0 {
				return fmt.Errorf("trust entries: the issuer %q names the key %q, which is not configured", e.Issuer, kid)
			}
			if alg := string(token.Algorithm(keys[at].Key)); !slices.Contains(e.Algorithms, alg) {
				return fmt.Errorf("trust entries: the key %q is for %s, which the issuer %q may not use", kid, alg, e.Issuer)
			}
			named[kid] = true
		}
	}
	for _, key := range keys {
		if !named[key.KeyID] {
			return fmt.Errorf("trust entries: no issuer has the key %q", key.KeyID)
		}
	}
	return nil
}
