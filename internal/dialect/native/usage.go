package native

import (
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
)

const monthForm = "2006-01"

// usage answers with what was used in a month.
func (q *request) usage() (any, error) {
	values := q.URL.Query()
	month := engine.DayOf(q.api.engine.Now())
	if text := values.Get("month"); text != "" {
		t, err := time.Parse(monthForm, text)
		if err != nil {
			return nil, rest.Invalid("month must be one such as 2026-11")
		}
		month = engine.DayOf(t)
	}
	users := values.Get("users")
	if users != "" && users != "true" && users != "false" {
		return nil, rest.Invalid("users must be true or false")
	}
	days, more, err := q.api.engine.Consumption(q.Context(), q.Caller, month,
		engine.ConsumptionQuery{Owner: engine.Owner(values.Get("owner")), Users: users == "true"})
	if err != nil {
		return nil, err
	}
	quotas, err := q.api.engine.Months(q.Context(), q.Caller)
	if err != nil {
		return nil, err
	}
	return client.Usage{Month: month.Time().Format(monthForm), More: more,
		Days: rest.Each(days, func(d engine.ConsumptionDay) client.UsageDay {
			return client.UsageDay{Day: d.Day.String(), Owner: string(d.Owner), Key: d.Key, Used: amountsOf(d.Consumption)}
		}),
		Quotas: rest.Each(quotas, func(m engine.MonthState) client.MonthQuota {
			return client.MonthQuota{Of: string(m.Subject), Used: amountsOf(m.Used),
				Most: amountsOf(engine.Consumption(m.Quota))}
		})}, nil
}

func amountsOf(c engine.Consumption) client.Amounts {
	return client.Amounts{Runs: c.Runs, CPU: c.CPU, MemoryByteSeconds: c.Memory, StoredBytes: c.Stored, SentBytes: c.Sent}
}
