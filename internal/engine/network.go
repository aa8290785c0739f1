package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Network is the network access that a run requests. Without it, the run gets the
// access of its caller's key, which for most keys is none.
type Network struct {
	Allow    []string // see NetworkRule; empty: nothing
	Deny     []string `json:",omitempty"` // exceptions from Allow or, if that is empty, from the caller's key
	MaxBytes int64    // in both directions together; 0: the operator's limit
}

// NetworkConfig is the network access that the operator allows.
type NetworkConfig struct {
	Allow    []string       // rules that each caller may request; a key may have its own list
	Private  []netip.Prefix // private networks that grants may reach
	Inspect  bool           // TLS may be inspected, for rules with a path and for Inject
	Inject   []Injection    // headers for requests, hidden from the program
	MaxBytes int64          // of one run; 0: 1 GiB
	Egress   Egress         // nil: no program has network access
	// Registries returns the rules of PackagesSet on this host, and the configuration of
	// pip and npm for them.
	Registries func(ctx context.Context) (Registries, error)
}

// Registries are the package registries that a host is configured for.
type Registries struct {
	Allow []string
	Env   map[string]string
}

// Injection adds a header to each request for a host.
type Injection struct {
	Host   string `json:"host"`
	Header string `json:"header"`
	Value  string `json:"value"`
}

// Egress carries the connections of programs, outside of their sandboxes.
type Egress interface {
	// Open begins to serve a grant on a listening socket, which the caller still owns. It
	// reports contacts until the returned Closer is closed. Close waits for the last
	// report.
	Open(ctx context.Context, grant Grant, listener *os.File, report func([]Contact)) (io.Closer, error)
	// Authority is the certificate that a program with an inspected grant has to trust,
	// in PEM, and its key; both only for one run.
	Authority() (certificate, key []byte, err error)
}

// Grant is the set of destinations that one run may contact.
type Grant struct {
	Run      ID             `json:"run"`
	Owner    Owner          `json:"owner"`
	Allow    []NetworkRule  `json:"allow"`
	Deny     []NetworkRule  `json:"deny,omitempty"`
	Private  []netip.Prefix `json:"private,omitempty"`
	MaxBytes int64          `json:"max_bytes"`
	Inject   []Injection    `json:"inject,omitempty"`

	Secrets []GrantedSecret `json:"-"` // see Reveal

	// Certificate and Key are those of Egress.Authority; empty: nothing is inspected.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`

	env      map[string]string // tells programs about its named sets
	packages bool              // PackagesSet is among what it allows
}

// Contact is one connection that a program asked for: a line of the audit log.
type Contact struct {
	Run      ID            `json:"run"`
	Owner    Owner         `json:"owner"`
	At       time.Time     `json:"at"`
	Host     string        `json:"host"` // as the program named it
	Port     uint16        `json:"port"`
	Address  string        `json:"address,omitempty"` // that it was connected to
	Sent     int64         `json:"sent"`
	Received int64         `json:"received"`
	Took     time.Duration `json:"took"`
	Verdict  string        `json:"verdict"` // allowed, refused or failed
	Reason   string        `json:"reason,omitempty"`
	More     int           `json:"more,omitempty"` // further contacts that are not listed
}

// Verdicts of a Contact.
const (
	VerdictAllowed = "allowed"
	VerdictRefused = "refused"
	VerdictFailed  = "failed"
)

// ContactQuery selects lines of the audit log, newest first.
type ContactQuery struct {
	Owner Owner // empty: of all
	Run   ID    // zero: of all
	Limit int
}

// NetworkIndex records the contacts of programs.
type NetworkIndex interface {
	AddContacts(ctx context.Context, contacts []Contact) error
	Contacts(ctx context.Context, query ContactQuery) ([]Contact, error)
	// ExpireContacts deletes up to limit contacts from before a time.
	ExpireContacts(ctx context.Context, before time.Time, limit int) (int, error)
}

const defaultNetworkBytes = 1 << 30

// denied returns the error of a network request that is not allowed, with a hint.
func denied(text, hint string) error {
	return &Error{Op: "check", Kind: ErrNetwork, ID: "network", Err: errors.New(text), Hint: hint}
}

// allowance returns the rules that a caller may request. The operator's own terminal may
// request everything, because its user also writes the configuration.
func (s *Service) allowance(caller Caller) ([]NetworkRule, error) {
	texts := s.cfg.Network.Allow
	if caller.Network != "" {
		texts = strings.Split(caller.Network, ",")
	}
	rules, err := ParseNetworkRules(texts)
	return withSet(rules), err
}

