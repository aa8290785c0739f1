package live

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// The values of a session's secrets are in the memory of the service alone; what they are for is stored with the
// session. So a session whose values are gone, because of a restart or since another node has it now, can tell.

// Secrets returns the secrets of a live session or snapshot by its Live, without their values.
func Secrets(live string) []engine.Secret {
	var known settings
	if json.Unmarshal([]byte(live), &known) != nil {
		return nil
	}
	return known.Secrets
}

// hasSecrets returns an error if the values of the session's secrets are gone. The caller holds mu.
func (at *session) hasSecrets() error {
	if len(at.secrets) == len(at.settings.Secrets) {
		return nil
	}
	return &engine.Error{Op: "secrets", Kind: engine.ErrConflict, ID: at.id.String(),
		Err: errors.New("the secrets of this session are gone: " + names(at.settings.Secrets) +
			". They were in memory alone, and the service was restarted or the session was moved"),
		Hint: "Give them again: PUT /api/v1/sessions/" + at.record.ID.String() + "/secrets. " +
			"Or go on in a copy or a new session without them: the stored files are there."}
}

// SetSecrets gives a session the values of its secrets again, by name: of all of them. An interpreter that runs keeps
// those that it has.
func (s *Service) SetSecrets(
	ctx context.Context, caller engine.Caller, id engine.ID, values map[string]engine.SecretValue,
) error {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return err
	}
	if at.id != at.record.ID {
		return missing(id.String())
	}
	secrets := slices.Clone(at.settings.Secrets)
	for i := range secrets {
		value, given := values[secrets[i].Name]
		if !given {
			return engine.Invalid("values", "lack %s: the session has %s", secrets[i].Name, names(secrets))
		}
		secrets[i].Value = value
	}
	if len(values) > len(secrets) {
		return engine.Invalid("values", "are %s, and the secrets of the session are %s",
			strings.Join(slices.Sorted(maps.Keys(values)), ", "), names(secrets))
	}
	if err := s.engine.CheckNetwork(ctx, caller, at.settings.Network, secrets); err != nil {
		return err
	}
	for _, one := range s.within(at.record.ID) {
		one.mu.Lock()
		one.secrets = secrets
		one.mu.Unlock()
	}
	return nil
}

// missed returns what the first cell of a copy says about secrets that only its source has.
func missed(has, given []engine.Secret) string {
	lacks := slices.DeleteFunc(slices.Clone(has), func(s engine.Secret) bool {
		return slices.ContainsFunc(given, func(g engine.Secret) bool { return g.Name == s.Name })
	})
	if len(lacks) == 0 {
		return ""
	}
	return "It has no secrets of what it was copied from: " + names(lacks) + "."
}

func names(secrets []engine.Secret) string {
	if len(secrets) == 0 {
		return "none"
	}
	var list []string
	for _, s := range secrets {
		list = append(list, s.Name)
	}
	return strings.Join(list, ", ")
}

// checkVariables refuses secrets whose variables have another value.
func checkVariables(secrets []engine.Secret, env map[string]string) error {
	for _, s := range secrets {
		if _, set := env[s.Name]; set {
			return engine.Invalid("secrets", "and the environment both set %s", s.Name)
		}
	}
	return nil
}
