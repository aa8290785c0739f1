package native

import (
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// readSecrets reads the secrets of a run or a session.
func readSecrets(o *rest.Object) (list []engine.Secret) {
	for _, s := range o.Objects("secrets") {
		list = append(list, engine.Secret{Name: s.NeedText("name"), Value: engine.NewSecretValue(s.NeedText("value")),
			Hosts: s.Texts("hosts"), Header: s.Text("header")})
		_ = s.Done() // done of the whole body reports its error
	}
	return list
}

// secretsOf returns what an answer says of secrets: never their values.
func secretsOf(secrets []engine.Secret) (list []client.Secret) {
	for _, s := range secrets {
		list = append(list, client.Secret{Name: s.Name, Hosts: s.Hosts, Header: s.Header})
	}
	return list
}

// setSecrets gives a live session the values of its secrets again.
func (q *request) setSecrets(on live.Sessions) (any, error) {
	body := q.Object()
	values := map[string]engine.SecretValue{}
	for name, text := range body.TextMap("values") {
		values[name] = engine.NewSecretValue(text)
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	return nil, on.SetSecrets(q.Context(), q.Caller, q.id, values)
}
