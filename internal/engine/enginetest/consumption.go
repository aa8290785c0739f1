package enginetest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// AddConsumption adds to days and months.
func (x *Index) AddConsumption(
	ctx context.Context, days []engine.ConsumptionDay, months []engine.ConsumptionMonth,
) error {
	if err := x.called(ctx, "AddConsumption"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	for _, d := range days {
		i := slices.IndexFunc(x.days, func(e engine.ConsumptionDay) bool {
			return e.Day == d.Day && e.Owner == d.Owner && e.Key == d.Key
		})
		if i < 0 {
			x.days = append(x.days, d)
		} else {
			x.days[i].Consumption = x.days[i].Plus(d.Consumption)
		}
	}
	for _, m := range months {
		at := monthOf{m.Month, m.Subject}
		x.months[at] = x.months[at].Plus(m.Consumption)
	}
	return nil
}

type monthOf struct {
	month   engine.Day
	subject engine.Subject
}

// ConsumptionOf returns the sum of a month.
func (x *Index) ConsumptionOf(
	ctx context.Context, month engine.Day, subject engine.Subject,
) (engine.Consumption, error) {
	if err := x.called(ctx, "ConsumptionOf"); err != nil {
		return engine.Consumption{}, err
	}
	defer x.mu.Unlock()
	return x.months[monthOf{month, subject}], nil
}

// ListConsumption returns days, the oldest first.
func (x *Index) ListConsumption(
	ctx context.Context, q engine.ConsumptionQuery,
) (list []engine.ConsumptionDay, err error) {
	if err := x.called(ctx, "ListConsumption"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	for _, d := range x.days {
		if d.Day < q.From || d.Day >= q.To || q.Owner != "" && q.Owner != d.Owner && q.Owner != d.Owner.Account() {
			continue
		}
		if !q.Users && q.Owner.Account() == q.Owner {
			d.Owner = d.Owner.Account()
		}
		i := slices.IndexFunc(list, func(e engine.ConsumptionDay) bool {
			return e.Day == d.Day && e.Owner == d.Owner && e.Key == d.Key
		})
		if i < 0 {
			list = append(list, d)
		} else {
			list[i].Consumption = list[i].Plus(d.Consumption)
		}
	}
	slices.SortFunc(list, func(a, b engine.ConsumptionDay) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), strings.Compare(string(a.Owner), string(b.Owner)),
			strings.Compare(a.Key, b.Key))
	})
	return list[:min(len(list), q.Limit)], nil
}

// ExpireConsumption deletes days from before one.
func (x *Index) ExpireConsumption(ctx context.Context, before engine.Day, limit int) (int, error) {
	if err := x.called(ctx, "ExpireConsumption"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	n := 0
	x.days = slices.DeleteFunc(x.days, func(d engine.ConsumptionDay) bool {
		old := n < limit && d.Day < before
		if old {
			n++
		}
		return old
	})
	return n, nil
}