// Allowance returns the rules that a caller may request for its programs, as they were written, and whether they are
// those of its key, not of all. There are none if programs have no network here.
func (s *Service) Allowance(caller Caller) (rules []string, ofKey bool, err error) {
	switch {
	case s.cfg.Network.Egress == nil:
		return nil, false, nil
	case operator(caller):
		rules = []string{"*"}
	case caller.Network != "":
		rules, ofKey = strings.Split(caller.Network, ","), true
	default:
		rules = slices.Clone(s.cfg.Network.Allow)
	}
	if allowed, err := ParseNetworkRules(rules); err != nil || len(withSet(allowed)) > len(allowed) {
		return append(rules, PackagesSet), ofKey, err
	}
	return rules, ofKey, nil
}

// Granted returns the rules that programs of a caller have who request none: those of its key.
func Granted(caller Caller) []string {
	if caller.Network == "" {
		return nil
	}
	return strings.Split(caller.Network, ",")
}

// withSet adds the named set to rules that allow everything.
func withSet(rules []NetworkRule) []NetworkRule {
	if slices.ContainsFunc(rules, func(r NetworkRule) bool { return r.Host == "*" && r.Port == portHTTPS }) {
		return append(rules, NetworkRule{Set: PackagesSet})
	}
	return rules
}

// CheckNetwork refuses a request for the network, and for secrets in it, that the caller may not make.
func (s *Service) CheckNetwork(ctx context.Context, caller Caller, asked *Network, secrets []Secret) error {
	_, err := s.grant(ctx, caller, asked, secrets)
	return err
}

// grant returns the grant of a run, or nil for none.
func (s *Service) grant(ctx context.Context, caller Caller, asked *Network, secrets []Secret) (*Grant, error) {
	own := Network{}
	if asked != nil {
		own = *asked
	}
	if own.MaxBytes < 0 {
		return nil, Invalid("network.max_bytes", "must not be negative")
	}
	if caller.Network != "" && (asked == nil || own.Allow == nil && len(own.Deny) > 0) {
		own.Allow = strings.Split(caller.Network, ",")
	}
	asked = &own
	if len(asked.Allow) == 0 {
		return nil, s.addSecrets(nil, secrets)
	}
	wanted, err := ParseNetworkRules(asked.Allow)
	if err != nil {
		return nil, Invalid("network.allow", "%v", err)
	}
	g := &Grant{Owner: caller.Owner, Private: s.cfg.Network.Private, MaxBytes: s.cfg.Network.MaxBytes}
	if g.Deny, err = ParseNetworkRules(asked.Deny); err != nil {
		return nil, Invalid("network.deny", "%v", err)
	}
	if g.MaxBytes <= 0 {
		g.MaxBytes = defaultNetworkBytes
	}
	if asked.MaxBytes > 0 {
		g.MaxBytes = min(g.MaxBytes, asked.MaxBytes)
	}
	if s.cfg.Network.Egress == nil {
		return nil, denied("programs of this service have no network", "The service was started without an egress process.")
	}
	if err := s.permit(caller, g, asked.Allow, wanted); err != nil {
		return nil, err
	}
	if err := s.cfg.Network.expand(ctx, g); err != nil {
		return nil, err
	}
	if err := s.addSecrets(g, secrets); err != nil {
		return nil, err
	}
	return g, s.inspection(g)
}

// permit adds to a grant the rules that the caller may request. A rule without
// a port is narrowed to the allowed ports.
func (s *Service) permit(caller Caller, g *Grant, texts []string, wanted []NetworkRule) error {
	if operator(caller) {
		g.Allow = wanted
		return nil
	}
	allowed, err := s.allowance(caller)
	if err != nil {
		return err
	}
	for _, rule := range wanted {
		if coveredBy(allowed, &rule) {
			g.Allow = append(g.Allow, rule)
		}
	}
	for _, text := range texts { // each must have added a rule
		rules, err := ParseNetworkRule(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rules, func(r NetworkRule) bool { return slices.Contains(g.Allow, r) }) {
			continue
		}
		what := "programs here have no network"
		if len(allowed) > 0 {
			what = "allowed here: " + joinRules(allowed)
		}
		return denied(fmt.Sprintf("%.100q is not allowed; %s", text, what), "The operator allows it with network_allow "+
			"(AIRLOCK_NETWORK_ALLOW) for all, or for one key with `airlock keys create --network`.")
	}
	return nil
}

func joinRules(rules []NetworkRule) string {
	const most = 8
	var texts []string
	for i := range rules {
		texts = append(texts, rules[i].String())
	}
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more", len(texts)-most))
	}
	return strings.Join(texts, ", ")
}

// operator reports whether the caller is at the operator's own terminal: on the unix
// socket, or in this process.
func operator(caller Caller) bool { return caller.Admin && caller.Key == "" && caller.Owner == Local }

