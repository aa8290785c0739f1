package openai

import (
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/provider"
)

// containerNetwork returns the policy of a new container. Allowed without domains uses the
// service's default: no network unless the organization allows some.
func containerNetwork(n provider.Network) (p sdk.ContainerNewParamsNetworkPolicyUnion) {
	switch {
	case !n.Allowed:
		p.OfDisabled = &responses.ContainerNetworkPolicyDisabledParam{}
	case len(n.Domains) > 0:
		p.OfAllowlist = &responses.ContainerNetworkPolicyAllowlistParam{AllowedDomains: n.Domains}
	}
	return p
}
