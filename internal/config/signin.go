package config

import (
	"errors"
	"net/netip"
	"net/textproto"
	"regexp"
	"strings"
)

// SignIn holds the settings by which people sign in to the page without a key.
type SignIn struct {
	Issuer       string // of an OpenID Connect provider; empty: there is none
	ClientID     string
	ClientSecret Secret
	Scopes       []string
	Domains      []string // of verified e-mail addresses; empty: all
	Groups       []string // of which a person needs one; empty: none is needed
	AdminGroups  []string
	GroupsClaim  string

	ProxyHeader   string         // of a reverse proxy that signs people in; empty: there is none
	ProxyNetworks []netip.Prefix // where that proxy is
	ProxyAdmins   []string
}

// Elsewhere reports whether people sign in elsewhere than with a key: then nobody is let in without a sign-in, on
// loopback neither, where a proxy may be in front.
func (s SignIn) Elsewhere() bool { return s.Issuer != "" || s.ProxyHeader != "" }

// signInOptions are about people who sign in to the page.
func (c *Config) signInOptions() []Option {
	s := &c.SignIn
	return section(Service, "Single sign-on", []Option{
		{Key: "oidc_issuer", Value: "URL", field: text(&s.Issuer, checkOrigin),
			Help: "OpenID Connect provider with which people sign in to the page, as https://id.example.com/realms/main; " +
				"needs public_url and oidc_client_id. It sends them back to public_url/ui/sign-in/return"},
		{Key: "oidc_client_id", Value: "ID", field: text(&s.ClientID),
			Help: "what the provider calls this service"},
		{Key: "oidc_client_secret", Value: "SECRET", Secret: true, field: secret(&s.ClientSecret),
			Help: "what this service shows the provider; none for a public client"},
		{Key: "oidc_scopes", Value: "SCOPE", Default: "openid,profile,email", Many: true, field: texts(&s.Scopes).separate(),
			Help: "what the provider is asked for; with offline_access some give what a sign-in is renewed with, every five " +
				"minutes; without, it ends with its token"},
		{Key: "oidc_domains", Value: "DOMAIN", Many: true, field: texts(&s.Domains, checkHost).separate(),
			Help: "only people whose verified e-mail address is of this domain sign in; may be repeated"},
		{Key: "oidc_groups", Value: "GROUP", Many: true, field: texts(&s.Groups).separate(),
			Help: "only people in this group, or in one of oidc_admin_groups, sign in; may be repeated"},
		{Key: "oidc_admin_groups", Value: "GROUP", Many: true, field: texts(&s.AdminGroups).separate(),
			Help: "people in this group have admin rights; may be repeated"},
		{Key: "oidc_groups_claim", Value: "NAME", Default: "groups", field: text(&s.GroupsClaim),
			Help: "where the provider's tokens have groups; a dot leads into an object, as in realm_access.roles"},
		{Key: "auth_proxy_header", Value: "NAME", field: text(&s.ProxyHeader, checkHeader),
			Help: "header in which a reverse proxy says who has signed in with it, as X-Forwarded-User; needs " +
				"auth_proxy_network. The proxy must remove it from what browsers send"},
		{Key: "auth_proxy_network", Value: "CIDR", Many: true, field: networks(&s.ProxyNetworks),
			Help: "where that proxy is, as 10.1.2.3/32; from elsewhere the header counts for nothing; may be repeated"},
		{Key: "auth_proxy_admins", Value: "NAME", Many: true, field: texts(&s.ProxyAdmins).separate(),
			Help: "people of that proxy who have admin rights; may be repeated"},
	})
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// checkHeader refuses what is no name of a header that a proxy may set.
func checkHeader(s string) error {
	switch name := textproto.CanonicalMIMEHeaderKey(s); {
	case !headerName.MatchString(s):
		return errors.New("is no name of a header, as X-Forwarded-User is")
	case name == "Authorization", name == "Cookie", strings.HasPrefix(name, "Sec-"):
		return errors.New("is a header that browsers send themselves")
	}
	return nil
}
