package provider_test

import (
	"os"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// service is a real one. It is asked with the key and, if there is one, the model
// of the environment; every turn costs a little money.
type service struct {
	name, key, model, usual string
	open                    func(t *testing.T, key string) (provider.Provider, error)
}

func services() []service {
	return []service{
		{provider.OpenAI, "OPENAI_API_KEY", "AIRLOCK_LIVE_OPENAI_MODEL", "gpt-5.1",
			func(_ *testing.T, key string) (provider.Provider, error) {
				return openai.New(openai.Options{Key: key, URL: os.Getenv("OPENAI_BASE_URL")})
			}},
		{provider.Anthropic, "ANTHROPIC_API_KEY", "AIRLOCK_LIVE_ANTHROPIC_MODEL", "claude-sonnet-5",
			func(_ *testing.T, key string) (provider.Provider, error) {
				return anthropic.New(anthropic.Options{Key: key, URL: os.Getenv("ANTHROPIC_BASE_URL")})
			}},
		{provider.Gemini, "GEMINI_API_KEY", "AIRLOCK_LIVE_GEMINI_MODEL", "gemini-3-pro",
			func(t *testing.T, key string) (provider.Provider, error) {
				return gemini.New(gemini.Options{Key: key, URL: os.Getenv("GEMINI_BASE_URL")})
			}},
		{provider.XAI, "XAI_API_KEY", "AIRLOCK_LIVE_XAI_MODEL", "grok-5",
			func(_ *testing.T, key string) (provider.Provider, error) {
				return xai.New(xai.Options{Key: key, URL: os.Getenv("XAI_BASE_URL")})
			}},
	}
}

// TestLive asks the real services, where AIRLOCK_LIVE_TESTS=1 and a key are set.
// Run it with -v: it says what it did, what it left out, and why.
func TestLive(t *testing.T) {
	if os.Getenv("AIRLOCK_LIVE_TESTS") != "1" {
		t.Skip("the real services are asked with AIRLOCK_LIVE_TESTS=1 and their keys")
	}
	for _, s := range services() {
		t.Run(s.name, func(t *testing.T) {
			key := os.Getenv(s.key)
			if key == "" {
				t.Skipf("%s is not set", s.key)
			}
			model := os.Getenv(s.model)
			if model == "" {
				model = s.usual
				t.Logf("%s is not set: %s is asked", s.model, model)
			}
			p, err := s.open(t, key)
			if err != nil {
				t.Fatal(err)
			}
			providertest.Live(t, p, model, provider.SystemClock{})
		})
	}
}

// TestLiveItself runs what TestLive runs against the test servers.
func TestLiveItself(t *testing.T) {
	for _, open := range benches() {
		t.Run(open.name, func(t *testing.T) {
			b := open.make(t)
			step := providertest.Step{Code: "sum()", Stdout: "42\n",
				Files: []providertest.Made{{Name: "sum.txt", Data: []byte("42\n")}}}
			if b.Provider.Caps().Outputs == provider.OutputStdout {
				step.Stdout, step.Files = provider.Frame("sum.txt", []byte("42\n")), nil
			}
			b.Server.Script(providertest.Turn{Steps: []providertest.Step{step}, Text: "[sum.txt](sandbox:/mnt/data/sum.txt)"})
			providertest.Live(t, b.Provider, b.Model, b.Clock)
			if left := b.Server.Objects(); len(left) > 0 {
				t.Errorf("left at the provider: %v", left)
			}
		})
	}
}
