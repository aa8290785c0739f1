package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/provider/local"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB) (*local.Client, *providertest.LocalServer) {
	s := providertest.NewLocalServer(tb)
	c, err := local.New(local.Options{URL: s.URL + "/v1", Runner: s.Runner, Clock: s.Clock})
	if err != nil {
		tb.Fatal(err)
	}
	return c, s
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, func(tb testing.TB) providertest.Bench {
		c, s := open(tb)
		return providertest.Bench{Provider: c, Server: s, Clock: s.Clock, Model: providertest.LocalModel}
	})
}
