package native

import (
	"github.com/airlock-run/airlock/internal/engine"
)

// createKey answers with the token, for the only time.
func (q *request) createKey() (any, error) {
	body := q.object()
	wanted := engine.NewKey{
		Owner: engine.Owner(body.needText("owner")), Admin: body.flag("admin", false),
		Packages: body.text("python_packages"), Network: body.texts("network"),
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	key, token, err := q.engine.CreateKey(q.Context(), q.caller, wanted)
	if err != nil {
		return nil, err
	}
	b := keyOf(key)
	b.Token = token
	return created("", b), nil
}

func (q *request) listKeys() (any, error) {
	keys, err := q.engine.ListKeys(q.Context(), q.caller)
	if err != nil {
		return nil, err
	}
	return map[string]any{"keys": each(keys, keyOf)}, nil
}

func (q *request) revokeKey() (any, error) {
	return nil, q.engine.RevokeKey(q.Context(), q.caller, q.PathValue("id"))
}
