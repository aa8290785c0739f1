package metrics_test

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/metrics"
)

func Example() {
	counters := &provider.Counters{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(metrics.Counting(counters)))

	counters.Turn(provider.OpenAI, "gpt-5.1", 2*time.Second, nil)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "airlock_provider_turns_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: airlock_provider_turns_total 1
}
