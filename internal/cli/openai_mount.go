package cli

import (
	"github.com/airlock-run/airlock/internal/dialect/openai"
	"github.com/airlock-run/airlock/internal/httpd"
)

// openAI mounts what OpenAI's SDKs speak. They cannot do without a key: where none is
// needed any will do.
func (a *app) openAI(s *service) httpd.Mount {
	up := a.cfg.Upstream
	return httpd.Mount{
		Prefix: "/openai/v1",
		Handler: openai.New(openai.Options{
			Engine: s.engine, Live: s.interpreters, Caller: httpd.Caller, Upstream: up.URL, Key: up.Key.Reveal(),
			HTTP:      a.webClient(up.URL),
			MaxUpload: a.cfg.MaxUpload, Bodies: &s.bodies, Log: a.log,
		}),
		Trusted: true, Lenient: true, MaxBody: max(a.cfg.MaxUpload, openai.MaxJSON) + formRoom, Refuse: openai.Refuse,
	}
}
