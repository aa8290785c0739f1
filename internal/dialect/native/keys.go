package native

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// createKey answers with the token, for the only time.
func (a *api) createKey(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	owner, admin, packages := engine.Owner(body.needText("owner")), body.flag("admin", false), body.text("python_packages")
	if err := body.done(); err != nil {
		return err
	}
	key, token, err := a.engine.CreateKey(r.Context(), a.Caller(r), owner, admin, packages)
	if err != nil {
		return err
	}
	answer := keyOf(key)
	answer.Token = token
	writeJSON(w, http.StatusCreated, answer)
	return nil
}

func (a *api) listKeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := a.engine.ListKeys(r.Context(), a.Caller(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": each(keys, keyOf)})
	return nil
}

func (a *api) revokeKey(w http.ResponseWriter, r *http.Request) error {
	if err := a.engine.RevokeKey(r.Context(), a.Caller(r), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
