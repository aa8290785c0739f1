package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Secret is a value for requests of a program to some hosts, which the program never sees. The variable Name
// holds a placeholder; on the way to the hosts the egress process puts the value in its place.
type Secret struct {
	Name   string      `json:"name"`
	Value  SecretValue `json:"-"`
	Hosts  []string    `json:"hosts"`            // HOST or HOST:PORT; without a port 443
	Header string      `json:"header,omitempty"` // NAME: TEXT, set in each request, where {} in TEXT is the value; empty: none
}

// SecretValue is a text that is always printed as ***. The pointer keeps it from packages that print the
// fields of a struct without calling their methods.
type SecretValue struct{ text *string }

// NewSecretValue returns the value of a text.
func NewSecretValue(text string) SecretValue { return SecretValue{&text} }

// Reveal returns the text itself.
func (v SecretValue) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

func (v SecretValue) String() string {
	if v.Reveal() == "" {
		return ""
	}
	return "***"
}

// GoString implements fmt.GoStringer, without the text.
func (v SecretValue) GoString() string { return v.String() }

// MarshalText implements encoding.TextMarshaler, without the text.
func (v SecretValue) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// LogValue implements slog.LogValuer, without the text.
func (v SecretValue) LogValue() slog.Value { return slog.StringValue(v.String()) }

// PlaceholderPrefix begins each placeholder.
const PlaceholderPrefix = "airlock_secret_"

// GrantedSecret is a secret of one run.
type GrantedSecret struct {
	Secret             // Hosts are HOST:PORT
	Placeholder string // random, only of this run
}

// RevealedSecret is a GrantedSecret on its way to the process that puts it into requests: nothing else encodes
// the value.
type RevealedSecret struct {
	Placeholder string   `json:"placeholder"`
	Value       string   `json:"value"`
	Hosts       []string `json:"hosts"`
	Header      string   `json:"header,omitempty"`
}

// Reveal returns the secrets of a grant for SetSecrets on the other side of a link.
func (g *Grant) Reveal() (list []RevealedSecret) {
	for _, s := range g.Secrets {
		list = append(list, RevealedSecret{s.Placeholder, s.Value.Reveal(), s.Hosts, s.Header})
	}
	return list
}

// SetSecrets sets the secrets that Reveal has returned.
func (g *Grant) SetSecrets(list []RevealedSecret) {
	g.Secrets = nil
	for _, s := range list {
		g.Secrets = append(g.Secrets, GrantedSecret{
			Secret{Value: NewSecretValue(s.Value), Hosts: s.Hosts, Header: s.Header}, s.Placeholder})
	}
}

// The bounds of secrets of one run or session.
const (
	maxSecrets      = 64
	maxSecretHosts  = 16
	minSecret       = 8 // a shorter one stands in answers by chance
	maxSecret       = 8 << 10
	maxSecretsBytes = 32 << 10 // together: they travel in one packet
	maxSecretName   = 128
)

const fieldSecrets = "secrets"

