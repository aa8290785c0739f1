package provider_test

import (
	"net/http"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/gemini"
	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
	"github.com/airlock-run/airlock/assist/provider/xai"
)

// bench makes a provider over its test server.
type bench struct {
	name string
	make func(testing.TB) providertest.Bench
}

// benches are all providers.
func benches() []bench {
	must := func(tb testing.TB, err error) {
		if err != nil {
			tb.Helper()
			tb.Fatal(err)
		}
	}
	web := func(tb testing.TB) *http.Client {
		c := provider.HTTPClient(provider.HTTPOptions{})
		tb.Cleanup(c.CloseIdleConnections)
		return c
	}
	return []bench{
		{provider.OpenAI, func(tb testing.TB) providertest.Bench {
			s := providertest.NewOpenAI(tb)
			c, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: s.URL + "/v1", HTTP: web(tb), Clock: s.Clock,
				Retry: provider.Retry{Clock: s.Clock}})
			must(tb, err)
			return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: "gpt-5.1"}
		}},
		{provider.Anthropic, func(tb testing.TB) providertest.Bench {
			s := providertest.NewAnthropicServer(tb)
			c, err := anthropic.New(anthropic.Options{Key: "sk-ant-test", URL: s.URL, HTTP: web(tb), Clock: s.Clock})
			must(tb, err)
			return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.AnthropicModel}
		}},
		{provider.Gemini, func(tb testing.TB) providertest.Bench {
			s := providertest.NewGeminiServer(tb)
			c, err := gemini.New(gemini.Options{Key: "test", URL: s.URL, HTTP: web(tb), Clock: s.Clock})
			must(tb, err)
			return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.GeminiModel}
		}},
		{provider.XAI, func(tb testing.TB) providertest.Bench {
			s := providertest.NewXAIServer(tb)
			c, err := xai.New(xai.Options{Key: "test", URL: s.URL + "/v1", HTTP: web(tb), Clock: s.Clock})
			must(tb, err)
			return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.XAIModel}
		}},
		{provider.Local, func(tb testing.TB) providertest.Bench {
			s := providertest.NewLocalServer(tb)
			c, err := local.New(local.Options{URL: s.URL + "/v1", Runner: s.Runner, HTTP: web(tb), Clock: s.Clock})
			must(tb, err)
			return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.LocalModel}
		}},
	}
}
