package anthropic_test

import (
	"testing"

	"github.com/airlock-run/airlock/assist/provider/anthropic"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func open(tb testing.TB) (*anthropic.Client, *providertest.AnthropicServer) {
	s := providertest.NewAnthropicServer(tb)
	c, err := anthropic.New(anthropic.Options{Key: "sk-ant-test", URL: s.URL, Clock: s.Clock})
	if err != nil {
		tb.Fatal(err)
	}
	return c, s
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, func(tb testing.TB) providertest.Bench {
		c, s := open(tb)
		return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.AnthropicModel}
	})
}