// addSecrets adds secrets to a grant that covers all their hosts; g is nil if there is no network.
func (s *Service) addSecrets(g *Grant, secrets []Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	if len(secrets) > maxSecrets {
		return Invalid(fieldSecrets, "are %d, at most %d are allowed", len(secrets), maxSecrets)
	}
	size, taken := 0, map[string]bool{}
	for i, secret := range secrets {
		field := fmt.Sprintf("%s[%d]", fieldSecrets, i)
		if err := checkSecret(field, &secret); err != nil {
			return err
		}
		if taken[secret.Name] {
			return Invalid(field+".name", "is %s, as that of another secret", secret.Name)
		}
		taken[secret.Name] = true
		granted := GrantedSecret{secret, PlaceholderPrefix + rand.Text()}
		granted.Hosts = nil
		for k, text := range secret.Hosts {
			host, port, err := secretHost(text)
			if err != nil {
				return Invalid(fmt.Sprintf("%s.hosts[%d]", field, k), "%w", err)
			}
			if !g.covers(host, port) {
				return denied(fmt.Sprintf("the secret %s is for %s on port %d, which the program may not contact", secret.Name,
					host, port), "Ask for the host in network.allow (--allow-net) too; "+
					"network_allow (AIRLOCK_NETWORK_ALLOW) or a key's --network has to allow it.")
			}
			granted.Hosts = append(granted.Hosts, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
		size += len(secret.Value.Reveal()) + len(secret.Header) + len(strings.Join(granted.Hosts, ","))
		g.Secrets = append(g.Secrets, granted)
	}
	if size > maxSecretsBytes {
		return tooLarge(fieldSecrets, size, maxSecretsBytes)
	}
	if !s.cfg.Network.Inspect {
		return denied("secrets are put into requests inside of TLS, which this service does not inspect",
			"The operator sets network_inspect (AIRLOCK_NETWORK_INSPECT).")
	}
	return nil
}

// covers reports whether a grant allows a host and a port, on some path at least.
func (g *Grant) covers(host string, port uint16) bool {
	match := func(rule NetworkRule) bool { return rule.MatchHost(host, port) }
	return g != nil && slices.ContainsFunc(g.Allow, match) &&
		!slices.ContainsFunc(g.Deny, match)
}

// checkSecret checks a secret without its hosts.
func checkSecret(field string, s *Secret) error {
	value := s.Value.Reveal()
	switch {
	case !variableName().MatchString(s.Name) || len(s.Name) > maxSecretName:
		return Invalid(field+".name", "is %.40q, which is no name of a variable", s.Name)
	case reservedVariable(s.Name):
		return Invalid(field+".name", "is %s, which programs or Airlock itself give a meaning: choose another", s.Name)
	case len(value) < minSecret || len(value) > maxSecret:
		return Invalid(field+".value", "of %s has %d bytes: %d to %d are allowed", s.Name, len(value), minSecret, maxSecret)
	case !utf8.ValidString(value) || !httpguts.ValidHeaderFieldValue(value) || strings.ContainsRune(value, '\t'):
		return Invalid(field+".value", "of %s has a newline or another control character, which no header can carry", s.Name)
	case value != strings.TrimSpace(value):
		return Invalid(field+".value", "of %s begins or ends with a space", s.Name)
	case strings.Contains(value, PlaceholderPrefix):
		return Invalid(field+".value", "of %s is the placeholder of a secret", s.Name)
	case len(s.Hosts) == 0 || len(s.Hosts) > maxSecretHosts:
		return Invalid(field+".hosts", "of %s are %d: name 1 to %d", s.Name, len(s.Hosts), maxSecretHosts)
	}
	if s.Header != "" {
		if err := checkSecretHeader(s.Header); err != nil {
			return Invalid(field+".header", "of %s %w", s.Name, err)
		}
	}
	return nil
}

var variableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
})

// reservedVariables and the rest of reservedVariable are the variables that change how programs start or connect.
var reservedVariables = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:.*_PROXY|PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TERM|LANG|TZ|TMPDIR|IFS|` +
		`ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS[0-4]|PROMPT_COMMAND|CDPATH|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|` +
		`CURL_CA_BUNDLE|PIP_.*|UV_CACHE_DIR|UV_PYTHON_.*|UV_DEFAULT_INDEX|npm_config_.*|GIT_SSL_.*|GIT_EXEC_PATH|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|` +
		`NODE_USE_ENV_PROXY|LD_.*|LC_.*|XDG_.*|PYTHON.*|AIRLOCK_.*)$`)
})

func reservedVariable(name string) bool { return reservedVariables().MatchString(name) }

// secretHost parses a host of a secret.
func secretHost(text string) (host string, port uint16, err error) {
	if host, port, err = splitPort(text); err != nil {
		return "", 0, err
	}
	switch port {
	case 0:
		port = portHTTPS
	case portHTTP:
		return "", 0, fmt.Errorf("%.100q is HTTP: a secret is put into requests by HTTPS alone", text)
	}
	if host, err = NetworkName(host); err != nil {
		return "", 0, fmt.Errorf("%w: a secret is for single hosts by name, without wildcards", err)
	}
	return host, port, nil
}

// SplitSecretHeader splits the Header of a secret.
func SplitSecretHeader(text string) (name, template string) {
	name, template, _ = strings.Cut(text, ":")
	return strings.TrimSpace(name), strings.TrimSpace(template)
}

// framing are the headers that say where a request ends, where it goes or what its answer may be. Others
// begin with Proxy- or Sec-.
var framing = []string{"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer",
	"upgrade", "expect", "accept-encoding", "content-encoding"}

func checkSecretHeader(text string) error {
	name, template := SplitSecretHeader(text)
	lower := strings.ToLower(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(template) || len(text) > maxSecretName*2:
		return errors.New(`is no header: it has the form "Authorization: Bearer {}"`)
	case !strings.Contains(template, SecretMark):
		return errors.New("has no {}, where the value goes")
	case strings.Count(template, SecretMark) > 1:
		return errors.New("has {} more than once")
	case slices.Contains(framing, lower) || strings.HasPrefix(lower, "proxy-") || strings.HasPrefix(lower, "sec-"):
		return fmt.Errorf("is %s, which says where a request ends or goes", name)
	}
	return nil
}

// SecretMark stands in the Header of a secret for its value.
const SecretMark = "{}"

// environment returns the variables of a program with a grant.
func (g *Grant) environment() map[string]string {
	if len(g.Secrets) == 0 {
		return g.env
	}
	env := maps.Clone(g.env)
	if env == nil {
		env = map[string]string{}
	}
	for _, s := range g.Secrets {
		env[s.Name] = s.Placeholder
	}
	return env
}
