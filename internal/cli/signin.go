package cli

import (
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/oidc"
	"github.com/airlock-run/airlock/internal/page"
)

// identityProvider returns what signs people in to the page beside keys, nil without one.
func (a *app) identityProvider(prefix string) (*oidc.Provider, error) {
	s := a.Config.SignIn
	if s.Issuer == "" {
		return nil, nil
	}
	for _, one := range []struct{ name, value, hint string }{
		{"public_url", a.Config.PublicURL, "set public_url to the address at which browsers call this service"},
		{"oidc_client_id", s.ClientID, "register this service with the provider, and set oidc_client_id"},
	} {
		if one.value == "" {
			return nil, command.Fail(command.ExitUsage, one.hint, "oidc_issuer needs %s", one.name)
		}
	}
	client := a.WebClient(s.Issuer)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return oidc.New(oidc.Options{Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret.Reveal(),
		Return: strings.TrimSuffix(a.Config.PublicURL, "/") + prefix + page.ReturnPath, Scopes: s.Scopes,
		Domains: s.Domains, Groups: s.Groups, Admins: s.AdminGroups, GroupsClaim: s.GroupsClaim, Client: client}), nil
}

// signInProxy returns the reverse proxy that signs people in to the page, nil without one.
func (a *app) signInProxy() (*httpd.Proxy, error) {
	s := a.Config.SignIn
	switch {
	case s.ProxyHeader == "":
		return nil, nil
	case len(s.ProxyNetworks) == 0:
		return nil, command.Fail(command.ExitUsage, "set auth_proxy_network to the address of the proxy, as 10.1.2.3/32",
			"auth_proxy_header needs auth_proxy_network: everyone could send that header")
	}
	return &httpd.Proxy{Header: s.ProxyHeader, Networks: s.ProxyNetworks, Admins: s.ProxyAdmins}, nil
}
