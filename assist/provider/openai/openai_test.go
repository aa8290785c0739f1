package openai_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/openai"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB) (*providertest.OpenAI, *openai.Client) {
	tb.Helper()
	s := providertest.NewOpenAI(tb)
	web := provider.HTTPClient(provider.HTTPOptions{})
	tb.Cleanup(web.CloseIdleConnections)
	c, err := openai.New(openai.Options{Key: providertest.OpenAIKey, URL: s.URL + "/v1", HTTP: web, Clock: s.Clock,
		Retry: provider.Retry{Clock: s.Clock}})
	if err != nil {
		tb.Fatal(err)
	}
	return s, c
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, func(tb testing.TB) providertest.Bench {
		s, c := open(tb)
		return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: "gpt-5.1"}
	})
}