// expand replaces the named sets by their rules.
func (c *NetworkConfig) expand(ctx context.Context, g *Grant) error {
	isSet := func(r NetworkRule) bool { return r.Set == PackagesSet }
	if !slices.ContainsFunc(g.Allow, isSet) {
		return nil
	}
	g.Allow = slices.DeleteFunc(g.Allow, isSet)
	if c.Registries == nil {
		return denied("this service knows of no package registries", "")
	}
	registries, err := c.Registries(ctx)
	if err != nil {
		return denied("the package registries of this host are not known: "+err.Error(),
			"Name the registries' hosts, or configure pip and npm for the user that the service runs as.")
	}
	rules, err := ParseNetworkRules(registries.Allow)
	if err != nil {
		return denied("the package registries of this host are not usable: "+err.Error(), "")
	}
	g.Allow, g.env, g.packages = append(g.Allow, rules...), registries.Env, true
	return nil
}

// inspection enables the inspection of TLS for a grant that needs it, for a path, a header or
// a secret. Without the operator's consent a path is refused, never widened.
func (s *Service) inspection(g *Grant) error {
	config := &s.cfg.Network
	paths := slices.IndexFunc(g.Allow, func(r NetworkRule) bool { return r.Path != "" && r.Scheme == "https" })
	if paths >= 0 && !config.Inspect {
		return denied(fmt.Sprintf("%q has a path, which only inspection of TLS can see", g.Allow[paths].String()),
			"Ask for the whole host, or have the operator set network_inspect.")
	}
	if !config.Inspect {
		return nil
	}
	for _, injection := range config.Inject {
		if slices.ContainsFunc(g.Allow, func(r NetworkRule) bool { return r.MatchHost(injection.Host, r.Port) }) {
			g.Inject = append(g.Inject, injection)
		}
	}
	if paths < 0 && len(g.Inject)+len(g.Secrets) == 0 {
		return nil
	}
	var err error
	g.Certificate, g.Key, err = config.Egress.Authority()
	return err
}

// contacts collects the contacts of one run.
type contacts struct {
	service *Service
	run     ID
	owner   Owner
	lease   *Lease // idle with a distant sandbox

	mu    sync.Mutex
	list  []Contact
	fault error
}

func (s *Service) contacts(run ID, g *Grant) *contacts {
	c := &contacts{service: s, run: run, owner: g.Owner}
	c.lease = NewLease(s.cfg.Network.Egress, g, c.add)
	return c
}

// mostContacts bounds the recorded contacts of one run. Further contacts are only counted.
const mostContacts = 1000

// Listener implements Host.
func (h *host) Listener(file *os.File) {
	if h.contacts == nil {
		file.Close()
		return
	}
	h.contacts.lease.Listener(file)
}

// Contacted implements Host.
func (h *host) Contacted(list []Contact, fault string) {
	if h.contacts == nil {
		return
	}
	h.contacts.add(list)
	if fault != "" {
		h.contacts.mu.Lock()
		defer h.contacts.mu.Unlock()
		h.contacts.fault = errors.New(fault)
	}
}

// add records contacts.
func (c *contacts) add(list []Contact) {
	c.mu.Lock()
	room := max(0, mostContacts-len(c.list))
	if more := len(list) - room; more > 0 && len(c.list) > 0 && room == 0 {
		c.list[len(c.list)-1].More += more
		list = nil
	} else if more > 0 {
		list = list[:room]
		list[room-1].More += more
	}
	for i := range list {
		list[i].Run, list[i].Owner = c.run, c.owner
	}
	c.list = append(c.list, list...)
	c.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := c.service.index.AddContacts(ctx, list); err != nil {
		c.service.log.Error("what a program contacted could not be recorded", "run", c.run, "error", err)
	}
}

// end ends the grant and returns all contacts.
func (c *contacts) end() ([]Contact, error) {
	fault := c.lease.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	fault = errors.Join(fault, c.fault)
	if fault != nil {
		c.service.log.Error("a program's network could not be opened", "run", c.run, "error", fault)
	}
	return c.list, fault
}

// Contacts returns lines of the audit log: the caller's own, or an admin's choice.
func (s *Service) Contacts(ctx context.Context, caller Caller, query ContactQuery) ([]Contact, error) {
	if !caller.Admin {
		query.Owner = caller.Owner
	}
	if query.Limit <= 0 || query.Limit > mostContacts {
		query.Limit = mostContacts
	}
	list, err := s.index.Contacts(ctx, query)
	return list, failure("list contacts", "", err)
}

// contactTTL is how long the audit log of the network is kept.
const contactTTL = 30 * 24 * time.Hour

// network returns the part of a grant that a sandbox needs.
func (g *Grant) network() *ProxySettings {
	return &ProxySettings{Env: g.environment(), Certificate: g.Certificate, Grant: g}
}

// contacted adds the program's contacts to a completion.
func (e *completion) contacted(list []Contact, fault error) {
	e.run.Contacts = list
	if fault != nil {
		e.run.Message = sentences(e.run.Message, "The program had no network: the egress process failed.")
	}
}
