package cli

import (
	"log/slog"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/provider"
)

// redactor knows all secrets of the settings.
func redactor(c *config.Config) *provider.Redactor { return provider.NewRedactor(c.Secrets()...) }

// redactLog takes secrets out of what is logged: errors have words of servers.
func redactLog(r *provider.Redactor) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(r.Error(v))
		case error:
			a.Value = slog.StringValue(r.Error(v.Error()))
		}
		return a
	}
}
