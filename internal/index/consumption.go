package index

import (
	"context"
	"errors"

	"github.com/airlock-run/airlock/internal/engine"
)

const consumptionColumns = "runs, cpu_us, memory, stored, sent"

// sums adds a row to the one that has its key, in a table of consumption.
func sums(table string) string {
	return " DO UPDATE SET runs = " + table + ".runs + excluded.runs, cpu_us = " + table + ".cpu_us + excluded.cpu_us, " +
		"memory = " + table + ".memory + excluded.memory, stored = " + table + ".stored + excluded.stored, " +
		"sent = " + table + ".sent + excluded.sent"
}

var (
	addDay = "INSERT INTO consumption (account, day, owner, key, " + consumptionColumns +
		") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (account, day, owner, key)" + sums("consumption")
	addMonth = "INSERT INTO consumption_months (month, subject, " + consumptionColumns +
		") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (month, subject)" + sums("consumption_months")
)

// AddConsumption adds to days and to months. It does not wait for the disk. The rows are in an order that
// all nodes have, so that no two transactions wait for each other.
func (db *DB) AddConsumption(
	ctx context.Context, days []engine.ConsumptionDay, months []engine.ConsumptionMonth,
) error {
	return db.writeNoSync(ctx, "add consumption", "", func(ctx context.Context, c *conn) error {
		for i := range days {
			d := &days[i]
			if _, err := c.exec(ctx, addDay, d.Owner.Account(), d.Day, d.Owner, d.Key, d.Runs, d.CPU.Microseconds(), d.Memory,
				d.Stored, d.Sent); err != nil {
				return err
			}
		}
		for i := range months {
			m := &months[i]
			if _, err := c.exec(ctx, addMonth, m.Month, m.Subject, m.Runs, m.CPU.Microseconds(), m.Memory, m.Stored,
				m.Sent); err != nil {
				return err
			}
		}
		return nil
	})
}

// ConsumptionOf returns the sums of a month.
func (db *DB) ConsumptionOf(
	ctx context.Context, month engine.Day, subject engine.Subject,
) (sum engine.Consumption, err error) {
	err = db.look(ctx, "get consumption", string(subject), func(c *conn) error {
		return c.row(ctx, []any{&sum.Runs, durationColumn{&sum.CPU}, &sum.Memory, &sum.Stored, &sum.Sent},
			"SELECT "+consumptionColumns+" FROM consumption_months WHERE month = $1 AND subject = $2", month, subject)
	})
	if errors.Is(err, engine.ErrNotFound) {
		err = nil // nothing was used
	}
	return sum, err
}

// ListConsumption returns days, the oldest first.
func (db *DB) ListConsumption(ctx context.Context, q engine.ConsumptionQuery) ([]engine.ConsumptionDay, error) {
	where, args := "day >= $1 AND day < $2", arguments{q.From, q.To}
	if q.Owner != "" {
		where += " AND account = " + args.add(q.Owner.Account())
		if q.Owner.Account() != q.Owner {
			where += " AND owner = " + args.add(q.Owner)
		}
	}
	columns := "day, account, key, CAST(sum(runs) AS BIGINT), CAST(sum(cpu_us) AS BIGINT), CAST(sum(memory) AS BIGINT), " +
		"CAST(sum(stored) AS BIGINT), CAST(sum(sent) AS BIGINT)"
	order := "day, account, key"
	group := " GROUP BY " + order
	if q.Users || q.Owner.Account() != q.Owner {
		columns, order, group = "day, owner, key, "+consumptionColumns, "day, owner, key", ""
	}
	limit := args.add(q.Limit)
	return list(ctx, db, "list consumption", func(row scanner) (d engine.ConsumptionDay, err error) {
		err = row.Scan(&d.Day, &d.Owner, &d.Key, &d.Runs, durationColumn{&d.CPU}, &d.Memory, &d.Stored, &d.Sent)
		return d, err
	}, "SELECT "+columns+" FROM consumption WHERE "+where+group+" ORDER BY "+order+" LIMIT "+limit, args...)
}

// ExpireConsumption deletes up to limit days from before one, and as many months that ended before it.
func (db *DB) ExpireConsumption(ctx context.Context, before engine.Day, limit int) (n int, err error) {
	err = db.erase(ctx, "expire consumption", "", func(ctx context.Context, c *conn) error {
		days, err := c.exec(ctx, `DELETE FROM consumption WHERE (account, day, owner, key) IN
			(SELECT account, day, owner, key FROM consumption WHERE day < $1 LIMIT $2)`, before, limit)
		if err != nil {
			return err
		}
		months, err := c.exec(ctx, `DELETE FROM consumption_months WHERE (month, subject) IN
			(SELECT month, subject FROM consumption_months WHERE month < $1 LIMIT $2)`,
			before.Month(), limit)
		n = max(days, months)
		return err
	})
	return n, err
}
